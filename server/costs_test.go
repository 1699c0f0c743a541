package server_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/record"
)

// costs asks for costs, page after page, and returns the sum of the totals and of the lines.
func (h *harness) costs(query string) (total, lines api.CostLine, exchanges int64) {
	h.t.Helper()
	for after := ""; ; {
		var page api.Costs
		a := h.get("/costs?" + query + after)
		if err := json.Unmarshal([]byte(a.body), &page); err != nil || a.status != 200 {
			h.t.Fatalf("%s: %d %s", query, a.status, a.body)
		}
		exchanges += page.Exchanges
		for sum, of := range map[*api.CostLine][]api.CostLine{&total: {page.Total}, &lines: page.Data} {
			for _, line := range of {
				sum.Input, sum.Output, sum.USD = sum.Input+line.Input, sum.Output+line.Output, sum.USD+line.USD
			}
		}
		if !page.HasMore {
			return total, lines, exchanges
		}
		after = "&after=" + page.LastID
	}
}

func TestCostsByCauseAddUpToThoseOnRecord(t *testing.T) {
	k := talking(t)
	for range 3 {
		k.say("Go on.")
	}
	session, err := k.store.Archive().Session("acme", k.session)
	ok(t, err)
	for _, query := range []string{"", "&limit=1"} {
		total, lines, exchanges := k.costs("by=part,tool&session=" + k.session + query)
		if exchanges != 3 || total.USD != session.Cost.USD || lines != total || total.USD == 0 {
			t.Errorf("%q: %d exchanges, total %+v, lines %+v, on record %v", query, exchanges, total, lines, session.Cost.USD)
		}
	}
	for _, s := range surfaces {
		for _, model := range []string{s.model, "claude-sonnet-4-6", "deepseek-chat"} {
			if s.name != embeddings.name {
				body := strings.Replace(s.body(`reasoning "Hm."; text "hi"; call look {"at":1}; usage input=9000 cached=4001 output=77 reasoning=13`, true), s.model, model, 1)
				k.post(s.path, body)
				continue
			}
			k.post(s.path, s.body("", false))
		}
	}
	var recorded record.USD
	page, err := k.store.Archive().Exchanges("acme", record.ExchangeQuery{Limit: 100})
	ok(t, err)
	for i := range page.Data {
		x := &page.Data[i]
		if x.Cost == nil {
			continue
		}
		recorded += x.Cost.USD
		if total, lines, _ := k.costs("by=part&exchange=" + x.ID); total.USD != x.Cost.USD || lines.USD != x.Cost.USD {
			t.Errorf("%s %s: the causes of %v cost %v, lines %v", x.Surface, x.ModelSent, x.Cost.USD, total.USD, lines.USD)
		}
	}
	if total, lines, exchanges := k.costs("by=tool&limit=2"); total.USD != recorded || lines.USD != recorded || exchanges < 10 {
		t.Errorf("%d exchanges: total %v, lines %v, on record %v", exchanges, total.USD, lines.USD, recorded)
	}
	if total, _, exchanges := k.costs("until=2000-01-01T00:00:00Z"); total.USD != 0 || exchanges != 0 {
		t.Errorf("of another time: %+v", total)
	}
}
