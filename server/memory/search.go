package memory

import (
	"context"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// headerWait asks a search to wait until everything recorded before it is indexed.
const headerWait = "X-Service-Memory-Wait"

const (
	waitIndexed  = "indexed"
	longestWait  = 2 * time.Second
	notYetAnswer = "index:behind" // the wait ended before everything was indexed
)

func (h *handler) search(c *call) (any, error) {
	var asked search.Request
	if err := c.read(&asked); err != nil {
		return nil, err
	}
	late, err := h.waitIndexed(c)
	if err != nil {
		return nil, err
	}
	answer, err := h.find(c, &asked)
	if err != nil {
		return nil, err
	}
	c.records = int64(len(answer.Data))
	if late {
		answer.Degraded = append(answer.Degraded, notYetAnswer)
	}
	return answer, nil
}

// find searches, also for an exchange or a session by its id. If nothing is found it says what the account does not have.
func (h *handler) find(c *call, asked *search.Request) (*search.Answer, error) {
	id := strings.TrimSpace(asked.Query)
	if strings.HasPrefix(id, exchangePrefix) {
		if turn, err := h.Archive.Turn(c.account, id); err == nil {
			return &search.Answer{Object: "memory.search", ModeUsed: search.Lexical, Data: []search.Hit{search.HitOf(&turn)}}, nil
		}
	}
	answer, err := h.Searcher.Search(c.ctx(), c.account, asked)
	if err != nil || len(answer.Data) > 0 {
		return answer, err
	}
	if strings.HasPrefix(id, sessionPrefix) {
		read := func(id string) (*record.Session, error) { return h.Archive.Session(c.account, id) }
		if session, err := record.FollowMerges(id, read); err == nil {
			of := *asked
			of.Query, of.Newest = "", true
			of.Filter = search.Filter{Field: "session", Op: "eq", Value: session.ID}
			return h.Searcher.Search(c.ctx(), c.account, &of)
		}
	}
	if all, err := h.Searcher.Search(c.ctx(), c.account, &search.Request{Newest: true, Limit: 1, Facets: true}); err == nil {
		answer.Hints = search.Hints(asked, all.Facets)
	}
	return answer, nil
}

// Prefixes of ids.
const (
	exchangePrefix = "exch_"
	sessionPrefix  = "sess_"
)

// waitIndexed waits, if the caller asks for it, until the account's finished exchanges can be found.
func (h *handler) waitIndexed(c *call) (late bool, err error) {
	switch c.r.Header.Get(headerWait) {
	case "":
		return false, nil
	case waitIndexed:
	default:
		return false, codec.Invalid(headerWait, "the only thing to wait for is %q", waitIndexed)
	}
	ctx, cancel := context.WithTimeout(c.ctx(), longestWait)
	defer cancel()
	err = h.Searcher.Wait(ctx, c.account)
	if ctx.Err() != nil && c.ctx().Err() == nil {
		return true, nil
	}
	return false, err
}
