package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/router"
)

// deliveries are ways in which a provider may send an answer.
var deliveries = []string{
	`text "Hello, wörld \"quoted\" \\ 検索"`,
	`text "abcdefghijklmnop"; one-byte`,
	`text "abcdefghijklmnop"; crlf`,
	`text "abcdefgh"; crlf; one-byte`,
	`events 40; ping every=3`,
	`events 3; queue 3 1ms`,
	`text "x"; unknown`,
	`reasoning "let me think"; text "done"`,
	`call lookup {"q": "a  b", "n":1.50}`,
	`call one {"a":1}; call two {"b":2}; interleave`,
	`text "split 😀 pairs"; split-surrogates; size 1`,
	`refuse "no"`,
	`call lookup "{\"q\":"`,
	`text "cut short"; stop length`,
	`text "x"; usage input=100 cached=40 output=9 reasoning=3`,
	`events 600; burst 100`,
}

func TestBytesGoThroughUntouchedBothWays(t *testing.T) {
	onEveryTransport(t, bytesGoThroughUntouchedBothWays)
}

func bytesGoThroughUntouchedBothWays(t *testing.T, on transportPlan) {
	for _, asks := range []bool{false, true} {
		t.Run(fmt.Sprintf("asks=%t", asks), func(t *testing.T) {
			build(t, on, func(p *plan) { p.server.AskUsage = asks }).passesBytesUntouched(asks)
		})
	}
}

// usageAsked is the one thing that is added to a request, if it is for a stream of Chat that does not ask for its usage.
func usageAsked(s surface, body string) string {
	if s.name != "chat" {
		return body
	}
	return strings.Replace(body, `"stream":true`, `"stream":true,"stream_options":{"include_usage":true}`, 1)
}

func (h *harness) passesBytesUntouched(asks bool) {
	t := h.t
	for _, s := range surfaces {
		for _, script := range deliveries {
			for _, stream := range []bool{false, true} {
				if s.name == "embeddings" && (stream || script != deliveries[0]) {
					continue
				}
				body := s.body(script, stream)
				want := h.direct(s, body)
				a := h.post(s.path, body)
				if a.cut != nil || a.status != want.status || a.body != want.body {
					t.Errorf("%s stream=%t %s: %d %v, %d bytes\n%q\nthe provider sent %d, %d bytes\n%q", s.name, stream, script,
						a.status, a.cut, len(a.body), a.body, want.status, len(want.body), want.body)
				}
				if got := a.header.Get("Content-Type"); got != want.header.Get("Content-Type") && !(stream && strings.HasPrefix(got, "text/event-stream")) {
					t.Errorf("%s stream=%t: content type %q, the provider's is %q", s.name, stream, got, want.header.Get("Content-Type"))
				}
				sent := s.sent(body)
				if asks {
					sent = usageAsked(s, sent)
				}
				if up := h.upstream(); string(up.Body) != sent {
					t.Errorf("%s: upstream came\n%s\nand not\n%s", s.name, up.Body, sent)
				}
				if x := h.record(a.exchange()); string(x.RawRequest) != body || string(x.RawResponse) != want.body {
					t.Errorf("%s stream=%t %s: the record holds\n%s\n%s", s.name, stream, script, x.RawRequest, x.RawResponse)
				}
			}
		}
	}
}

