package server_test

import (
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/webhook"
	"github.com/mnemeproxy/mneme/store"
)

// circling is the request of an agent on the chat surface that has called make so many times, each time in vain, and
// what a person has said since.
func circling(times int, says string) string {
	items := []string{`{"role":"user","content":"Build it. [[sim: text \"hi\"]]"}`}
	for i := range times {
		id := "call_" + strconv.Itoa(1000+i)
		items = append(items,
			`{"role":"assistant","content":"Let me try`+strings.Repeat(" again", i%3)+`.","tool_calls":[{"id":"`+id+`","type":"function","function":{"name":"Bash","arguments":"{\"command\":\"make\"}"}}]}`,
			`{"role":"tool","tool_call_id":"`+id+`","content":"make: *** No rule to make target. Stop."}`)
	}
	if says != "" {
		items = append(items, `{"role":"user","content":"`+says+`"}`)
	}
	return `{"model":"` + chat.model + `","messages":[` + strings.Join(items, ",") + `]}`
}

// Names of tools are the caller's, and stand in a header of the answer.
func TestTheNameOfARepeatedCallAddsNoHeader(t *testing.T) {
	h := build(t)
	hostile := `Ba\r\nX-Evil: 1\r\n` + strings.Repeat("h", 5000)
	a := h.post(chat.path, strings.ReplaceAll(circling(6, ""), `"name":"Bash"`, `"name":"`+hostile+`"`))
	if got := a.header.Get("X-Service-Repeats"); a.header.Get("X-Evil") != "" || !strings.HasPrefix(got, "6 times Ba??X-Evil") || len(got) > 200 {
		t.Errorf("%d %v", a.status, a.header)
	}
}

func TestAnAgentThatRepeatsItselfIsReportedAndStoppedWhereAKeySaysSo(t *testing.T) {
	got := make(chan webhook.AgentRepeats, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var told struct {
			Type string
			Data webhook.AgentRepeats
		}
		body, _ := io.ReadAll(r.Body)
		if json.Unmarshal(body, &told) == nil && told.Type == webhook.Repeats {
			got <- told.Data
		}
	}))
	defer receiver.Close()
	hooks, err := webhook.Start(webhook.Options{
		Hooks: []webhook.Hook{{URL: receiver.URL, Secret: "whsec_ZXhhbXBsZS1zZWNyZXQtb2YtbW5lbWUh"}}, Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler),
	})
	ok(t, err)
	defer hooks.Close()
	h := build(t, func(p *plan) { p.server.Webhooks = hooks })
	tell := func(times int, refused bool) {
		t.Helper()
		select {
		case told := <-got:
			if told.Times != times || told.Refused != refused || !slices.Equal(told.Calls, []string{"Bash"}) || told.Account != "acme" {
				t.Errorf("told was %+v, want %d times, refused %t", told, times, refused)
			}
		case <-time.After(timeout):
			t.Fatalf("nothing was told of %d times", times)
		}
	}
	send := func(times int, says string, status int, header string) *answer {
		t.Helper()
		a := h.post(chat.path, circling(times, says))
		if a.status != status || a.header.Get("X-Service-Repeats") != header {
			t.Fatalf("%d times, %q: %d, %q: %s", times, says, a.status, a.header.Get("X-Service-Repeats"), a.body)
		}
		return a
	}

	send(4, "", 200, "")
	send(5, "", 200, "5 times Bash")
	tell(5, false)
	a := send(6, "", 200, "6 times Bash")
	if x, err := h.store.Archive().ExchangeInfo("acme", a.header.Get("X-Service-Exchange-ID")); err != nil || x.Repeats != "6 times Bash" {
		t.Errorf("on record is %+v, %v", x, err)
	}
	send(10, "", 200, "10 times Bash")
	tell(10, false)

	h.limit(store.Limits{Repeats: 8})
	send(7, "", 200, "7 times Bash")
	asked := len(h.provider.Requests())
	a = send(8, "", 400, "8 times Bash")
	tell(8, true)
	if kind, message := errorOf(t, chat, a); !strings.Contains(message, "called Bash with the same arguments and got the same result 8 times in a row") {
		t.Errorf("%s: %s", kind, message)
	}
	if a.header.Get("X-Should-Retry") != "false" || len(h.provider.Requests()) != asked {
		t.Errorf("X-Should-Retry %q, %d requests went to the provider", a.header.Get("X-Should-Retry"), len(h.provider.Requests())-asked)
	}
	send(8, "Use ninja instead.", 200, "")

	h.limit(store.Limits{StalledTokens: 6000})
	send(9, "", 200, "9 times Bash")
	for times, refused := 10, false; !refused; times++ {
		a := h.post(chat.path, circling(times, ""))
		if refused = a.status == 400; times > 40 {
			t.Fatal("an agent that learns nothing new is not stopped")
		} else if kind, message := errorOf(t, chat, a); refused && (!strings.Contains(message, "tokens since its last new result: it called Bash") || !strings.Contains(a.body, "stalled_tokens")) {
			t.Errorf("%s: %s", kind, message)
		}
	}
}
