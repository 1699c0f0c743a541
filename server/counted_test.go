package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// thinker is a provider of a model whose reasoning is hidden: of 9,000 tokens of an answer, a few letters are seen.
type thinker struct {
	counts bool // tells the usage of a stream when it is asked
	ending string
	calls  []string // bodies
}

// The cost of one of its answers, as gpt-4.1: 2 USD a million of input, 8 of output.
const thoughtCost = record.USD(1000*2000 + 9000*8000)

const (
	thoughtChunk = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-4.1","choices":[{"index":0,"delta":{"content":"42"},"finish_reason":null}]%s}` + "\n\n"
	thoughtEnd   = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-4.1","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]%s}` + "\n\n"
	thoughtUsage = `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"gpt-4.1","choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":9000,"total_tokens":10000,"completion_tokens_details":{"reasoning_tokens":8990}}}` + "\n\n"
)

func (m *thinker) serve(c *upstreamCall) {
	m.calls = append(m.calls, string(c.body))
	asked := m.counts && strings.Contains(string(c.body), `"include_usage":true`)
	null := ""
	if asked {
		null = `,"usage":null`
	}
	c.chunked()
	c.chunk(fmt.Sprintf(thoughtChunk, null))
	switch m.ending {
	case "broken":
		return
	case "left":
		<-c.gone
		return
	}
	c.chunk(fmt.Sprintf(thoughtEnd, null))
	if asked {
		c.chunk(thoughtUsage)
	}
	c.chunk("data: [DONE]\n\n")
	c.chunk("")
}

// What a provider charges for does not depend on what its answer shows of it, nor on what the caller asks for: hidden
// reasoning counts against a budget, even if its count is withheld.
func TestHiddenReasoningCountsAgainstABudgetWhateverTheCallerDoes(t *testing.T) {
	const budget, reservation = record.Dollar / 5, record.USD(10000*8000 + 200*2000)
	for name, c := range map[string]struct {
		provider thinker
		asks     bool // capture.ask_usage
		leaves   bool
		members  string
	}{
		"a stream that does not ask":      {provider: thinker{counts: true}, asks: true},
		"where only limits are counted":   {provider: thinker{counts: true}},
		"a stream that asks not to count": {provider: thinker{counts: true}, members: `,"stream_options":{"include_usage":false}`},
		"a host that never counts":        {provider: thinker{}},
		"a stream that breaks":            {provider: thinker{counts: true, ending: "broken"}},
		"a client that leaves":            {provider: thinker{counts: true, ending: "left"}, leaves: true},
	} {
		t.Run(name, func(t *testing.T) {
			h, _ := timed(t, newUpstream(t, c.provider.serve).serves, func(p *plan) { p.server.AskUsage = c.asks })
			h.limit(store.Limits{Budget: store.Budget{Month: budget}})
			body := `{"model":"gpt-4.1","stream":true,"max_completion_tokens":10000` + c.members + `,"messages":[{"role":"user","content":"What is the answer?"}]}`
			for range 60 {
				if c.leaves {
					h.leave(chat, body)
				} else {
					h.post(chat.path, body)
				}
			}
			cost := record.USD(len(c.provider.calls)) * thoughtCost
			if len(c.provider.calls) < 2 || cost >= budget+reservation {
				t.Errorf("%d calls for %v USD passed a budget of %v USD", len(c.provider.calls), cost, budget)
			}
			if recorded, rolledUp := h.spent("acme"); recorded != rolledUp || recorded < cost {
				t.Errorf("the records say %v, what is rolled up %v, and the provider charged %v", recorded, rolledUp, cost)
			}
		})
	}
}

// leave reads the first event of an answer, leaves, and waits until the exchange has ended.
func (h *harness) leave(s surface, body string) {
	h.t.Helper()
	ctx, cancel := context.WithCancel(h.t.Context())
	defer cancel()
	response, err := h.client.Do(h.request(ctx, http.MethodPost, s.path, body, "Authorization", "Bearer "+h.key))
	ok(h.t, err)
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return
	}
	readEvents(h.t, response.Body, 1)
	cancel()
	h.settled(response.Header.Get("X-Service-Exchange-ID"))
}

// The tokens of a month are limited in the same way.
func TestHiddenReasoningCountsAgainstTheTokensOfAMonth(t *testing.T) {
	for name, provider := range map[string]*thinker{"counted": {counts: true}, "not counted": {}} {
		t.Run(name, func(t *testing.T) {
			h, _ := timed(t, newUpstream(t, provider.serve).serves)
			h.limit(store.Limits{TokensPerMonth: 30_000})
			body := `{"model":"gpt-4.1","stream":true,"max_tokens":10000,"messages":[{"role":"user","content":"What is the answer?"}]}`
			for range 40 {
				h.post(chat.path, body)
			}
			if n := len(provider.calls); n < 3 || n > 4 {
				t.Errorf("%d calls of 10,000 tokens passed a limit of 30,000", n)
			}
		})
	}
}

// A caller without limits is charged nothing that has not passed: the text is the best guess there is.
func TestWithoutALimitAnUncountedAnswerIsEstimatedFromItsText(t *testing.T) {
	provider := &thinker{}
	h, _ := timed(t, newUpstream(t, provider.serve).serves)
	a := h.post(chat.path, `{"model":"gpt-4.1","stream":true,"max_tokens":10000,"messages":[{"role":"user","content":"What is the answer?"}]}`)
	if x := h.record(a.exchange()); !x.Usage.Estimated || x.Usage.Output == 0 || x.Usage.Output > 10 || x.Cost == nil || !x.Cost.Estimated {
		t.Errorf("usage %+v cost %+v", x.Usage, x.Cost)
	}
	if strings.Contains(provider.calls[0], "include_usage") {
		t.Errorf("the provider was asked %s", provider.calls[0])
	}
}

// A host that refuses to be asked for its count gets the client's own request.
func TestAHostThatRefusesToCountIsAskedWithoutIt(t *testing.T) {
	const refusal = `{"error":{"message":"Unrecognized request argument supplied: stream_options","type":"invalid_request_error"}}`
	const other = `{"error":{"message":"The model is too small.","type":"invalid_request_error"}}`
	for name, c := range map[string]struct {
		refusal string
		calls   int
	}{"of the member": {refusal, 2}, "of something else": {other, 1}} {
		t.Run(name, func(t *testing.T) {
			var calls []string
			up := newUpstream(t, func(u *upstreamCall) {
				calls = append(calls, string(u.body))
				if strings.Contains(string(u.body), "stream_options") {
					u.write(fmt.Sprintf("HTTP/1.1 400 Bad Request\r\nConnection: close\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(c.refusal), c.refusal))
					return
				}
				u.stream(chatStream)
			})
			h := build(t, up.serves, func(p *plan) { p.server.AskUsage = true })
			body := chat.body("", true)
			a := h.post(chat.path, body)
			if want := map[bool]string{true: chatStream, false: c.refusal}[c.calls == 2]; a.body != want || len(calls) != c.calls || calls[len(calls)-1] != body && c.calls == 2 {
				t.Errorf("%d %s\nafter the calls %q", a.status, a.body, calls)
			}
		})
	}
}

// A count that no model can reach is no count: it is estimated, and sums never wrap.
func TestACountBeyondReasonIsEstimated(t *testing.T) {
	const most = "9223372036854775807"
	for _, s := range generating {
		for _, stream := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s stream=%t", s.name, stream), func(t *testing.T) {
				h, _ := timed(t)
				for range 2 {
					a := h.post(s.path, s.body(`text "Hello there"; usage input=`+most+` output=`+most, stream))
					if x := h.record(a.exchange()); !x.Usage.Estimated || x.Usage.InputUncached <= 0 || x.Usage.InputUncached > 1000 || x.Usage.Output <= 0 || x.Usage.Output > 1000 {
						t.Errorf("%+v", x.Usage)
					}
				}
				err := h.store.Accounts().Rollups(t.Context(), record.RollupQuery{Account: "acme"}, func(_ record.RollupOf, r *record.Rollup) {
					if r.Requests != 2 || r.Usage.InputUncached <= 0 || r.Usage.InputUncached > 2000 || r.Usage.Output <= 0 {
						t.Errorf("rolled up are %+v", r)
					}
				})
				ok(t, err)
			})
		}
	}
}
