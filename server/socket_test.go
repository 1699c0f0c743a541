package server_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/mnemeproxy/mneme/bench/published"
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// wire is a client's WebSocket on the surface of Responses.
type wire struct {
	t testing.TB
	*websocket.Conn
}

// handshake opens a WebSocket as a dialer does.
func (h *harness) handshake(d *websocket.Dialer, header http.Header) (*websocket.Conn, *http.Response, error) {
	d.NetDialContext = h.reach
	d.TLSClientConfig = h.tls
	return d.DialContext(context.Background(), "ws"+strings.TrimPrefix(h.url, "http")+"/v1/responses", header)
}

func (h *harness) socket(d websocket.Dialer) *wire {
	h.t.Helper()
	conn, response, err := h.handshake(&d, http.Header{"Authorization": {"Bearer " + h.key}})
	ok(h.t, err)
	_ = response.Body.Close()
	h.t.Cleanup(func() { _ = conn.Close() })
	ok(h.t, conn.SetReadDeadline(time.Now().Add(timeout)))
	return &wire{h.t, conn}
}

func (w *wire) send(text string) {
	w.t.Helper()
	ok(w.t, w.WriteMessage(websocket.TextMessage, []byte(text)))
}

// answer reads events up to one that ends a response, or is an error.
func (w *wire) answer() (events []string) {
	w.t.Helper()
	for {
		_, event, err := w.ReadMessage()
		if err != nil {
			w.t.Fatalf("after %d events: %v", len(events), err)
		}
		events = append(events, string(event))
		switch member(string(event), "type") {
		case "response.completed", "response.failed", "response.incomplete", "error":
			return events
		}
	}
}

func (w *wire) ask(text string) (events []string) {
	w.t.Helper()
	w.send(text)
	return w.answer()
}

// completed is the id of a response that has to be complete.
func (w *wire) completed(text string) (id string) {
	w.t.Helper()
	events := w.ask(text)
	last := events[len(events)-1]
	if id = member(last, "response", "id"); id == "" || member(last, "type") != "response.completed" {
		w.t.Fatalf("the answer to %s ends with %s", text, last)
	}
	return id
}

func create(model, input string, members ...string) string {
	return fmt.Sprintf(`{"type":"response.create","model":%q,"input":%s%s}`, model, quoted(input), strings.Join(append([]string{""}, members...), ","))
}

func previous(id string) string { return fmt.Sprintf(`"previous_response_id":%q`, id) }

const unstored = `"store":false`

func kinds(events []string) (kinds []string) {
	for _, e := range events {
		kinds = append(kinds, member(e, "type"))
	}
	return kinds
}

func TestAWebSocketSendsTheEventsOfAStream(t *testing.T) {
	onEveryTransport(t, aWebSocketSendsTheEvents)
}

func aWebSocketSendsTheEvents(t *testing.T, on transportPlan) {
	h := build(t, on)
	for _, compressed := range []bool{false, true} {
		w := h.socket(websocket.Dialer{EnableCompression: compressed})
		for _, model := range families {
			for range 2 { // one after another
				script := "Hello. [[sim: reasoning \"Well.\"; text \"Here you are.\"; call look {\"at\":\"" + strings.Repeat("this ", 2000) + "\"}]]"
				tools := `"tools":[{"type":"function","name":"look","parameters":{"type":"object"}}]`
				events := w.ask(create(model, script, tools))
				posted := h.post("/v1/responses", strings.Replace(create(model, script, tools), `"type":"response.create"`, `"stream":true`, 1))
				var want []string
				for line := range strings.SplitSeq(posted.body, "\n") {
					if data, isData := strings.CutPrefix(line, "data: "); isData {
						want = append(want, member(data, "type"))
					}
				}
				if got := kinds(events); !slices.Equal(got, want) {
					t.Errorf("%s: the events are\n%v, those of a stream\n%v", model, got, want)
				}
				id := member(events[len(events)-1], "response", "id")
				if a := h.do(http.MethodGet, "/v1/responses/"+id, "", "Authorization", "Bearer "+h.key); a.status != http.StatusOK {
					t.Errorf("%s is on record as %d %s", model, a.status, a.body)
				}
			}
		}
	}
}

