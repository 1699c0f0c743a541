package promptcache_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/promptcache"
	"github.com/mnemeproxy/mneme/store/record"
)

func TestHostsWhoseCachesLiveForAnUnknownTimeHaveNone(t *testing.T) {
	for _, c := range []struct {
		provider, format, model string
		life                    time.Duration
	}{
		{"anthropic", "messages", "claude-opus-4-8", 5 * time.Minute},
		{"gateway", "messages", "claude-opus-4-8", 5 * time.Minute},
		{"openai", "responses", "gpt-5.5", 10 * time.Minute},
		{"openai", "responses", "gpt-5.6-sol", 30 * time.Minute},
		{"openai", "chat", "gpt-6", 30 * time.Minute},
		{"openai", "chat", "o3", 10 * time.Minute},
		{"local", "chat", "gpt-5.6", 0},
		{"google", "gemini", "gemini-3-pro", 0},
	} {
		if life := promptcache.Life(c.provider, c.format, c.model); life != c.life {
			t.Errorf("%s, %s, %s: %v, want %v", c.provider, c.format, c.model, life, c.life)
		}
	}
}

// Gemini's clients declare all functions in one tool; caches and reports go by the function.
func TestEachFunctionIsABlockInEveryFormat(t *testing.T) {
	for name, body := range map[string]string{
		"chat":               `{"tools":[{"type":"function","function":{"name":"read"}},{"type":"function","function":{"name":"write"}}],"messages":[{"role":"user","content":"hi"}]}`,
		"messages":           `{"tools":[{"name":"read"},{"name":"write"}],"messages":[{"role":"user","content":"hi"}]}`,
		"gemini":             `{"tools":[{"functionDeclarations":[{"name":"read"},{"name":"write"}]}],"contents":[{"parts":[{"text":"hi"}]}]}`,
		"gemini, snake case": `{"tools":[{"function_declarations":[{"name":"read"}]},{"function_declarations":[{"name":"write"}]}],"contents":[{"parts":[{"text":"hi"}]}]}`,
	} {
		var tools []string
		for _, b := range promptcache.Prefix([]byte(body)) {
			if b.Kind == "tools" {
				tools = append(tools, fmt.Sprint(b.Index, promptcache.ToolName(b.Text)))
			}
		}
		if want := []string{"0read", "1write"}; !slices.Equal(tools, want) {
			t.Errorf("%s: %q, want %q", name, tools, want)
		}
	}
}

// Any holder of a key may send a hook's event, of a mebibyte.
func TestAMessageIsTheSameAsAListOfItsText(t *testing.T) {
	said := func(messages string) []promptcache.Block {
		return promptcache.Prefix([]byte(`{"model":"m","messages":[` + messages + `]}`))
	}
	const text, list = `{"role":"user","content":"Look."}`, `{"role":"user","content":[{"type":"text","text":"Look.","cache_control":{"type":"ephemeral"}}]}`
	const more = `{"role":"user","content":[{"type":"text","text":"Look."},{"type":"text","text":"There."}]}`
	for _, c := range []struct {
		before, now string
		differs     bool
	}{{text, list, false}, {list, text, false}, {list, text + "," + more, false}, {more, text, true}, {text, more, true}, {strings.Replace(list, "Look", "See", 1), text, true}} {
		if _, differs := promptcache.Compare(said(c.now), said(c.before)); (differs != nil) != c.differs {
			t.Errorf("%s and then %s: %+v", c.before, c.now, differs)
		}
	}
}

func TestOnlyAnIDAndTheNameOfAModelAreKeptOfAStart(t *testing.T) {
	c := promptcache.Caches{Clock: time.Now}
	long := strings.Repeat("x", 1<<20)
	for _, start := range []struct{ session, model, kept string }{
		{"s", "claude-opus-4-8", "claude-opus-4-8"},
		{"", "claude-opus-4-8", ""},
		{"other", "", ""},
		{long, "claude-opus-4-8", ""},
		{"another", long, ""},
	} {
		c.Started("acme", start.session, start.model)
		if kept := c.Noted("acme", start.session); kept != start.kept {
			t.Errorf("session %.9q with model %.20q: %.20q is kept", start.session, start.model, kept)
		}
	}
	if kept := c.Noted("globex", "s"); kept != "" {
		t.Errorf("another account has %q", kept)
	}
}

// archive is a record whose exchanges are counted when they are read.
type archive struct {
	entries  []record.TimelineEntry // newest first
	sessions []record.Session       // newest first
	bodies   map[string]string      // of requests, by id; none: with a tool of that name
	pages    int
	read     []string
}

func (a *archive) Timeline(_, session string, q record.TimelineQuery) (page record.TimelinePage, err error) {
	a.pages++
	for i := range a.entries {
		if x := &a.entries[i].Exchange; x.Session == session && (q.After == "" || x.ID < q.After) {
			page.Data = append(page.Data, a.entries[i])
		}
	}
	return page, nil
}

