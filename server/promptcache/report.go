package promptcache

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/record"
)

const (
	mostOpen     = 50  // pairs of requests that one report reads, those that cost most
	mostShown    = 100 // breaks that one report lists
	mostProjects = 20
)

// sequence identifies requests that share a cache: those of a session and surface, and its client's own ones apart.
type sequence struct{ session, surface, auxiliary string }

// Tally collects the breaks of exchanges that it is given newest first.
type Tally struct {
	*Caches
	report api.CacheReport
	next   map[sequence]*record.ExchangeInfo // the request after the one that comes
}

// NewTally returns an empty tally.
func (c *Caches) NewTally() *Tally {
	return &Tally{Caches: c, report: api.CacheReport{Object: "memory.cache", Complete: true, Breaks: []*api.CacheBreak{}, Reasons: []*api.CacheReason{}}, next: make(map[sequence]*record.ExchangeInfo)}
}

// leavesCache reports whether a request has left something in a cache that the next one could read.
func leavesCache(x *record.ExchangeInfo) bool {
	return x.Session != "" && x.Outcome != record.OutcomeRefused && x.Outcome != record.OutcomeDamaged && x.Outcome != record.OutcomeOpen && !x.Started.IsZero()
}

// Add adds an exchange.
func (t *Tally) Add(x *record.ExchangeInfo) {
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

// Within sets the range of time that the report is for.
func (t *Tally) Within(since, until time.Time) { t.report.Since, t.report.Until = since, until }

// Incomplete notes that there are more exchanges than were added.
func (t *Tally) Incomplete() { t.report.Complete = false }

// End reads the requests that cost most, and sums up the reasons.
func (t *Tally) End(account string) *api.CacheReport {
	r := &t.report
	slices.SortFunc(r.Breaks, costliest)
	opened := 0
	reasons, projects := make(reasonSums), make(reasonSums)
	for _, b := range r.Breaks {
		if b.Reason == "" && opened < mostOpen {
			opened++
			t.open(account, b)
		}
		b.Reason = cmp.Or(b.Reason, api.BrokenUnread)
		reasons.add(b, "")
		if b.Project != "" {
			projects.add(b, b.Project)
		}
	}
	r.Reasons, r.Projects = append(r.Reasons, reasons.sorted()...), projects.sorted()
	r.Projects = r.Projects[:min(len(r.Projects), mostProjects)]
	r.Breaks = r.Breaks[:min(len(r.Breaks), mostShown)]
	return r
}

// costliest compares breaks: the most expensive is first.
func costliest(a, b *api.CacheBreak) int {
	return cmp.Or(cmp.Compare(b.Lost, a.Lost), cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(b.Exchange, a.Exchange))
}

// reasonSums are sums of breaks by reason, and by project where it is given.
type reasonSums map[[2]string]*api.CacheReason

func (s reasonSums) add(b *api.CacheBreak, project string) {
	sum := s[[2]string{b.Reason, project}]
	if sum == nil {
		sum = &api.CacheReason{Reason: b.Reason, Project: project}
		s[[2]string{b.Reason, project}] = sum
	}
	sum.Count++
	sum.Tokens += b.Tokens
	sum.Lost += b.Lost
}

// sorted returns the sums, the most expensive first.
func (s reasonSums) sorted() []*api.CacheReason {
	return slices.SortedFunc(maps.Values(s), func(a, b *api.CacheReason) int {
		return cmp.Or(cmp.Compare(b.Lost, a.Lost), cmp.Compare(b.Tokens, a.Tokens), cmp.Compare(a.Reason+a.Project, b.Reason+b.Project))
	})
}

// open reads the two requests of a break, and completes it with their difference.
func (c *Caches) open(account string, b *api.CacheBreak) {
	now, err := c.Archive.Exchange(account, b.Exchange)
	if err != nil {
		return // erased in the meantime, or damaged
	}
	c.compare(account, b, now)
}

// compare completes a break of a request with its difference from the one before.
func (c *Caches) compare(account string, b *api.CacheBreak, now *record.Exchange) {
	before, err := c.Archive.Exchange(account, b.Previous)
	if err != nil {
		return // as in open
	}
	if !before.Imported.IsZero() || !now.Imported.IsZero() {
		b.Reason = api.BrokenUnread // an imported request is not the one that was sent
		return
	}
	was, is := Prefix(before.RawRequest), Prefix(now.RawRequest)
	_, differs := Compare(is, was)
	explain(b, was, is, differs)
}