func TestAConversationThatIsNotStoredGoesOnWithinItsConnection(t *testing.T) {
	for _, off := range []bool{false, true} {
		h := build(t, func(p *plan) {
			if off {
				p.server.OptOut = []string{"acme"}
			}
		})
		for _, model := range families {
			w := h.socket(websocket.Dialer{})
			warm := w.completed(create(model, "The place is Quito.", unstored, `"generate":false`))
			first := w.completed(create(model, sim("The word is quokka.", "Noted."), unstored, previous(warm)))
			second := w.completed(create(model, sim("The number is nine.", "Noted, too."), unstored, previous(first)))
			w.completed(create(model, sim("And now?", "All of it."), unstored, previous(second)))
			sent := string(h.upstream().Body)
			at := 0
			for _, part := range []string{"Quito", "quokka", "Noted.", "nine", "Noted, too.", "And now?"} {
				i := strings.Index(sent[at:], part)
				if i < 0 {
					t.Fatalf("%s is not told %q in its place: %s", model, part, sent)
				}
				at += i
			}
			if found := errorCode(w.ask(create(model, "And the first?", unstored, previous(first)))); found != "previous_response_not_found" {
				t.Errorf("%s: an older response is continued: %q", model, found)
			}
			other := w.completed(create(model, sim("Another.", "Yes."), unstored))
			if found := errorCode(h.socket(websocket.Dialer{}).ask(create(model, "Go on.", unstored, previous(other)))); found != "previous_response_not_found" {
				t.Errorf("%s: another connection continues what is not stored: %q", model, found)
			}
			if a := h.post("/v1/responses", fmt.Sprintf(`{"model":%q,"input":"Go on.",%s}`, model, previous(other))); !strings.Contains(a.body, "previous_response_not_found") {
				t.Errorf("%s: a POST continues what is not stored: %d %s", model, a.status, a.body)
			}
		}
	}
}

func errorCode(events []string) string { return member(events[len(events)-1], "error", "code") }

func TestAStoredConversationGoesOnOnAnotherConnection(t *testing.T) {
	h := build(t)
	for _, model := range families {
		first := h.socket(websocket.Dialer{}).completed(create(model, sim("The word is quokka.", "Noted.")))
		w := h.socket(websocket.Dialer{})
		second := w.completed(create(model, sim("And then?", "Nothing."), previous(first), unstored))
		w.completed(create(model, sim("And now?", "Nothing."), previous(second), unstored))
		if model != responses.model && !strings.Contains(string(h.upstream().Body), "quokka") {
			t.Errorf("%s is not told what is stored: %s", model, h.upstream().Body)
		}
	}
}

func TestAFailedContinuationForgetsTheConversation(t *testing.T) {
	h := build(t)
	for _, model := range families {
		w := h.socket(websocket.Dialer{})
		first := w.completed(create(model, sim("Hello.", "Hello."), unstored))
		failed := w.ask(fmt.Sprintf(`{"type":"response.create","model":%q,"store":false,%s,"input":[{"type":"function_call_output","call_id":"call_none","output":"x"}]}`, model, previous(first)))
		if last := failed[len(failed)-1]; member(last, "type") != "error" || !strings.Contains(last, `"status":400`) {
			t.Errorf("%s: the output of no call is answered with %s", model, last)
		}
		if code := errorCode(w.ask(create(model, "Go on.", unstored, previous(first)))); code != "previous_response_not_found" {
			t.Errorf("%s: the conversation goes on after a failure: %q", model, code)
		}
		first = w.completed(create(model, sim("Hello.", "Hello."), unstored))
		w.ask(create(model, "Go on. [[sim: error 500]]", unstored, previous(first)))
		if code := errorCode(w.ask(create(model, "Go on.", unstored, previous(first)))); code != "previous_response_not_found" {
			t.Errorf("%s: the conversation goes on after its provider failed: %q", model, code)
		}
		w.completed(create(model, sim("Hello again.", "Hello."), unstored))
	}
}

