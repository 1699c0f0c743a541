package memory

import (
	"encoding/json"
	"net/http"

	"github.com/mnemeproxy/mneme/store"
)

// NewErasure asks for an erasure.
type NewErasure struct {
	store.Selection
	DryRun bool `json:"dry_run,omitempty"` // count, and erase nothing
}

// Erasure is the receipt of an erasure.
type Erasure struct {
	Object string `json:"object"` // "memory.erasure"
	store.Erasure
}

func (a *api) erase(c *call) (any, error) {
	var asked NewErasure
	if err := c.read(&asked); err != nil {
		return nil, err
	}
	return a.eraseSelected(c, asked.Selection, asked.DryRun)
}

// eraseSelected answers with a receipt to follow the erasure by, or with what a dry run counted.
func (a *api) eraseSelected(c *call, selection store.Selection, dryRun bool) (any, error) {
	if dryRun {
		e, err := a.Archive.Erase(c.ctx(), c.account, selection, dryRun)
		if err != nil {
			return nil, err
		}
		return Erasure{Object: "memory.erasure", Erasure: *e}, nil
	}
	actor, err := a.Actor(c.r)
	if err != nil {
		return nil, err
	}
	asked, err := json.Marshal(selection)
	if err != nil {
		return nil, err
	}
	var e *store.Erasure
	err = a.Archive.Audited(store.AuditEntry{Actor: actor, Action: "memory.erase", Account: c.account, Asked: asked}, func(entry *store.AuditEntry) error {
		e, err = a.Archive.Erase(c.ctx(), c.account, selection, dryRun)
		if err == nil {
			entry.Subject = e.ID
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	c.status = http.StatusAccepted
	return Erasure{Object: "memory.erasure", Erasure: *e}, nil
}

func (a *api) erasure(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	e, err := a.Archive.Erasure(c.account, c.id())
	if err != nil {
		return nil, err
	}
	return Erasure{Object: "memory.erasure", Erasure: *e}, nil
}
