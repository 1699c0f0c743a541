package memory

import (
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/causes"
	"github.com/mnemeproxy/mneme/server/promptcache"
	"github.com/mnemeproxy/mneme/store/record"
)

// mostCostBytes is how many bytes of requests and answers one page of costs reads. It reads one exchange at least.
const mostCostBytes = 64 << 20

// costs reports what exchanges were for: those of an account, of a session, or one. It reads their requests, the newest
// first, and so gives pages.
func (h *handler) costs(c *call) (any, error) {
	names, session, exchange := c.query.list("by"), c.query.text("session"), c.query.text("exchange")
	since, until := c.query.time("since"), c.query.time("until")
	after, _, limit, _ := c.query.page(false)
	if err := c.query.end(); err != nil {
		return nil, err
	}
	sum, err := causes.NewSum(names)
	if err != nil {
		return nil, err
	}
	p := costPage{handler: h, call: c, sum: sum, since: since, until: until}
	if exchange != "" {
		info, err := h.Archive.ExchangeInfo(c.account, exchange)
		if err != nil {
			return nil, err
		}
		err = p.add(info)
		return sum.Costs(), err
	}
	infos, more, err := h.page(c.account, session, after, limit)
	if err != nil {
		return nil, err
	}
	for i := range infos {
		if p.bytes >= mostCostBytes {
			more = true
			break
		}
		if !since.IsZero() && infos[i].Started.Before(since) && !infos[i].Started.IsZero() {
			more = false // ids are in the order of time
			break
		}
		if err := p.add(&infos[i]); err != nil {
			return nil, err
		}
		p.last = infos[i].ID
	}
	answer := sum.Costs()
	answer.Since, answer.Until, answer.HasMore, answer.LastID = since, until, more, p.last
	return answer, nil
}

// page returns a page of exchanges of an account or a session, the newest first.
func (h *handler) page(account, session, after string, limit int) (infos []record.ExchangeInfo, more bool, err error) {
	if session == "" {
		page, err := h.Archive.Exchanges(account, record.ExchangeQuery{After: after, Limit: limit})
		return page.Data, page.HasMore, err
	}
	page, err := h.Archive.Timeline(account, session, record.TimelineQuery{After: after, Limit: limit, Descending: true})
	for i := range page.Data {
		infos = append(infos, page.Data[i].Exchange)
	}
	return infos, page.HasMore, err
}

// costPage adds exchanges to a page of costs.
type costPage struct {
	*handler
	*call
	sum          *causes.Sum
	since, until time.Time
	bytes        int64 // read
	last         string
}

// add reads an exchange and adds it, if it belongs to the page. One that is erased in the meantime, or damaged, has no
// causes.
func (p *costPage) add(info *record.ExchangeInfo) error {
	if err := p.ctx().Err(); err != nil {
		return err
	}
	usage := codec.Usage(info.Usage)
	if !p.until.IsZero() && !info.Started.Before(p.until) || info.Cost == nil && usage.Total() == 0 {
		return nil
	}
	x, err := p.Archive.Exchange(p.account, info.ID)
	if err != nil {
		x = &record.Exchange{ExchangeInfo: *info}
	}
	p.bytes += int64(len(x.RawRequest) + len(x.RawResponse))
	var price *router.Price
	if p.Prices != nil {
		price = p.Prices.Price(x.Provider, x.ModelSent, x.Started)
	}
	p.sum.Add(info, causes.Of(x, price))
	return nil
}

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