func TestAFrameThatIsNoEventIsAnsweredWithAnErrorEvent(t *testing.T) {
	h := build(t, func(p *plan) { p.server.BodyBytes = 64 << 10 })
	w := h.socket(websocket.Dialer{EnableCompression: true})
	for _, frame := range []string{
		``, `hello`, `{`, `[]`, `{}`, `null`, `{"type":1}`, `{"type":"response.steer"}`, `{"type":"response.create"`, "{\"type\":\"\xff\"}",
		`{"type":"response.create"}`, `{"type":"response.create","model":7}`, create("gpt-5.5", "x", `"stream_id":7`),
		create("no-such-model", "x"), create("gpt-5.5", strings.Repeat("x", 65<<10)),
		create("gpt-5.5", "x", previous("resp_nothing")),
	} {
		events := w.ask(frame)
		last := events[0]
		if len(events) != 1 || member(last, "type") != "error" || !strings.Contains(last, `"status":4`) || member(last, "error", "message") == "" {
			t.Errorf("%.60q is answered with %v", frame, events)
		}
	}
	ok(t, w.WriteMessage(websocket.BinaryMessage, []byte(create("gpt-5.5", "x"))))
	if events := w.answer(); member(events[0], "type") != "error" {
		t.Errorf("a binary message is answered with %v", events)
	}
	for _, e := range w.ask(create("gpt-5.5", sim("Hello.", "Hello."), `"stream_id":"main \"1\""`)) {
		if member(e, "stream_id") != `main "1"` || member(e, "type") == "error" {
			t.Errorf("an event of a stream: %s", e)
		}
	}
}

func TestAWebSocketIsForCallersWithAKey(t *testing.T) {
	h := build(t)
	for _, c := range []struct {
		name string
		key  string
		want int
	}{
		{"no key", "", http.StatusUnauthorized},
		{"a key that only reads", "Bearer " + h.createKey("acme", store.ScopeRead), http.StatusForbidden},
	} {
		_, response, err := h.handshake(&websocket.Dialer{}, http.Header{"Authorization": {c.key}})
		if err == nil || response.StatusCode != c.want {
			t.Errorf("%s: %v, %v", c.name, response, err)
		}
	}
	if a := h.do(http.MethodGet, "/v1/responses", "", "Authorization", "Bearer "+h.key); a.status != http.StatusUpgradeRequired {
		t.Errorf("a plain GET: %d %s", a.status, a.body)
	}
	bad := h.do(http.MethodGet, "/v1/responses", "", "Authorization", "Bearer "+h.key, "Upgrade", "websocket", "Connection", "Upgrade", "Sec-WebSocket-Version", "12")
	if bad.status != http.StatusBadRequest || len(published.Error(codec.Responses, []byte(bad.body))) > 0 {
		t.Errorf("a bad handshake: %d %s", bad.status, bad.body)
	}
}

func TestLimitsHoldForEachEventOfAWebSocket(t *testing.T) {
	h, _ := timed(t)
	h.limit(store.Limits{RequestsPerMinute: 2})
	w := h.socket(websocket.Dialer{})
	for range 2 {
		w.completed(create("claude-opus-4-8", sim("Hello.", "Hello.")))
	}
	events := w.ask(create("claude-opus-4-8", "Hello."))
	if last := events[0]; !strings.Contains(last, `"status":429`) || errorCode(events) != "rate_limit_exceeded" {
		t.Errorf("a request over the limit: %s", last)
	}
}

func TestConversationsOfWebSocketsHaveABoundOfMemory(t *testing.T) {
	h := build(t, func(p *plan) {
		p.server.InFlightBytes, p.server.AnswerMemory, p.server.BodyBytes = 6<<20, 1<<20, 1<<20-1
	})
	w := h.socket(websocket.Dialer{})
	kept := w.completed(create("claude-opus-4-8", sim("Hello.", "Hello."), unstored))
	large := w.completed(create("claude-opus-4-8", strings.Repeat("x", 800<<10)+sim("", "Hello."), unstored, previous(kept)))
	if code := errorCode(w.ask(create("claude-opus-4-8", "Go on.", unstored, previous(large)))); code != "previous_response_not_found" {
		t.Errorf("a conversation over the bound is kept: %q", code)
	}
	w.completed(create("claude-opus-4-8", sim("Hello.", "Hello."), unstored))
}

