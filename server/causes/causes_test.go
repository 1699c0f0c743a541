package causes_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/causes"
	"github.com/mnemeproxy/mneme/store/record"
)

// spoken is an exchange of an agent on the Messages surface: its tools, what it read, and what it answers.
func spoken(tools []string, history []any, answer []any) *record.Exchange {
	definitions := make([]any, len(tools))
	for i, name := range tools {
		definitions[i] = map[string]any{"name": name, "description": strings.Repeat("words ", 40), "input_schema": map[string]any{"type": "object"}}
	}
	request, _ := json.Marshal(map[string]any{
		"model": "claude-opus-4-8", "max_tokens": 99, "tools": definitions,
		"system": []any{map[string]any{"type": "text", "text": strings.Repeat("rule ", 100)}}, "messages": history,
	})
	response, _ := json.Marshal(map[string]any{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-4-8", "content": answer, "stop_reason": "end_turn",
		"usage": map[string]any{"input_tokens": 1, "output_tokens": 1},
	})
	return &record.Exchange{RawRequest: request, RawResponse: response, ExchangeInfo: record.ExchangeInfo{
		Surface: codec.Messages.String(), Provider: "anthropic", ModelSent: "claude-opus-4-8",
		Started: time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC), ResponseType: "application/json", Outcome: record.OutcomeComplete,
	}}
}

func says(role string, blocks ...any) any { return map[string]any{"role": role, "content": blocks} }

func text(t string) any { return map[string]any{"type": "text", "text": t} }

func call(id, name string, input any) any {
	return map[string]any{"type": "tool_use", "id": id, "name": name, "input": input}
}

func result(id, t string) any {
	return map[string]any{"type": "tool_result", "tool_use_id": id, "content": t}
}

func prices(t *testing.T) router.Prices {
	p, err := router.LoadPrices("")
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// priced gives an exchange its usage and the cost of that.
func priced(x *record.Exchange, usage codec.Usage, price *router.Price) {
	x.Usage = record.UsageInfo(usage)
	x.Cost = &record.Cost{USD: record.USD(price.Bill(&usage, x.Started).Cost), Price: price.Version}
}

func TestSharesAddUpToTheTokensAndToTheBillionthOfTheCost(t *testing.T) {
	if testing.Short() {
		t.Skip("many cases, one after the other")
	}
	list := prices(t)
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 1))
		var tools []string
		for i := range r.IntN(6) {
			tools = append(tools, fmt.Sprintf("mcp__s%d__t%d", i%2, i))
		}
		history := []any{says("user", text(strings.Repeat("Go on. ", 1+r.IntN(500))))}
		for i := range r.IntN(8) {
			id := fmt.Sprintf("toolu_%d_%d", seed, i)
			history = append(history, says("assistant", text("I look."), call(id, fmt.Sprintf("mcp__s0__t%d", r.IntN(4)), map[string]any{"at": i})),
				says("user", result(id, strings.Repeat("line\n", r.IntN(2000)))))
		}
		x := spoken(tools, history, []any{text(strings.Repeat("So it is. ", r.IntN(50)))})
		if r.IntN(10) == 0 {
			x.RawRequest, x.RawResponse = []byte("not read"), nil
		}
		if r.IntN(3) == 0 {
			x.ModelSent = "gpt-5.5"
		}
		price := list.Price("", x.ModelSent, x.Started)
		most := []int64{1, 1000, 250_000, 3_000_000}[r.IntN(4)]
		usage := codec.Usage{InputUncached: r.Int64N(most), CacheRead: r.Int64N(most), CacheWrite: r.Int64N(most), Output: r.Int64N(most)}
		usage.CacheLong, usage.Reasoning = r.Int64N(usage.CacheWrite+1), r.Int64N(usage.Output+1)
		priced(x, usage, price)
		if r.IntN(4) == 0 {
			price = nil // the list has changed since
		}
		sum, err := causes.NewSum([]string{"part", "tool"})
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(&x.ExchangeInfo, causes.Of(x, price))
		costs := sum.Costs()
		var lines api.CostLine
		for _, line := range costs.Data {
			lines.Input, lines.Output, lines.USD = lines.Input+line.Input, lines.Output+line.Output, lines.USD+line.USD
			if line.Input < 0 || line.Output < 0 || line.USD < 0 {
				t.Errorf("seed %d: %+v", seed, line)
			}
		}
		if lines != costs.Total || lines.USD != x.Cost.USD || lines.Input != usage.TotalInput() || lines.Output != usage.Output {
			t.Fatalf("seed %d: the lines are %+v, the total %+v, on record %v of %+v", seed, lines, costs.Total, x.Cost.USD, usage)
		}
	}
}

