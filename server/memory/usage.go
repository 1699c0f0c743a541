package memory

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/record"
)

// usageID identifies a line.
type usageID struct {
	hour                                                 int64
	span, account, key, project, client, provider, model string
}

// usageBy are the names that usage can be grouped by, and what each copies into a line.
var usageBy = map[string]func(line *api.UsageLine, of *record.RollupOf){
	"hour":     func(l *api.UsageLine, of *record.RollupOf) { l.Hour = of.Hour },
	"day":      func(l *api.UsageLine, of *record.RollupOf) { l.Day = of.Hour.Format(time.DateOnly) },
	"month":    func(l *api.UsageLine, of *record.RollupOf) { l.Month = of.Hour.Format("2006-01") },
	"account":  func(l *api.UsageLine, of *record.RollupOf) { l.Account = of.Account },
	"key":      func(l *api.UsageLine, of *record.RollupOf) { l.Key = of.KeyID },
	"project":  func(l *api.UsageLine, of *record.RollupOf) { l.Project = of.Project },
	"client":   func(l *api.UsageLine, of *record.RollupOf) { l.Client = of.Client },
	"provider": func(l *api.UsageLine, of *record.RollupOf) { l.Provider = of.Provider },
	"model":    func(l *api.UsageLine, of *record.RollupOf) { l.Model = of.Model },
}

// UsageQuery asks for usage.
type UsageQuery struct {
	record.RollupQuery
	By   []string // names of [api.UsageBy]; none: only the total
	Keys Keys     // have the labels; nil: no line has one
}

// ReadUsage sums up the usage and cost of exchanges. It reads rollups, not exchanges.
func ReadUsage(ctx context.Context, ledger Ledger, q *UsageQuery) (*api.Usage, error) {
	for _, name := range q.By {
		if usageBy[name] == nil {
			return nil, codec.Invalid("by", "usage cannot be grouped by %q; known are %s", name, strings.Join(api.UsageBy(), ", "))
		}
	}
	u := &api.Usage{Object: "memory.usage", By: q.By, Since: q.Since, Until: q.Until, Data: []api.UsageLine{}}
	if u.By == nil {
		u.By = []string{}
	}
	lines := make(map[usageID]*api.UsageLine)
	err := ledger.Rollups(ctx, q.RollupQuery, func(of record.RollupOf, r *record.Rollup) {
		u.Total.Add(r)
		if len(q.By) == 0 {
			return
		}
		var line api.UsageLine
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
	labels := labelsOf(q)
	for _, line := range lines {
		line.Label = labels[line.Key]
		u.Data = append(u.Data, *line)
	}
	slices.SortFunc(u.Data, func(a, b api.UsageLine) int {
		return cmp.Or(
			a.Hour.Compare(b.Hour), cmp.Compare(a.Day+a.Month, b.Day+b.Month),
			cmp.Compare(b.Cost.USD+b.Cost.Notional, a.Cost.USD+a.Cost.Notional),
			cmp.Compare(a.Account+"\x00"+a.Key+"\x00"+a.Project+"\x00"+a.Client+"\x00"+a.Provider+"\x00"+a.Model,
				b.Account+"\x00"+b.Key+"\x00"+b.Project+"\x00"+b.Client+"\x00"+b.Provider+"\x00"+b.Model),
		)
	})
	for i := range u.Data {
		derive(&u.Data[i])
	}
	derive(&u.Total)
	return u, nil
}

// labelsOf returns the labels of keys by their ids, if they are asked for.
func labelsOf(q *UsageQuery) map[string]string {
	if q.Keys == nil || !slices.Contains(q.By, "key") {
		return nil
	}
	labels := make(map[string]string)
	for _, k := range q.Keys.List(q.Account) {
		labels[k.ID] = k.Label
	}
	return labels
}

// derive computes the values that follow from the counts.
func derive(l *api.UsageLine) {
	if input := codec.Usage(l.Usage).TotalInput(); input > 0 {
		l.CacheShare = float64(l.Usage.CacheRead) / float64(input)
	}
	l.FirstByteP50 = l.FirstByteQuantile(0.5).Milliseconds()
	l.FirstByteP95 = l.FirstByteQuantile(0.95).Milliseconds()
}

func (h *handler) usage(c *call) (any, error) {
	q := UsageQuery{By: c.query.list("by"), Keys: h.Keys}
	q.Since, q.Until = c.query.time("since"), c.query.time("until")
	if err := c.query.end(); err != nil {
		return nil, err
	}
	if h.Ledger == nil {
		return nil, codec.Errorf(codec.KindNotFound, "This memory does not count what exchanges cost.")
	}
	q.Account = c.account
	return ReadUsage(c.ctx(), h.Ledger, &q)
}