// Where the operator wants exact counts, a client of Chat that did not ask for usage gets none, wherever the provider puts
// it, and the record has it.
func TestUsageIsRequestedAndHiddenFromTheClient(t *testing.T) {
	h := build(t, func(p *plan) { p.server.AskUsage = true })
	for _, members := range []string{"", `"stream_options":{}`, `"stream_options":null`, `"stream_options":{"include_obfuscation":false,"include_usage":false}`} {
		for _, script := range []string{`text "hi"; usage input=100 cached=40 output=9`, `text "hi"; usage input=100 cached=40 output=9; one-byte; crlf`} {
			body := chat.body(script, true)
			if members != "" {
				body = with(body, members)
			}
			a := h.post(chat.path, body)
			if a.status != 200 || strings.Contains(a.body, "usage") || strings.Contains(a.body, `"choices":[]`) || !strings.Contains(a.body, "[DONE]") {
				t.Errorf("with %s: %d %s", members, a.status, a.body)
			}
			up := string(h.upstream().Body)
			if strings.Count(up, `"include_usage":true`) != 1 || strings.Count(up, "stream_options") != 1 || strings.Contains(members, "obfuscation") != strings.Contains(up, `"include_obfuscation":false`) {
				t.Errorf("with %s the provider was asked %s", members, up)
			}
			if x := h.record(a.exchange()); x.Usage.InputUncached != 60 || x.Usage.CacheRead != 40 || x.Usage.Output != 9 || x.Usage.Estimated || string(x.RawResponse) != a.body {
				t.Errorf("with %s the record has %+v", members, x.Usage)
			}
		}
	}
	asking := with(chat.body(`text "hi"`, true), `"stream_options":{"include_usage":true}`)
	if a := h.post(chat.path, asking); !strings.Contains(a.body, `"choices":[],"usage":{`) || string(h.upstream().Body) != asking {
		t.Errorf("a client that asks itself: %s", a.body)
	}
}

func TestOddButValidRequestsGoUpstreamUnchanged(t *testing.T) {
	onEveryTransport(t, oddButValidRequestsGoUpstreamUnchanged)
}

func oddButValidRequestsGoUpstreamUnchanged(t *testing.T, on transportPlan) {
	h := build(t, on)
	for _, s := range surfaces {
		plain := s.body(`text "hi"`, false)
		for _, body := range []string{
			" \r\n\t" + plain + "\n ",
			with(plain, `"metadata":{"service_chat_key":"inner","b":[1.0e5, -0, 12345678901234567890]}`),
			with(plain, `"x_unknown":"é \ud83d\ude00 \/ <>&"`),
			strings.Replace(plain, `"model":`, `"\u006dodel" :  `, 1),
		} {
			a := h.post(s.path, body)
			if a.status != 200 {
				t.Errorf("%s: %d %s\n%s", s.name, a.status, a.body, body)
				continue
			}
			if up := h.upstream(); string(up.Body) != s.sent(body) {
				t.Errorf("%s: upstream came\n%s\nand not\n%s", s.name, up.Body, s.sent(body))
			}
		}
	}
}

func TestBodiesChangeOtherwiseOnlyForAliases(t *testing.T) {
	h := build(t, func(p *plan) {
		for _, s := range surfaces {
			p.router.Aliases = append(p.router.Aliases, router.Alias{Model: "my-" + s.name, To: s.model})
		}
	})
	for _, s := range surfaces {
		plain := s.body(`text "hi"`, false)
		body := strings.Replace(with(plain, `"service_chat_key":"k"`), quoted(s.model), `"my-`+s.name+`"`, 1)
		a := h.post(s.path, body)
		if up := h.upstream(); a.status != 200 || string(up.Body) != s.sent(plain) {
			t.Errorf("%s: %d, upstream came\n%s\nand not\n%s", s.name, a.status, up.Body, plain)
		}
		if x := h.record(a.exchange()); x.ModelAsked != "my-"+s.name || x.ModelSent != s.model || string(x.RawRequest) != body {
			t.Errorf("%s: on record as %q, %q", s.name, x.ModelAsked, x.ModelSent)
		}
	}
}

func TestOnlyHeadersOnTheListPass(t *testing.T) {
	h := build(t)
	a := h.post(messages.path+"?beta=true&api_key=secret", messages.body(`text "hi"; header Request-Id "req_1"; header Anthropic-Ratelimit-Requests-Remaining "7"; header Set-Cookie "c=1"; header X-Internal "x"`, false),
		"Anthropic-Version", "2026-10-21", "Anthropic-Beta", "one,two", "User-Agent", "story/1", "Cookie", "session=1",
		"X-Forwarded-For", "10.0.0.1", "Connection", "X-Claude-Code-Session-Id", "X-Custom", "1", "X-Claude-Code-Session-Id", "abc")
	up := h.upstream()
	for name, want := range map[string]string{
		"Anthropic-Version": "2026-10-21", "Anthropic-Beta": "one,two", "User-Agent": "story/1", "Content-Type": "application/json",
		"Cookie": "", "X-Forwarded-For": "", "Connection": "", "X-Custom": "",
	} {
		if got := up.Header.Get(name); got != want {
			t.Errorf("the provider sees %s: %q, want %q", name, got, want)
		}
	}
	if up.Path != "/v1/messages?beta=true" {
		t.Errorf("the provider is asked at %s", up.Path)
	}
	for name, want := range map[string]string{"Request-Id": "req_1", "Anthropic-Ratelimit-Requests-Remaining": "7", "Set-Cookie": "", "X-Internal": ""} {
		if got := a.header.Get(name); got != want {
			t.Errorf("the client sees %s: %q, want %q", name, got, want)
		}
	}
	if !strings.HasPrefix(a.exchange(), "exch_") {
		t.Errorf("the exchange id is %q", a.exchange())
	}
}

