package memory

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/record"
)

// A prompt cache is broken by a request if it has much less of it than the request before it in its session could have
// left there. Reasons are looked for from the outside in: what another model or a pause loses is lost whatever the
// request says.

const (
	leastLost = 1024      // tokens: providers cache no shorter prompt
	mostRead  = 20_000    // exchanges that one report looks at, the newest ones
	mostOpen  = 50        // pairs of requests that one report reads, those that cost most
	mostShown = 100       // breaks that one report lists
	pageRead  = 1000      // exchanges read at a time
	cacheAge  = time.Hour // the longest that any provider keeps a prompt that is not asked for
)

// lostTokens returns how many tokens of a prompt the request before it had left in a cache, and were not read from there;
// 0 if the cache is not broken.
func lostTokens(before, now *record.ExchangeInfo) int64 {
	had := before.Usage.CacheRead + before.Usage.CacheWrite
	asked := now.Usage.InputUncached + now.Usage.CacheRead + now.Usage.CacheWrite
	if lost := min(had, asked) - now.Usage.CacheRead; lost >= leastLost && now.Usage.CacheRead < had/2 {
		return lost
	}
	return 0
}

// keptFor returns how long the provider keeps what a request left in a cache.
func keptFor(x *record.ExchangeInfo) time.Duration {
	switch {
	case x.Usage.CacheLong > 0:
		return cacheAge
	case x.Usage.CacheWrite > 0 || x.Format == "messages":
		return 5 * time.Minute
	}
	return 10 * time.Minute
}

// newBreak returns the break between two requests, with the reason if their records tell it.
func (h *handler) newBreak(before, now *record.ExchangeInfo) *api.CacheBreak {
	b := &api.CacheBreak{Exchange: now.ID, Session: now.Session, Previous: before.ID, Started: now.Started, Tokens: lostTokens(before, now)}
	if h.CacheLoss != nil && b.Tokens > 0 {
		b.Lost = h.CacheLoss(now, now.Usage.CacheRead+b.Tokens)
	}
	idle, kept := now.Started.Sub(before.LastByte), keptFor(before)
	switch {
	case before.Provider != now.Provider:
		b.Reason, b.Before, b.Now = api.BrokenByProvider, before.Provider, now.Provider
	case before.ModelSent != now.ModelSent:
		b.Reason, b.Before, b.Now = api.BrokenByModel, before.ModelSent, now.ModelSent
	case !before.LastByte.IsZero() && idle > kept:
		b.Reason, b.Idle, b.Kept = api.BrokenByPause, idle.Milliseconds(), kept.Milliseconds()
	}
	return b
}

// explain completes a break without a reason from the two requests.
func explain(b *api.CacheBreak, before, now []block, differs *api.ContextBreak) {
	was, is := textsOf(before, "tools"), textsOf(now, "tools")
	switch {
	case b.Reason != "":
	case !slices.EqualFunc(was, is, bytes.Equal):
		b.Reason = api.BrokenByTools
		slices.SortFunc(was, bytes.Compare)
		slices.SortFunc(is, bytes.Compare)
		if slices.EqualFunc(was, is, bytes.Equal) {
			b.Reason = api.BrokenByOrder
		}
	case differs != nil:
		b.Reason, b.Kind, b.Index = api.BrokenByBlock, differs.Kind, differs.Index
	default:
		b.Reason = api.BrokenByProviderItself
	}
}

func textsOf(blocks []block, kind string) (texts [][]byte) {
	for i := range blocks {
		if blocks[i].kind == kind {
			texts = append(texts, unmarked(blocks[i].text))
		}
	}
	return texts
}

// sequence identifies requests that share a cache: those of a session and surface, and its client's own ones apart.
type sequence struct{ session, surface, auxiliary string }

// cacheTally collects the breaks of exchanges that it is given newest first.
type cacheTally struct {
	*handler
	report api.CacheReport
	next   map[sequence]*record.ExchangeInfo // the request after the one that comes
}

func (h *handler) newTally() *cacheTally {
	return &cacheTally{handler: h, report: api.CacheReport{Object: "memory.cache", Complete: true, Breaks: []*api.CacheBreak{}, Reasons: []*api.CacheReason{}}, next: make(map[sequence]*record.ExchangeInfo)}
}

