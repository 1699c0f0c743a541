package memory

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
)

// Usage is what exchanges used and cost, in total and by what was asked for.
type Usage struct {
	Object string      `json:"object"` // "memory.usage"
	By     []string    `json:"by"`
	Since  time.Time   `json:"since,omitzero"`
	Until  time.Time   `json:"until,omitzero"`
	Data   []UsageLine `json:"data"` // by time, and then by cost, the highest first
	Total  UsageLine   `json:"total"`
}

// UsageLine is what some of the exchanges used and cost. Of the members that tell which, those that were asked for are there.
type UsageLine struct {
	Hour     time.Time `json:"hour,omitzero"`
	Day      string    `json:"day,omitempty"`   // of UTC, "2026-11-20"
	Month    string    `json:"month,omitempty"` // "2026-11"
	Account  string    `json:"account,omitempty"`
	Key      string    `json:"key,omitempty"` // its id, or "imported"
	Project  string    `json:"project,omitempty"`
	Client   string    `json:"client,omitempty"`
	Provider string    `json:"provider,omitempty"`
	Model    string    `json:"model,omitempty"`

	store.Rollup
	CacheShare   float64 `json:"cache_share"`              // of the prompts' tokens, those read from a cache; 0 to 1
	FirstByteP50 int64   `json:"first_byte_p50,omitempty"` // in milliseconds, about
	FirstByteP95 int64   `json:"first_byte_p95,omitempty"`
}

// usageID is what lines are told apart by.
type usageID struct {
	hour                                                 int64
	span, account, key, project, client, provider, model string
}

// usageBy are the names that usage can be asked for by, and what each of them takes over into a line.
var usageBy = map[string]func(line *UsageLine, of *store.RollupOf){
	"hour":     func(l *UsageLine, of *store.RollupOf) { l.Hour = of.Hour },
	"day":      func(l *UsageLine, of *store.RollupOf) { l.Day = of.Hour.Format(time.DateOnly) },
	"month":    func(l *UsageLine, of *store.RollupOf) { l.Month = of.Hour.Format("2006-01") },
	"account":  func(l *UsageLine, of *store.RollupOf) { l.Account = of.Account },
	"key":      func(l *UsageLine, of *store.RollupOf) { l.Key = of.KeyID },
	"project":  func(l *UsageLine, of *store.RollupOf) { l.Project = of.Project },
	"client":   func(l *UsageLine, of *store.RollupOf) { l.Client = of.Client },
	"provider": func(l *UsageLine, of *store.RollupOf) { l.Provider = of.Provider },
	"model":    func(l *UsageLine, of *store.RollupOf) { l.Model = of.Model },
}

// UsageQuery asks for usage.
type UsageQuery struct {
	store.RollupQuery
	By []string // names of [UsageBy]; none: the total alone
}

// UsageBy are the names that usage can be asked for by.
func UsageBy() []string {
	return []string{"hour", "day", "month", "account", "key", "project", "client", "provider", "model"}
}

// ReadUsage adds up what exchanges used and cost. It reads rollups, and no exchange.
func ReadUsage(ctx context.Context, ledger Ledger, q *UsageQuery) (*Usage, error) {
	for _, name := range q.By {
		if usageBy[name] == nil {
			return nil, codec.Invalid("by", "usage cannot be told by %q; known are hour, day, month, account, key, project, client, provider and model", name)
		}
	}
	u := &Usage{Object: "memory.usage", By: q.By, Since: q.Since, Until: q.Until, Data: []UsageLine{}}
	if u.By == nil {
		u.By = []string{}
	}
	lines := make(map[usageID]*UsageLine)
	err := ledger.Rollups(ctx, q.RollupQuery, func(of store.RollupOf, r *store.Rollup) {
		u.Total.Add(r)
		if len(q.By) == 0 {
			return
		}
		var line UsageLine
		for _, name := range q.By {
			usageBy[name](&line, &of)
		}
		id := usageID{line.Hour.Unix(), line.Day + line.Month, line.Account, line.Key, line.Project, line.Client, line.Provider, line.Model}
		if known := lines[id]; known != nil {
			known.Add(r)
			return
		}
		line.Rollup = *r
		lines[id] = &line
	})
	if err != nil {
		return nil, err
	}
	for _, line := range lines {
		u.Data = append(u.Data, *line)
	}
	slices.SortFunc(u.Data, func(a, b UsageLine) int {
		return cmp.Or(
			a.Hour.Compare(b.Hour), cmp.Compare(a.Day+a.Month, b.Day+b.Month),
			cmp.Compare(b.Cost.USD+b.Cost.Notional, a.Cost.USD+a.Cost.Notional),
			cmp.Compare(a.Account+"\x00"+a.Key+"\x00"+a.Project+"\x00"+a.Client+"\x00"+a.Provider+"\x00"+a.Model,
				b.Account+"\x00"+b.Key+"\x00"+b.Project+"\x00"+b.Client+"\x00"+b.Provider+"\x00"+b.Model),
		)
	})
	for i := range u.Data {
		u.Data[i].derive()
	}
	u.Total.derive()
	return u, nil
}

// derive works out what follows from the counts.
func (l *UsageLine) derive() {
	if input := l.Usage.InputUncached + l.Usage.CacheRead + l.Usage.CacheWrite; input > 0 {
		l.CacheShare = float64(l.Usage.CacheRead) / float64(input)
	}
	l.FirstByteP50 = l.FirstByteQuantile(0.5).Milliseconds()
	l.FirstByteP95 = l.FirstByteQuantile(0.95).Milliseconds()
}

func (a *api) usage(c *call) (any, error) {
	q := UsageQuery{By: c.query.list("by")}
	q.Since, q.Until = c.query.time("since"), c.query.time("until")
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if a.Ledger == nil {
		return nil, codec.Errorf(codec.KindNotFound, "This memory does not count what exchanges cost.")
	}
	q.Account = c.account
	return ReadUsage(c.ctx(), a.Ledger, &q)
}
