package memory

import (
	"encoding/json"
	"net/http"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

func (h *handler) erase(c *call) (any, error) {
	var asked api.NewErasure
	if err := c.read(&asked); err != nil {
		return nil, err
	}
	return h.eraseSelected(c, asked.Selection, asked.DryRun)
}

// eraseSelected answers with a receipt for following the erasure, or with the counts of a dry run.
func (h *handler) eraseSelected(c *call, selection record.Selection, dryRun bool) (any, error) {
	if dryRun {
		e, err := h.Archive.Erase(c.ctx(), c.account, selection, dryRun)
		if err != nil {
			return nil, err
		}
		c.records = e.Exchanges + e.Open
		return api.NewReceipt(e), nil
	}
	actor, err := h.Actor(c.r)
	if err != nil {
		return nil, err
	}
	asked, err := json.Marshal(selection)
	if err != nil {
		return nil, err
	}
	var e *record.Erasure
	err = h.Archive.Audited(store.AuditEntry{Actor: actor, Action: "memory.erase", Account: c.account, Asked: asked}, func(entry *store.AuditEntry) error {
		e, err = h.Archive.Erase(c.ctx(), c.account, selection, dryRun)
		if err == nil {
			entry.Subject = e.ID
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	c.status, c.records = http.StatusAccepted, e.Exchanges+e.Open
	return api.NewReceipt(e), nil
}

func (h *handler) erasure(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	e, err := h.Archive.Erasure(c.account, c.id())
	if err != nil {
		return nil, err
	}
	return api.NewReceipt(e), nil
}