func TestPingsAreAnsweredWhileAResponseIsMade(t *testing.T) {
	h := build(t)
	w := h.socket(websocket.Dialer{})
	pong := make(chan string, 1)
	w.SetPongHandler(func(data string) error { pong <- data; return nil })
	w.send(create("claude-opus-4-8", `Hello. [[sim: events 400; delay 10ms]]`))
	h.await(1)
	ok(t, w.WriteControl(websocket.PingMessage, []byte("there?"), time.Now().Add(timeout)))
	for {
		_, event, err := w.ReadMessage()
		ok(t, err)
		if member(string(event), "type") == "response.completed" {
			t.Fatal("the response ended before the pong came")
		}
		if len(pong) > 0 {
			if got := <-pong; got != "there?" {
				t.Errorf("the pong says %q", got)
			}
			return
		}
	}
}

func TestAClientThatLeavesItsWebSocketEndsItsResponse(t *testing.T) { onEveryTransport(t, leavingEnds) }

func leavingEnds(t *testing.T, on transportPlan) {
	h := build(t, on)
	w := h.socket(websocket.Dialer{})
	w.send(create("claude-opus-4-8", `Hello. [[sim: events 100000; delay 10ms]]`))
	_, _, err := w.ReadMessage()
	ok(t, err)
	ok(t, w.Close())
	id := h.records("acme")[0].ID
	if x := h.settled(id); x.Outcome != record.OutcomeClientClosed {
		t.Errorf("on record as %v", x.Outcome)
	}
}

func TestADrainEndsWebSocketsBetweenResponses(t *testing.T) {
	h := build(t)
	idle, busy := h.socket(websocket.Dialer{}), h.socket(websocket.Dialer{})
	busy.send(create("claude-opus-4-8", `Hello. [[sim: text "Done."; delay header=300ms]]`))
	h.await(1)
	ended := make(chan error, 1)
	go func() { ended <- h.stop() }()
	if _, _, err := idle.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Errorf("an idle one ends with %v", err)
	}
	events := busy.answer()
	if last := events[len(events)-1]; member(last, "type") != "response.completed" {
		t.Errorf("a response ends with %s", last)
	}
	if _, _, err := busy.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseGoingAway) {
		t.Errorf("a busy one ends with %v", err)
	}
	ok(t, <-ended)
}

func TestEventsSentAheadWait(t *testing.T) {
	h := build(t)
	w := h.socket(websocket.Dialer{})
	w.send(create("claude-opus-4-8", `Hello. [[sim: text "0"; delay header=300ms]]`))
	h.await(1)
	const ahead = 16
	for i := range ahead + 1 {
		w.send(create("claude-opus-4-8", sim("Hello.", fmt.Sprint(i+1))))
	}
	var said []string
	for range ahead + 2 {
		events := w.answer()
		last := events[len(events)-1]
		if member(last, "type") == "error" {
			if errorCode(events) != "rate_limit_exceeded" {
				t.Errorf("one too many: %s", last)
			}
			continue
		}
		_, text, _ := strings.Cut(last, `"text":"`)
		text, _, _ = strings.Cut(text, `"`)
		said = append(said, text)
	}
	if len(said) != ahead+1 || said[0] != "0" || said[ahead] != fmt.Sprint(ahead) {
		t.Errorf("the answers are %v", said)
	}
}

func TestAStalledMessageEndsItsWebSocket(t *testing.T) {
	h := build(t, func(p *plan) { p.server.ReadTimeout = 100 * time.Millisecond })
	w := h.socket(websocket.Dialer{})
	_, err := w.NetConn().Write([]byte{0x81, 0xff, 0, 0, 0, 0, 0, 1, 0, 0, 1, 2, 3, 4, 'x'})
	ok(t, err)
	if _, _, err := w.ReadMessage(); err == nil || errors.As(err, new(net.Error)) {
		t.Errorf("it ends with %v", err)
	}
}