// What a provider has sent must reach the client while the provider is silent; nothing waits for more.
func TestEventsArriveAsTheyAreSent(t *testing.T) { onEveryTransport(t, eventsArriveAsTheyAreSent) }

func eventsArriveAsTheyAreSent(t *testing.T, on transportPlan) {
	h := build(t, on)
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for _, s := range generating {
		// An hour between two writes: whatever arrives has been handed on at once.
		r := h.request(ctx, http.MethodPost, s.path, s.body(`events 5; delay 1h first=1ms; burst 2`, true), "Authorization", "Bearer "+h.key)
		response, err := h.client.Do(r)
		ok(t, err)
		buffer := make([]byte, 1)
		if _, err := response.Body.Read(buffer); err != nil {
			t.Errorf("%s: %v", s.name, err)
		}
		_ = response.Body.Close()
	}
}

func TestBytesAfterTheTerminalEventArriveAndDelayNothing(t *testing.T) {
	onEveryTransport(t, bytesAfterTheTerminalEventArriveAndDelayNothing)
}

func bytesAfterTheTerminalEventArriveAndDelayNothing(t *testing.T, on transportPlan) {
	tail := ": bye\n\ndata: {\"behind\":true}\n\nrest without an end"
	up := newUpstream(t, func(c *upstreamCall) {
		c.stream(chatStream + tail)
	})
	h := build(t, on, up.serves)
	a := h.post(chat.path, chat.body("", true))
	if a.cut != nil || a.body != chatStream+tail {
		t.Errorf("%v %q", a.cut, a.body)
	}
}

// A provider that keeps its stream open behind the terminal event does not keep the client waiting for the end for long.
func TestAStreamEndsSoonAfterItsTerminalEvent(t *testing.T) {
	up := newUpstream(t, func(c *upstreamCall) {
		c.stream(chatStream)
		<-c.gone
	})
	h := build(t, up.serves)
	done := make(chan struct{})
	go func() {
		defer close(done)
		if a := h.post(chat.path, chat.body("", true)); a.cut != nil || a.body != chatStream {
			t.Errorf("%v %q", a.cut, a.body)
		}
	}()
	closed(t, "the end of the answer", done)
}

// The end of an answer that has come with its last event leaves with that event, in one write.
func TestTheEndOfAStreamLeavesWithItsLastEvent(t *testing.T) {
	up := newUpstream(t, func(c *upstreamCall) {
		c.write(fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s", len(chatStream), chatStream))
	})
	h := build(t, up.serves)
	conn := h.dial()
	for range 5 {
		_, err := io.WriteString(conn, h.raw(chat, chat.body("", true)))
		ok(t, err)
		read, buffer := "", make([]byte, 16<<10)
		for !strings.Contains(read, "[DONE]") {
			n, err := conn.Read(buffer)
			ok(t, err)
			read = string(buffer[:n])
		}
		if !strings.HasSuffix(read, "[DONE]\n\n\r\n0\r\n\r\n") {
			t.Fatalf("with the last event comes %q", read)
		}
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) { onEveryTransport(t, connectionsAreUsedAgain) }

func connectionsAreUsedAgain(t *testing.T, on transportPlan) {
	h := build(t, on)
	conn := h.dial()
	for i := range 3 {
		for _, s := range generating {
			a := exchangeOn(t, conn, h.raw(s, s.body(`events 5`, i%2 == 0)))
			if a.status != 200 || a.cut != nil {
				t.Fatalf("%s: %d %v", s.name, a.status, a.cut)
			}
		}
	}
	_ = conn.SetDeadline(time.Time{})
}