// leavesCache reports whether a request has left something in a cache that the next one could read.
func leavesCache(x *record.ExchangeInfo) bool {
	return x.Session != "" && x.Outcome != record.OutcomeRefused && x.Outcome != record.OutcomeDamaged && x.Outcome != record.OutcomeOpen && !x.Started.IsZero()
}

func (t *cacheTally) add(x *record.ExchangeInfo) {
	if !leavesCache(x) {
		return
	}
	t.report.Exchanges++
	t.report.Read += x.Usage.CacheRead
	at := sequence{x.Session, x.Surface, x.Auxiliary}
	if now := t.next[at]; now != nil && lostTokens(x, now) > 0 {
		b := t.newBreak(x, now)
		t.report.Breaks = append(t.report.Breaks, b)
		t.report.Tokens += b.Tokens
		t.report.Lost += b.Lost
	}
	t.next[at] = x
}

// end reads the requests that cost most, and sums up the reasons.
func (t *cacheTally) end(account string) *api.CacheReport {
	r := &t.report
	slices.SortFunc(r.Breaks, func(a, b *api.CacheBreak) int {
		return cmp.Or(cmp.Compare(b.Lost, a.Lost), cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(b.Exchange, a.Exchange))
	})
	opened := 0
	reasons := make(map[string]*api.CacheReason)
	for _, b := range r.Breaks {
		if b.Reason == "" && opened < mostOpen {
			opened++
			t.open(account, b)
		}
		b.Reason = cmp.Or(b.Reason, api.BrokenUnread)
		sum := reasons[b.Reason]
		if sum == nil {
			sum = &api.CacheReason{Reason: b.Reason}
			reasons[b.Reason] = sum
		}
		sum.Count++
		sum.Tokens += b.Tokens
		sum.Lost += b.Lost
	}
	r.Reasons = slices.AppendSeq(r.Reasons, maps.Values(reasons))
	slices.SortFunc(r.Reasons, func(a, b *api.CacheReason) int {
		return cmp.Or(cmp.Compare(b.Lost, a.Lost), cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(a.Reason, b.Reason))
	})
	r.Breaks = r.Breaks[:min(len(r.Breaks), mostShown)]
	return r
}

// open reads the two requests of a break.
func (t *cacheTally) open(account string, b *api.CacheBreak) {
	before, err := t.Archive.Exchange(account, b.Previous)
	if err != nil {
		return // erased in the meantime, or damaged
	}
	now, err := t.Archive.Exchange(account, b.Exchange)
	if err != nil {
		return
	}
	if !before.Imported.IsZero() || !now.Imported.IsZero() {
		b.Reason = api.BrokenUnread // an imported request is not the one that was sent
		return
	}
	var compared api.Context
	was, is := prefixOf(before.RawRequest), prefixOf(now.RawRequest)
	compare(&compared, is, was)
	explain(b, was, is, compared.Break)
}

// read adds page after page, until there are no more or the report has looked at as many exchanges as it may. page adds one
// and returns how many it has, and whether there are more.
func (t *cacheTally) read(c *call, page func() (n int, more bool, err error)) (any, error) {
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
			t.report.Complete = !more
			return t.end(c.account), nil
		}
	}
}

// sessionCache reports what broke the cache in a session.
func (h *handler) sessionCache(c *call) (any, error) {
	if err := c.query.end(); err != nil {
		return nil, err
	}
	t, q := h.newTally(), record.TimelineQuery{Limit: 100, Descending: true}
	return t.read(c, func() (int, bool, error) {
		page, err := h.Archive.Timeline(c.account, c.id(), q)
		for i := range page.Data {
			t.add(&page.Data[i].Exchange)
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
	t, q := h.newTally(), record.ExchangeQuery{Limit: pageRead}
	t.report.Since, t.report.Until = since, until
	return t.read(c, func() (int, bool, error) {
		page, err := h.Archive.Exchanges(c.account, q)
		for i := range page.Data {
			x := &page.Data[i]
			if x.Started.Before(since) && !x.Started.IsZero() {
				return i, false, err
			}
			if until.IsZero() || x.Started.Before(until) {
				t.add(x)
			}
			q.After = x.ID
		}
		return len(page.Data), page.HasMore, err
	})
}