func (a *archive) Sessions(string, record.SessionQuery) (record.SessionPage, error) {
	return record.SessionPage{Data: a.sessions}, nil
}

func (a *archive) Exchange(_, id string) (*record.Exchange, error) {
	a.read = append(a.read, id)
	for i := range a.entries {
		if x := a.entries[i].Exchange; x.ID == id {
			if body := a.bodies[id]; body != "" {
				return &record.Exchange{ExchangeInfo: x, RawRequest: []byte(body)}, nil
			}
			return &record.Exchange{ExchangeInfo: x, RawRequest: fmt.Appendf(nil, `{"tools":[{"name":"tool_%s"}],"messages":[]}`, id)}, nil
		}
	}
	return nil, errors.New("not there")
}

// Claude Code is started with short names of models. What one stands for shows in what the account asked before.
func TestAShortNameIsTheModelThatTheAccountAskedLast(t *testing.T) {
	prices, err := router.LoadPrices("")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	a := archive{
		entries: []record.TimelineEntry{{Turn: &record.Turn{}, Exchange: record.ExchangeInfo{
			ID: "exch_1", Session: "sess_1", Surface: "messages", Format: "messages", Provider: "anthropic", ModelAsked: "claude-opus-4-8", ModelSent: "claude-opus-4-8",
			Outcome: record.OutcomeComplete, Started: now.Add(-time.Minute), LastByte: now.Add(-time.Minute), Usage: record.UsageInfo{CacheWrite: 100_000},
		}}},
		sessions: []record.Session{{Models: []string{"claude-sonnet-4-6", "claude-opus-4-8"}}, {Models: []string{"gpt-5.5", "claude-sonnet-4-5"}}},
	}
	c := promptcache.Caches{Archive: &a, Prices: &prices, Warn: promptcache.LeastWarning, Clock: func() time.Time { return now }}
	for name, want := range map[string]string{
		"sonnet": "The model changes from claude-opus-4-8 to claude-sonnet-4-6, ", "Sonnet[1m]": "The model changes from claude-opus-4-8 to claude-sonnet-4-6, ",
		"opus": "", "haiku": "", "default": "", "claude-opus-4-8": "", "claude-sonnet-5": "The model changes from claude-opus-4-8 to claude-sonnet-5, ",
	} {
		if got := c.Warning("acme", "sess_1", "", name, 100); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q", name, got)
		}
		c.Started("acme", "known", name)
		if got := c.Warning("acme", "sess_1", "known", "", 100); !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("started with %s: %q", name, got)
		}
	}
}

// A person who goes back to a model soon finds its cache, whose size is its own: other models are offered other tools.
func TestGoingBackToAModelCostsWhatItsCacheLacks(t *testing.T) {
	prices, err := router.LoadPrices("")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	at := func(id, model string, ago time.Duration, usage record.UsageInfo) record.TimelineEntry {
		return record.TimelineEntry{
			Turn: &record.Turn{Messages: []record.Message{{Role: "user", Parts: []record.Part{{Kind: "text", Text: strings.Repeat("word ", 800)}}}}},
			Exchange: record.ExchangeInfo{
				ID: id, Session: "sess_1", Surface: "messages", Format: "messages", Provider: "anthropic", ModelAsked: model, ModelSent: model,
				Outcome: record.OutcomeComplete, Started: now.Add(-ago), LastByte: now.Add(-ago), Usage: usage,
			},
		}
	}
	a := archive{entries: []record.TimelineEntry{
		at("exch_3", "claude-sonnet-4-6", time.Minute, record.UsageInfo{CacheWrite: 140_000, Output: 1000}),
		at("exch_2", "claude-opus-4-8", 2*time.Minute, record.UsageInfo{CacheRead: 99_000, CacheWrite: 1000, Output: 1000}),
		at("exch_1", "claude-opus-4-8", 3*time.Minute, record.UsageInfo{CacheWrite: 99_000, Output: 1000}),
	}}
	c := promptcache.Caches{Archive: &a, Prices: &prices, Warn: promptcache.LeastWarning, Clock: func() time.Time { return now }}
	f, err := c.Forecast("acme", "sess_1", "claude-opus-4-8")
	if err != nil || f.Tokens != 103_000 || f.Text != "" || f.Cold > record.Dollar/8 {
		t.Errorf("within five minutes: %+v, %v", f, err)
	}
	now = now.Add(4 * time.Minute)
	f, err = c.Forecast("acme", "sess_1", "claude-opus-4-8")
	if err != nil || f.Tokens != 103_000 || f.Cold < record.Dollar/2 || !strings.HasPrefix(f.Text, "The model changes from claude-sonnet-4-6 to claude-opus-4-8, 103k tokens, cache gone: ") {
		t.Errorf("later: %+v, %v", f, err)
	}
}

