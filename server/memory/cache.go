package memory

import (
	"time"

	"github.com/mnemeproxy/mneme/server/promptcache"
	"github.com/mnemeproxy/mneme/store/record"
)

const (
	mostRead = 20_000 // exchanges that one report on caches looks at, the newest ones
	pageRead = 1000   // exchanges read at a time
)

// report adds page after page to a tally, until there are no more or it has looked at as many exchanges as it may. page adds
// one and returns how many it has, and whether there are more.
func report(c *call, t *promptcache.Tally, page func() (n int, more bool, err error)) (any, error) {
	for total := 0; ; {
		n, more, err := page()
		if err == nil {
			err = c.ctx().Err()
		}
		if err != nil {
			return nil, err
		}
		total += n
		if more = more && n > 0; !more || total >= mostRead {
			if more {
				t.Incomplete()
			}
			return t.End(c.account), nil
		}
	}
}

// sessionCache reports what broke the cache in a session.
func (h *handler) sessionCache(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	t, q := h.caches.NewTally(), record.TimelineQuery{Limit: 100, Descending: true}
	return report(c, t, func() (int, bool, error) {
		page, err := h.Archive.Timeline(c.account, c.id(), q)
		for i := range page.Data {
			t.Add(&page.Data[i].Exchange)
			q.After = page.Data[i].Exchange.ID
		}
		return len(page.Data), page.HasMore, err
	})
}

// cache reports what broke the caches of an account's sessions in a range of time.
func (h *handler) cache(c *call) (any, error) {
	since, until := c.query.time("since"), c.query.time("until")
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if since.IsZero() {
		since = time.Now().AddDate(0, 0, -7)
	}
	t, q := h.caches.NewTally(), record.ExchangeQuery{Limit: pageRead}
	t.Within(since, until)
	return report(c, t, func() (int, bool, error) {
		page, err := h.Archive.Exchanges(c.account, q)
		for i := range page.Data {
			x := &page.Data[i]
			if x.Started.Before(since) && !x.Started.IsZero() {
				return i, false, err
			}
			if until.IsZero() || x.Started.Before(until) {
				t.Add(x)
			}
			q.After = x.ID
		}
		return len(page.Data), page.HasMore, err
	})
}

// forecast returns what the next prompt of a session costs.
func (h *handler) forecast(c *call) (any, error) {
	model := c.query.text("model")
	if err := c.query.end(); err != nil {
		return nil, err
	}
	session, err := h.Archive.Session(c.account, c.id())
	if err != nil {
		return nil, err
	}
	return h.caches.Forecast(c.account, session.ID, model)
}
