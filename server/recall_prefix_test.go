package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// prefixSessions is how many sessions the property is tried on for each surface and provider. The long run has 750, which
// is 100,000 requests and more: make prefixes
var prefixSessions = flag.Int("prefix-sessions", 3, "sessions for each surface and provider in the test of prefixes")

// talker recalls another text at each call, or nothing: whatever is the same twice was put back.
type talker struct {
	calls atomic.Int64
	mute  bool
}

func (r *talker) Recall(_ context.Context, q *recall.Query) recall.Recalled {
	n := r.calls.Add(1)
	if r.mute || n%3 == 0 {
		return recall.Recalled{Reason: recall.ReasonCoverage}
	}
	return recall.Recalled{Text: fmt.Sprintf("<mneme-recall nonce=\"%d\">\nof %q\n</mneme-recall>", n, q.Prompt[:min(len(q.Prompt), 20)]), Tokens: 20}
}

func (r *talker) Resume(ctx context.Context, q *recall.Query) recall.Recalled {
	return r.Recall(ctx, q)
}

// conversation is a client of a surface with its history.
type conversation struct {
	surface surface
	model   string
	random  *rand.Rand
	name    string
	native  bool // it sends the name as its session
	long    bool // what is said is, so that bodies are read by pieces that came before
	items   []string
	turns   int
	flip    bool // texts are strings, not blocks
}

func (c *conversation) text(words string) string {
	kind := map[string]string{"responses": "input_text"}[c.surface.name]
	if kind == "" {
		kind = "text"
	}
	switch {
	case c.surface.name == "gemini":
		return `[{"text":` + quoted(words) + `}]`
	case c.flip:
		return quoted(words)
	}
	return fmt.Sprintf(`[{"type":%q,"text":%s}]`, kind, quoted(words))
}

// ask adds a question. It is written in its form only when it is sent.
func (c *conversation) ask() {
	c.turns++
	c.items = append(c.items, fmt.Sprintf("ask:Question %d of %s", c.turns, c.name))
}