func TestEachTokenHasTheCauseThatPutItThere(t *testing.T) {
	x := spoken([]string{"Bash", "mcp__wiki__read", "Skill"}, []any{
		says("user", text("Write the report.")),
		says("assistant", call("t1", "Skill", map[string]any{"skill": "report"})),
		says("user", result("t1", "Launching skill: report"), text("Base directory for this skill: /home/ann/.claude/skills/report\n"+strings.Repeat("Do it so. ", 100))),
		says("assistant", call("t2", "Bash", map[string]any{"command": "ls"})),
		says("user", result("t2", strings.Repeat("file\n", 400))),
	}, []any{text("It is written.")})
	x.NativeAgent = "agent-7"
	price := prices(t).Price("", x.ModelSent, x.Started)
	priced(x, codec.Usage{CacheRead: 1000, CacheWrite: 500, InputUncached: 10, Output: 20}, price)
	of := func(by string) map[string]int64 {
		sum, err := causes.NewSum([]string{by})
		if err != nil {
			t.Fatal(err)
		}
		sum.Add(&x.ExchangeInfo, causes.Of(x, price))
		tokens := make(map[string]int64)
		for _, line := range sum.Costs().Data {
			tokens[line.Part+line.Tool+line.Server+line.Skill+line.Subagent+line.Age] = line.Input + line.Output
		}
		return tokens
	}
	for by, names := range map[string][]string{
		"part":     {"answer", "calls", "results", "system", "tools", "user", "woven"},
		"tool":     {"", "Bash", "Skill", "mcp__wiki__read"},
		"server":   {"", "wiki"},
		"skill":    {"", "report"},
		"subagent": {"agent-7"},
		"age":      {"fixed", "history", "new"},
	} {
		tokens := of(by)
		found := make([]string, 0, len(tokens))
		for name, n := range tokens {
			if found = append(found, name); n <= 0 {
				t.Errorf("by %s: %q has %d tokens", by, name, n)
			}
		}
		if slices.Sort(found); !slices.Equal(found, names) {
			t.Errorf("by %s: %q", by, found)
		}
	}
	sum, _ := causes.NewSum(nil)
	sum.Add(&x.ExchangeInfo, causes.Of(x, price))
	for _, tool := range sum.Costs().Tools {
		if tool.Called != (tool.Name != "mcp__wiki__read") || tool.Input == 0 || tool.USD == 0 {
			t.Errorf("%+v", tool)
		}
	}
	if _, err := causes.NewSum([]string{"weather"}); err == nil {
		t.Error("costs are grouped by weather")
	}
}

// What a cache had is cheap, so that old text costs less than new text of the same length.
func TestThePartOfAPromptThatACacheHadIsCheap(t *testing.T) {
	long := strings.Repeat("same text ", 1000)
	x := spoken(nil, []any{says("user", text(long)), says("assistant", text("Yes.")), says("user", text(long))}, []any{text("Yes.")})
	price := prices(t).Price("", x.ModelSent, x.Started)
	priced(x, codec.Usage{CacheRead: 2800, CacheWrite: 2500, Output: 10}, price)
	sum, _ := causes.NewSum([]string{"age", "part"})
	sum.Add(&x.ExchangeInfo, causes.Of(x, price))
	cost := make(map[string]record.USD)
	for _, line := range sum.Costs().Data {
		if line.Part == "user" {
			cost[line.Age] = line.USD
		}
	}
	if cost["history"] == 0 || cost["new"] < 10*cost["history"] {
		t.Errorf("history %v, new %v", cost["history"], cost["new"])
	}
}

func TestPagesOfCostsMergeIntoTheirSum(t *testing.T) {
	price := prices(t).Price("", "claude-opus-4-8", time.Now())
	whole, _ := causes.NewSum([]string{"tool"})
	merged, _ := causes.NewSum([]string{"tool"})
	for i := range 4 {
		x := spoken([]string{"Bash", "Edit"}, []any{says("user", text("Go on."))}, []any{call("t", []string{"Bash", "Grep"}[i%2], map[string]any{})})
		priced(x, codec.Usage{InputUncached: int64(1000 + i), Output: 7}, price)
		page, _ := causes.NewSum([]string{"tool"})
		page.Add(&x.ExchangeInfo, causes.Of(x, price))
		merged.Merge(page.Costs())
		whole.Add(&x.ExchangeInfo, causes.Of(x, price))
	}
	a, _ := json.Marshal(whole.Costs())
	b, _ := json.Marshal(merged.Costs())
	if !bytes.Equal(a, b) {
		t.Errorf("%s\n%s", a, b)
	}
}