// Claude Code gives some models longer instructions than others. How long they are shows in another session.
func TestAModelThatIsOfferedMoreCostsMore(t *testing.T) {
	prices, err := router.LoadPrices("")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	at := func(id, session, model, client string) record.TimelineEntry {
		return record.TimelineEntry{Turn: &record.Turn{}, Exchange: record.ExchangeInfo{
			ID: id, Session: session, Surface: "messages", Format: "messages", Provider: "anthropic", ModelAsked: model, ModelSent: model,
			Header:  []record.HeaderField{{Name: "User-Agent", Value: client}},
			Outcome: record.OutcomeComplete, Started: now.Add(-time.Minute), LastByte: now.Add(-time.Minute), Usage: record.UsageInfo{CacheWrite: 30_000},
		}}
	}
	request := func(fixed int) string { // of 120,000 bytes, which are 30,000 tokens
		frame := `{"tools":[{"name":"t","description":""}],"messages":[{"role":"user","content":""}]}`
		body := strings.Replace(frame, `"description":"`, `"description":"`+strings.Repeat("x", fixed), 1)
		return strings.Replace(body, `"content":"`, `"content":"`+strings.Repeat("y", 120_000-fixed-len(frame)), 1)
	}
	for name, story := range map[string]struct {
		there, want int64
		client      string
	}{
		"longer": {80_000, 40_000, "claude-cli/2.1.197"}, "shorter": {20_000, 25_000, "claude-cli/2.1.197"}, "of another client": {80_000, 30_000, "curl/8"},
	} {
		a := archive{
			entries:  []record.TimelineEntry{at("exch_1", "sess_1", "claude-opus-4-8", "claude-cli/2.1.197"), at("exch_2", "sess_2", "claude-sonnet-4-6", story.client)},
			sessions: []record.Session{{ID: "sess_1", Models: []string{"claude-opus-4-8"}, Client: clientOf("claude-cli/2.1.197")}, {ID: "sess_2", Models: []string{"claude-sonnet-4-6"}, Client: clientOf(story.client)}},
			bodies:   map[string]string{"exch_1": request(40_000), "exch_2": request(int(story.there))},
		}
		c := promptcache.Caches{Archive: &a, Prices: &prices, Warn: promptcache.LeastWarning, Clock: func() time.Time { return now }}
		f, err := c.Forecast("acme", "sess_1", "claude-sonnet-4-6")
		if err != nil || f.Reason != api.BrokenByModel || max(f.Tokens-story.want, story.want-f.Tokens) > 50 {
			t.Errorf("%s: %+v, %v", name, f, err)
		}
	}
}

// clientOf returns the client that a program's name in a header stands for.
func clientOf(program string) string {
	x := record.ExchangeInfo{Header: []record.HeaderField{{Name: "User-Agent", Value: program}}}
	return x.Client()
}

// A hook waits for it.
func TestAPromptReadsTheCostliestPairOfRequestsAlone(t *testing.T) {
	prices, err := router.LoadPrices("")
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	var a archive
	for i := range 9 { // all in one round, with other tools each time
		usage := record.UsageInfo{CacheWrite: 100_000 + int64(i)*1000}
		at := now.Add(time.Duration(i-9) * time.Second)
		a.entries = append([]record.TimelineEntry{{Turn: &record.Turn{}, Exchange: record.ExchangeInfo{
			ID: fmt.Sprint("exch_", i), Session: "sess_1", Surface: "messages", Format: "messages", Provider: "anthropic",
			ModelAsked: "claude-opus-4-8", ModelSent: "claude-opus-4-8", Outcome: record.OutcomeComplete, Started: at, LastByte: at, Usage: usage,
		}}}, a.entries...)
	}
	c := promptcache.Caches{Archive: &a, Prices: &prices, Warn: promptcache.LeastWarning, Clock: func() time.Time { return now }}
	warning := c.Warning("acme", "sess_1", "", "", 100)
	if !strings.HasPrefix(warning, "The last turn paid for 107k tokens again, $0.62 more than from the cache: ") || !strings.HasSuffix(warning, ": other tools were offered (tool_exch_7, tool_exch_8).") {
		t.Errorf("%q", warning)
	}
	if want := []string{"exch_8", "exch_7"}; !slices.Equal(a.read, want) {
		t.Errorf("read are %q, want %q", a.read, want)
	}
	a.read = nil
	c.Warn = 100 * record.Dollar
	if warning := c.Warning("acme", "sess_1", "", "", 100); warning != "" || len(a.read) > 0 {
		t.Errorf("below the least: %q, read are %q", warning, a.read)
	}
	a.pages = 0
	c.Warn = -1
	if warning := c.Warning("acme", "sess_1", "", "claude-sonnet-4-6", 100); warning != "" || a.pages > 0 {
		t.Errorf("without warnings: %q, after %d pages", warning, a.pages)
	}

	b := c.Broken("acme", &record.Exchange{ExchangeInfo: a.entries[0].Exchange, RawRequest: []byte(`{"tools":[{"name":"tool_exch_8"}],"messages":[]}`)})
	if b == nil || b.Reason != api.BrokenByTools || !slices.Equal(a.read, []string{"exch_7"}) {
		t.Errorf("%+v, read are %q", b, a.read)
	}
}
