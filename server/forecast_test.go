package server_test

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/record"
)

// talk is a conversation of an agent whose prompt is cached, with the clock of its server in the test's hands.
type talk struct {
	*harness
	ahead   atomic.Int64 // of the clock
	key     string
	model   string
	system  string
	tools   string
	items   []string
	session string
}

func talking(t *testing.T) *talk {
	k := &talk{key: "talk", model: messages.model, system: strings.Repeat("Keep to the rules of this house. ", 2000)}
	k.offer("Read", "Edit", "mcp__tickets__list", "mcp__tickets__open")
	k.harness = remembering(t, func(p *plan) {
		p.provider.Cache = true
		p.server.Clock = func() time.Time { return time.Now().Add(time.Duration(k.ahead.Load())) }
	})
	return k
}

func (k *talk) offer(names ...string) {
	tools := make([]string, len(names))
	for i, name := range names {
		tools[i] = fmt.Sprintf(`{"name":%q,"description":"%s","input_schema":{"type":"object"}}`, name, strings.Repeat("words ", 50))
	}
	k.tools = strings.Join(tools, ",")
}

// say sends the next prompt of the conversation, and returns its record.
func (k *talk) say(words string) *record.ExchangeInfo {
	k.t.Helper()
	const answer = "So it is done, as the rules of this house say."
	items := append(k.items, fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":%s,"cache_control":{"type":"ephemeral"}}]}`, quoted(sim(words, answer))))
	a := k.post(messages.path, fmt.Sprintf(`{"model":%q,"max_tokens":400,"tools":[%s],"system":[{"type":"text","text":%s,"cache_control":{"type":"ephemeral"}}],"messages":[%s]}`,
		k.model, k.tools, quoted(k.system), strings.Join(items, ",")), "X-Service-Chat-Key", k.key)
	if a.status != 200 {
		k.t.Fatalf("%d %s", a.status, a.body)
	}
	k.session = a.header.Get("X-Service-Session-ID")
	k.items = append(k.items, fmt.Sprintf(`{"role":"user","content":[{"type":"text","text":%s}]}`, quoted(sim(words, answer))), fmt.Sprintf(`{"role":"assistant","content":[{"type":"text","text":%s}]}`, quoted(answer)))
	x, err := k.store.Archive().ExchangeInfo("acme", a.header.Get("X-Service-Exchange-ID"))
	ok(k.t, err)
	return x
}

// hook returns what the client's hook shows before a prompt.
func (k *talk) hook(event, model string) string {
	k.t.Helper()
	body := fmt.Sprintf(`{"hook_event_name":%q,"session_id":%q,"cwd":"/src","prompt":"Go on then.","source":"resume","model":%q}`, event, k.session, model)
	if event == "UserPromptSubmit" {
		body = strings.Replace(body, `"source":"resume",`, "", 1)
	}
	a := k.post("/v1/memory/recall", body)
	var answer api.HookAnswer
	if err := json.Unmarshal([]byte(a.body), &answer); err != nil || a.status != 200 {
		k.t.Fatalf("%d %s", a.status, a.body)
	}
	return answer.Message
}

// foretold is the cost in a warning.
func (k *talk) foretold(warning string) float64 {
	k.t.Helper()
	var cost float64
	if found := regexp.MustCompile(`costs about \$([0-9.]+) instead`).FindStringSubmatch(warning); found == nil {
		k.t.Fatalf("no cost in %q", warning)
	} else if _, err := fmt.Sscan(found[1], &cost); err != nil {
		k.t.Fatal(err)
	}
	return cost
}

// near checks that a turn cost what the warning before it said.
func (k *talk) near(warning string, x *record.ExchangeInfo) {
	k.t.Helper()
	cost := float64(x.Cost.USD) / float64(record.Dollar)
	if said := k.foretold(warning); math.Abs(said-cost) > cost/10 {
		k.t.Errorf("%q, but on record is $%.4f: %+v", warning, cost, x.Usage)
	}
}

func TestAWarningBeforeAColdPromptNamesItsCauseAndCost(t *testing.T) {
	k := talking(t)
	for range 3 {
		k.say("Look at this. " + strings.Repeat("It is long. ", 2500))
	}
	if told := k.hook("UserPromptSubmit", ""); told != "" {
		t.Errorf("a warm prompt is told: %s", told)
	}

	k.ahead.Store(int64(3*time.Hour + time.Minute))
	told := k.hook("UserPromptSubmit", "")
	if !strings.HasPrefix(told, "Idle 3 h, 4") || !strings.Contains(told, "cache gone") || !strings.Contains(told, "A fresh session with a handoff: about $0.") {
		t.Errorf("after three hours: %q", told)
	}
	k.provider.ForgetPrompts()
	k.near(told, k.say("Go on."))

	k.ahead.Store(0)
	if told := k.hook("SessionStart", "claude-sonnet-4-6[1m]"); told != "" {
		t.Errorf("the start of a session is told: %q", told)
	}
	told = k.hook("UserPromptSubmit", "")
	if !strings.HasPrefix(told, "The model changes from claude-opus-4-8 to claude-sonnet-4-6, ") {
		t.Errorf("started with another model: %q", told)
	}
	k.model = "claude-sonnet-4-6"
	k.near(told, k.say("Go on."))
	if told := k.hook("UserPromptSubmit", ""); told != "" {
		t.Errorf("after the change: %q", told)
	}
	if told := k.hook("UserPromptSubmit", "claude-opus-4-8"); told != "" {
		t.Errorf("back to a model whose cache lives: %q", told)
	}
	k.ahead.Store(int64(6 * time.Minute))
	if told := k.hook("UserPromptSubmit", "claude-opus-4-8"); !strings.HasPrefix(told, "The model changes from claude-sonnet-4-6 to claude-opus-4-8, ") {
		t.Errorf("a client that names its model: %q", told)
	}
	k.ahead.Store(0)

	k.offer("Read", "Edit", "mcp__tickets__list", "mcp__tickets__open", "mcp__wiki__read", "mcp__wiki__find")
	k.say("Go on.")
	k.turns(k.session)
	if told := k.hook("UserPromptSubmit", ""); !strings.Contains(told, "other tools were offered (2 of mcp__wiki).") {
		t.Errorf("after other tools: %q", told)
	}
	k.say("Go on.")
	k.turns(k.session)
	if told := k.hook("UserPromptSubmit", ""); told != "" {
		t.Errorf("a turn later: %q", told)
	}
}

func TestWarmTurnsCauseNoWarning(t *testing.T) {
	k := talking(t)
	turns := 500
	if testing.Short() {
		turns = 50
	}
	for i := range turns {
		if i%60 == 59 { // a new session, like those of people
			k.key, k.items = fmt.Sprint("talk", i), nil
		}
		k.say("Go on.")
		if told := k.hook("UserPromptSubmit", k.model); told != "" {
			t.Fatalf("turn %d: %s", i, told)
		}
	}
}

func TestAForecastSaysHowLongACacheLives(t *testing.T) {
	k := talking(t)
	x := k.say("Go on.")
	var f api.Forecast
	ask := func(query string) {
		t.Helper()
		a := k.get("/sessions/" + k.session + "/forecast" + query)
		if err := json.Unmarshal([]byte(a.body), &f); err != nil || a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	ask("")
	if f.Reason != "" || f.Text != "" || f.Kept != 300_000 || !f.Ends.Equal(x.LastByte.Add(5*time.Minute)) || f.Warm <= 0 || f.Cold <= f.Warm || f.Fresh != 0 {
		t.Errorf("warm: %+v", f)
	}
	f = api.Forecast{}
	ask("?model=claude-sonnet-4-6")
	if f.Reason != api.BrokenByModel || f.Now != "claude-sonnet-4-6" || f.Text == "" {
		t.Errorf("another model: %+v", f)
	}
	if a := k.get("/sessions/sess_0/forecast"); a.status != 404 {
		t.Errorf("of an unknown session: %d %s", a.status, a.body)
	}
}
