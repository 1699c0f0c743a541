package server_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// A request that cannot be served is answered when its head has arrived: its client sends nothing of the body.
func TestARequestIsRefusedAtItsHead(t *testing.T) { onEveryTransport(t, aRequestIsRefusedAtItsHead) }

func aRequestIsRefusedAtItsHead(t *testing.T, on transportPlan) {
	h := build(t, on, func(p *plan) { p.server.BodyBytes = 64 << 20 })
	for _, test := range []struct {
		name, method, path, fields string
		want                       int
	}{
		{"no key", "POST", chat.path, "", 401},
		{"no key on Messages", "POST", messages.path, "", 401},
		{"no key on Responses", "POST", responses.path, "", 401},
		{"no key on embeddings", "POST", embeddings.path, "", 401},
		{"no key for a count", "POST", "/v1/messages/count_tokens", "", 401},
		{"another key", "POST", chat.path, "Authorization: Bearer mneme-nonsense\r\n", 401},
		{"a path that is not served", "POST", "/nothing", "", 404},
		{"a method that is not served", "PUT", chat.path, "", 405},
		{"tools without a key", "POST", "/mcp", "", 401},
		{"a search without a key", "POST", "/v1/memory/search", "", 401},
		{"an import without a key", "POST", "/v1/memory/imports", "", 401},
		{"a call of the page without a session", "POST", "/ui/v1/memory/search", "", 0},
		{"a body that is not JSON", "POST", chat.path, "Content-Type: text/plain\r\nAuthorization: Bearer " + h.key + "\r\n", 415},
		{"an encoding that is not read", "POST", chat.path, "Content-Encoding: br\r\nAuthorization: Bearer " + h.key + "\r\n", 415},
	} {
		for framing, announced := range map[string]string{
			"length": "Content-Length: 62914560\r\n", "chunks": "Transfer-Encoding: chunked\r\n",
			"expected": "Content-Length: 62914560\r\nExpect: 100-continue\r\n",
		} {
			conn := h.dial()
			a := exchangeOn(t, conn, test.method+" "+test.path+" HTTP/1.1\r\nHost: localhost\r\n"+test.fields+announced+"\r\n")
			if a.status != test.want && (test.want != 0 || a.status < 400) {
				t.Errorf("%s, %s: %d %s", test.name, framing, a.status, a.body)
			}
			isClosed(t, conn)
		}
	}
}

// A client that sends its body all the same can read the answer.
func TestAClientThatSendsOnCanReadItsRefusal(t *testing.T) {
	onEveryTransport(t, aClientThatSendsOnCanReadItsRefusal)
}

func aClientThatSendsOnCanReadItsRefusal(t *testing.T, on transportPlan) {
	h := build(t, on)
	for range 3 {
		conn := h.dial()
		_, err := io.WriteString(conn, "POST /nothing HTTP/1.1\r\nHost: proxy\r\nContent-Length: 8388608\r\n\r\n")
		ok(t, err)
		_, err = io.WriteString(conn, strings.Repeat("x", 8<<20))
		ok(t, err)
		if a := exchangeOn(t, conn, ""); a.status != http.StatusNotFound {
			t.Errorf("%d %s", a.status, a.body)
		}
		isClosed(t, conn)
	}
	if held := h.proxy.Held(); held != 0 {
		t.Errorf("%d bytes are held", held)
	}
}

// Requests and answers share one budget. It is charged as bytes arrive, and everything is given back.
func TestBodiesThatArriveTakeFromTheBudgetAndGiveBack(t *testing.T) {
	onEveryTransport(t, bodiesThatArriveTakeFromTheBudgetAndGiveBack)
}

func bodiesThatArriveTakeFromTheBudgetAndGiveBack(t *testing.T, on transportPlan) {
	const arrived = 3 << 20
	h := build(t, on, func(p *plan) { p.server.InFlightBytes = 26 << 20 }) // of which half is set aside
	for name, begin := range map[string]string{
		"length": "Content-Length: 4194304\r\n\r\n" + strings.Repeat("x", arrived),
		"chunks": "Transfer-Encoding: chunked\r\n\r\n300000\r\n" + strings.Repeat("x", arrived),
		"memory": "",
	} {
		conn, path := h.dial(), chat.path
		if begin == "" {
			path, begin = "/v1/memory/imports", "Content-Length: 4194304\r\n\r\n"+strings.Repeat("x", arrived)
		}
		_, err := io.WriteString(conn, "POST "+path+" HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "+h.key+"\r\n"+begin)
		ok(t, err)
		held := int64(arrived)
		if name == "memory" { // the reader of lines has a copy, in a buffer twice as large
			held += 2 * 4 << 20
		}
		eventually(t, func() error {
			if used := h.proxy.InFlight(); used < held {
				return fmt.Errorf("%s: %d bytes are charged", name, used)
			}
			return nil
		})
		a := h.post(chat.path, chat.padded(10<<20))
		if a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
			t.Errorf("%s: beside it a body without room is answered with %d %s", name, a.status, a.body)
		}
		if a := h.post(chat.path, chat.body(`text "hi"`, false)); a.status != 200 {
			t.Errorf("%s: beside it a small request is answered with %d %s", name, a.status, a.body)
		}
		_ = conn.Close()
		eventually(t, func() error {
			if used := h.proxy.InFlight(); used != 0 {
				return fmt.Errorf("%s: %d bytes are charged afterwards", name, used)
			}
			return nil
		})
	}
}

// A stream that has begun does not hold its request.
func TestAStreamThatHasBegunHoldsNoRequest(t *testing.T) {
	h := build(t)
	ctx, leave := context.WithTimeout(context.Background(), timeout)
	defer leave()
	for _, s := range generating {
		body := with(s.body(`events 9; delay 1h first=1ms; burst 3`, true), `"padding":"`+strings.Repeat("x", 200<<10)+`"`)
		response, err := h.client.Do(h.request(ctx, http.MethodPost, s.path, body, "Authorization", "Bearer "+h.key))
		ok(t, err)
		readEvents(t, response.Body, 3)
		eventually(t, func() error {
			if used := h.proxy.InFlight(); used != 0 {
				return fmt.Errorf("%s: %d bytes are charged", s.name, used)
			}
			return nil
		})
		_ = response.Body.Close()
	}
}

// A body that no budget could hold is not asked for again and again.
func TestABodyThatNeverFitsIsTooLarge(t *testing.T) {
	h := build(t, func(p *plan) { p.server.InFlightBytes = 1 << 20 })
	if a := h.post(chat.path, chat.padded(2<<20)); a.status != http.StatusRequestEntityTooLarge || !strings.Contains(a.body, "limits.in_flight_bytes") {
		t.Errorf("%d %s", a.status, a.body)
	}
}