// answer adds what the model said, or a call of a tool and its result.
func (c *conversation) answer(tool bool) {
	id := fmt.Sprintf("call_%s_%d", c.name, len(c.items))
	said, result := fmt.Sprintf("Answer %d", len(c.items)), "done"
	if c.long {
		said, result = said+strings.Repeat(" and so on", 200), strings.Repeat("done ", 400)
	}
	switch c.surface.name {
	case "chat":
		if !tool {
			c.items = append(c.items, `{"role":"assistant","content":`+quoted(said)+`}`)
			return
		}
		c.items = append(c.items, fmt.Sprintf(`{"role":"assistant","content":null,"tool_calls":[{"id":%q,"type":"function","function":{"name":"run","arguments":"{}"}}]}`, id),
			fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%q}`, id, result))
	case "responses":
		if !tool {
			c.items = append(c.items, `{"type":"message","role":"assistant","content":[{"type":"output_text","text":`+quoted(said)+`}]}`)
			return
		}
		c.items = append(c.items, fmt.Sprintf(`{"type":"function_call","call_id":%q,"name":"run","arguments":"{}"}`, id),
			fmt.Sprintf(`{"type":"function_call_output","call_id":%q,"output":%q}`, id, result))
	case "gemini":
		if !tool {
			c.items = append(c.items, `{"role":"model","parts":[{"text":`+quoted(said)+`}]}`)
			return
		}
		c.items = append(c.items, fmt.Sprintf(`{"role":"model","parts":[{"functionCall":{"id":%q,"name":"run","args":{}},"thoughtSignature":"skip_thought_signature_validator"}]}`, id),
			fmt.Sprintf(`{"role":"user","parts":[{"functionResponse":{"id":%q,"name":"run","response":{"output":%q}}}]}`, id, result))
	default:
		if !tool {
			c.items = append(c.items, `{"role":"assistant","content":[{"type":"text","text":`+quoted(said)+`}]}`)
			return
		}
		c.items = append(c.items, fmt.Sprintf(`{"role":"assistant","content":[{"type":"tool_use","id":%q,"name":"run","input":{}}]}`, id),
			fmt.Sprintf(`{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%q}]}`, id, result))
	}
}

// body is the request; texts are strings or blocks, and a mark of the cache stands somewhere, as they happen to.
func (c *conversation) body() string {
	marked := c.random.IntN(len(c.items))
	items := make([]string, len(c.items))
	for i, item := range c.items {
		words, question := strings.CutPrefix(item, "ask:")
		if !question {
			items[i] = item
			continue
		}
		c.flip = c.random.IntN(2) == 0
		content := c.text(words)
		if c.surface.name == "messages" && i == marked && !c.flip {
			content = strings.Replace(content, `}]`, `,"cache_control":{"type":"ephemeral"}}]`, 1)
		}
		items[i] = `{"role":"user","content":` + content + `}`
		switch {
		case c.surface.name == "gemini":
			items[i] = `{"role":"user","parts":` + content + `}`
		case c.surface.name == "responses" && c.random.IntN(2) == 0:
			items[i] = `{"type":"message",` + items[i][1:]
		}
	}
	list := strings.Join(items, ",")
	const system = `Working directory: /home/ann/shop\n`
	switch c.surface.name {
	case "chat":
		return fmt.Sprintf(`{"model":%q,"messages":[{"role":"system","content":"%s"},%s],"tools":[{"type":"function","function":{"name":"run","parameters":{"type":"object"}}}]}`, c.model, system, list)
	case "responses":
		return fmt.Sprintf(`{"model":%q,"instructions":"%s","input":[%s],"tools":[{"type":"function","name":"run","parameters":{"type":"object"}}]}`, c.model, system, list)
	case "gemini":
		return fmt.Sprintf(`{"model":%q,"systemInstruction":{"parts":[{"text":"%s"}]},"contents":[%s],"tools":[{"functionDeclarations":[{"name":"run","description":"Runs.","parametersJsonSchema":{"type":"object"}}]}]}`, c.model, system, list)
	default:
		return fmt.Sprintf(`{"model":%q,"max_tokens":100,"system":"%s","messages":[%s],"tools":[{"name":"run","input_schema":{"type":"object"}}]}`, c.model, system, list)
	}
}

// sentHistory is the history that a provider was sent, in a form that does not depend on marks of the cache, ids, and on
// whether a text is a string or a block.
func sentHistory(t *testing.T, body []byte) string {
	t.Helper()
	history := historyIn(body)
	if history == "" {
		t.Fatalf("no history in %s", body)
	}
	return history
}

// historyIn is [sentHistory], and "" where there is none.
func historyIn(body []byte) string {
	var request struct{ Messages, Input, Contents []any }
	if json.Unmarshal(body, &request) != nil {
		return ""
	}
	var b bytes.Buffer
	for _, list := range [][]any{request.Messages, request.Input, request.Contents} {
		for _, item := range list {
			writePlain(&b, item)
		}
	}
	return b.String()
}

// writePlain leaves out how a list or a member ends, so that a message that grew goes on from what it was.
func writePlain(b *bytes.Buffer, v any) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range []string{"role", "type", "text", "content", "parts", "input", "name", "arguments", "output", "tool_calls", "function", "functionCall", "functionResponse"} {
			if name == "type" && (v[name] == "message" || v[name] == "text" || v[name] == "input_text") {
				continue
			}
			if v[name] != nil {
				if name != "text" && name != "content" {
					b.WriteString("<" + name + ">")
				}
				writePlain(b, v[name])
			}
		}
	case []any:
		for _, e := range v {
			writePlain(b, e)
		}
	case string:
		b.WriteString(v + "|")
	default:
		fmt.Fprint(b, v)
	}
}

// weather stands before the simulated provider, in two places. It keeps the histories that arrive, and where it is bad lets
// one request in four fail, so that the router goes to the other place, or to another model.
type weather struct {
	bad      bool
	provider func() string // origin of the simulated provider

	mu        sync.Mutex
	arrived   []arrival
	asked     int
	faults    int
	overloads int
}

type arrival struct{ format, history string }

func (w *weather) ServeHTTP(to http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	format, _, _ := strings.Cut(strings.TrimSuffix(r.URL.Path, "/count_tokens"), "/models/") // of Gemini the model follows
	if history := historyIn(body); history != "" {
		w.mu.Lock()
		w.arrived = append(w.arrived, arrival{format, history})
		w.mu.Unlock()
	}
	if status := w.failure(); status != 0 {
		to.Header().Set("Retry-After-Ms", "1")
		http.Error(to, `{"error":{"message":"bad weather","type":"server_error"}}`, status)
		return
	}
	on, err := http.NewRequestWithContext(r.Context(), r.Method, w.provider()+r.URL.RequestURI(), bytes.NewReader(body))
	if err != nil {
		panic(err)
	}
	on.Header = r.Header.Clone()
	answer, err := http.DefaultTransport.RoundTrip(on)
	if err != nil {
		http.Error(to, err.Error(), http.StatusBadGateway)
		return
	}
	defer answer.Body.Close()
	maps.Copy(to.Header(), answer.Header)
	to.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(to, answer.Body)
}

// failure is the status by which a request fails; 0: it does not. After an overload the request comes to the other place; after a
// fault another model stands in.
func (w *weather) failure() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
	switch {
	case w.bad && w.asked%8 == 3:
		w.faults++
		return http.StatusInternalServerError
	case w.bad && w.asked%8 == 6:
		w.overloads++
		return http.StatusServiceUnavailable
	}
	return 0
}

// take returns what has arrived since it was called last.
func (w *weather) take() []arrival {
	w.mu.Lock()
	defer w.mu.Unlock()
	arrived := w.arrived
	w.arrived = nil
	return arrived
}

// rounds are the models that are asked, each with one of another provider that stands in.
var rounds = []router.Fallback{
	{Model: "gpt-4.1", To: []string{"claude-opus-4-8"}},
	{Model: "gpt-5.5", To: []string{"gemini-3.8-flash"}},
	{Model: "claude-opus-4-8", To: []string{"gpt-4.1"}},
	{Model: "gemini-3.8-flash", To: []string{"gpt-5.5"}},
}

// under builds a harness whose providers are in the weather.
func (w *weather) under(t *testing.T, changes ...func(*plan)) *harness {
	places := [2]*httptest.Server{httptest.NewServer(w), httptest.NewServer(w)}
	h := build(t, append(changes, func(p *plan) {
		for _, name := range []string{"openai", "anthropic", "gemini"} {
			c := router.ProviderConfig{APIKey: serverDefaultKey}
			for _, place := range places {
				c.Endpoints = append(c.Endpoints, router.Endpoint{BaseURL: router.ProviderConfig{}.WithSimulated(name, place.URL).BaseURL})
			}
			p.router.Providers[name] = c
		}
		p.router.Breaker, p.router.Fallbacks = router.Breaker{Failures: -1}, rounds
	})...)
	t.Cleanup(func() { // before the harness looks for what is left open
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
		for _, place := range places {
			place.Close()
		}
	})
	w.provider = h.provider.URL
	h.key = h.createKey("acme", store.AllScopes)
	return h
}

// tally is what was seen of requests at providers.
type tally struct{ requests, broken, standIns int }

// play lets a conversation go on at random, and counts requests that do not begin with all of the one before that the same
// provider got.
func (c *conversation) play(t *testing.T, h *harness, w *weather, control bool) (n tally) {
	before := make(map[string]string)
	var headers []string
	if c.native {
		headers = []string{"X-Service-Chat-Key", c.name}
	}
	headers = append(headers, "X-Service-Recall", "on")
	send := func() {
		for tries := 1; ; tries++ {
			a := h.post(c.surface.path, c.body(), headers...)
			if a.header.Get("X-Service-Fallback") != "" {
				n.standIns++
			}
			if a.status == 200 {
				break
			}
			if !w.bad || tries == 20 {
				t.Fatalf("%s on %s: %d %s", c.surface.name, c.model, a.status, a.body)
			}
		}
		for _, r := range w.take() {
			if n.requests++; !strings.HasPrefix(r.history, before[r.format]) {
				if n.broken++; n.broken == 1 && !control {
					t.Logf("%s on %s: %q\ndoes not begin with %q", c.surface.name, c.model, r.history, before[r.format])
				}
			}
			before[r.format] = r.history
		}
	}
	for range 3 + c.random.IntN(5) {
		c.ask()
		if c.surface.name == "messages" && c.random.IntN(3) == 0 {
			h.post("/v1/messages/count_tokens", c.body(), headers...)
		}
		send()
		if c.random.IntN(4) == 0 {
			send() // again, as after a failure
		}
		for c.random.IntN(2) == 0 {
			c.answer(true)
			send()
		}
		c.answer(false)
		if c.random.IntN(6) == 0 { // a fork goes on under another name
			c.name += "f"
			if c.native {
				headers[1] = c.name
			}
		}
	}
	return n
}

// Whatever clients and providers do, each request of a conversation begins with all of the one before it: so the prompt cache
// hits. Each recall gives another text, and the test can fail: without putting texts back it does.
func TestEachRequestBeginsWithTheOneBefore(t *testing.T) {
	if testing.Short() {
		t.Skip("many sessions, one after the other")
	}
	for name, row := range map[string]struct{ bad, control bool }{
		"all is well": {}, "providers fail": {bad: true}, "control": {control: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := &weather{bad: row.bad}
			h := w.under(t, func(p *plan) {
				p.server.Recaller = &talker{}
				if row.control {
					p.engine = func(e *server.Engine) { e.Notes = forgetful{e.Notes} }
				}
			})
			var all tally
			for _, s := range generating {
				for _, round := range rounds {
					for n := range *prefixSessions {
						c := &conversation{surface: s, model: round.Model, random: rand.New(rand.NewPCG(uint64(n), uint64(len(round.Model)+len(s.name)))), native: n%2 == 0, long: n%3 == 2, name: fmt.Sprintf("%s-%s-%d", s.name, round.Model, n)}
						one := c.play(t, h, w, row.control)
						all.requests, all.broken, all.standIns = all.requests+one.requests, all.broken+one.broken, all.standIns+one.standIns
					}
				}
			}
			t.Logf("%s: %d of %d requests do not begin with the one before; %d were sent again elsewhere, %d failed, %d were answered by a stand-in", name, all.broken, all.requests, w.overloads, w.faults, all.standIns)
			switch {
			case !row.control && all.broken > 0:
				t.Errorf("%d of %d requests do not begin with the one before", all.broken, all.requests)
			case row.control && all.broken < all.requests/4:
				t.Errorf("without putting texts back, %d of %d requests do not begin with the one before: the test cannot fail", all.broken, all.requests)
			case row.bad && (w.overloads == 0 || all.standIns == 0):
				t.Error("no request was sent elsewhere, or none was answered by a stand-in: nothing was tried")
			}
		})
	}
}

// forgetful keeps no recollection.
type forgetful struct{ server.Notes }

func (forgetful) Recollections(_ string, keys []record.RecollectionKey) ([]*record.Recollection, error) {
	return make([]*record.Recollection, len(keys)), nil
}

func (forgetful) Recollect(_ context.Context, _ string, _ []record.RecollectionKey, r record.Recollection) (*record.Recollection, error) {
	return &r, nil
}
