package memory

import (
	"context"
	"time"

	"github.com/mnemeproxy/mneme/codec"
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
	answer, err := h.Searcher.Search(c.ctx(), c.account, &asked)
	if err != nil {
		return nil, err
	}
	if late {
		answer.Degraded = append(answer.Degraded, notYetAnswer)
	}
	return answer, nil
}

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
