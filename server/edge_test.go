package server_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/server"
)

// HTTP/1.0 knows no chunks (RFC 9112, section 6.1): the answer ends with its connection.
func TestAClientOfHTTP10GetsNoChunks(t *testing.T) { onEveryTransport(t, aClientOfHTTP10GetsNoChunks) }

func aClientOfHTTP10GetsNoChunks(t *testing.T, on transportPlan) {
	h := build(t, on)
	for _, s := range generating {
		body := s.body(`events 20`, true)
		conn := h.dial()
		_, err := io.WriteString(conn, strings.Replace(h.raw(s, body), "HTTP/1.1", "HTTP/1.0", 1))
		ok(t, err)
		everything, err := io.ReadAll(conn)
		ok(t, err)
		head, got, _ := strings.Cut(string(everything), "\r\n\r\n")
		if strings.Contains(strings.ToLower(head), "transfer-encoding") || strings.Contains(strings.ToLower(head), "content-length") {
			t.Errorf("%s: the head is\n%s", s.name, head)
		}
		if want := h.direct(s, body).body; got != want {
			t.Errorf("%s: got\n%q\nwant\n%q", s.name, got, want)
		}
		whole := exchangeOn(t, h.dial(), strings.Replace(h.raw(s, s.body(`text "hi"`, false)), "HTTP/1.1", "HTTP/1.0", 1))
		if whole.status != 200 || whole.header.Get("Transfer-Encoding") != "" || whole.body != h.direct(s, s.body(`text "hi"`, false)).body {
			t.Errorf("%s: a whole answer: %d %v", s.name, whole.status, whole.header)
		}
	}
}

func TestAClientMayExpectContinueBeforeItsBody(t *testing.T) {
	onEveryTransport(t, aClientMayExpectContinueBeforeItsBody)
}

func aClientMayExpectContinueBeforeItsBody(t *testing.T, on transportPlan) {
	h := build(t, on)
	conn := h.dial()
	body := messages.body(`text "hi"`, false)
	head, _, _ := strings.Cut(h.raw(messages, body, "Expect: 100-continue"), "\r\n\r\n")
	_, err := io.WriteString(conn, head+"\r\n\r\n")
	ok(t, err)
	in := bufio.NewReader(conn)
	response, err := http.ReadResponse(in, nil)
	ok(t, err)
	if response.StatusCode != http.StatusContinue {
		t.Fatalf("status %d", response.StatusCode)
	}
	_ = response.Body.Close()
	_, err = io.WriteString(conn, body)
	ok(t, err)
	response, err = http.ReadResponse(in, nil)
	ok(t, err)
	if a := read(response); a.status != 200 || string(h.upstream().Body) != body {
		t.Errorf("%d %s", a.status, a.body)
	}
}

func TestPathsAndMethodsThatAreNotServed(t *testing.T) {
	h := build(t)
	for _, test := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{http.MethodGet, "/v1/chat/completions", 405, "POST"},
		{http.MethodPut, "/v1/messages", 405, "POST"},
		{http.MethodDelete, "/v1/responses", 405, "GET, HEAD, POST"},
		{http.MethodPost, "/v1/models", 405, "GET, HEAD"},
		{http.MethodPost, "/v1/messages/", 404, ""},
		{http.MethodPost, "/v2/messages", 404, ""},
		{http.MethodGet, "/v1/../etc/passwd", 404, ""},
		{http.MethodGet, "/%00", 404, ""},
		{http.MethodGet, "/" + strings.Repeat("x", 3000), 404, ""},
	} {
		a := exchangeOn(t, h.dial(), fmt.Sprintf("%s %s HTTP/1.1\r\nHost: proxy\r\nContent-Length: 0\r\n\r\n", test.method, test.path))
		if a.status != test.status || a.header.Get("Allow") != test.allow || errorMessage(a.body) == "" || len(a.body) > 1000 {
			t.Errorf("%s %.40s: %d, Allow %q, %s", test.method, test.path, a.status, a.header.Get("Allow"), a.body)
		}
	}
	// An encoded path is the same path (RFC 3986, section 6.2.2.2).
	if a := h.post("/v1/%63hat/completions", chat.body(`text "hi"`, false)); a.status != 200 {
		t.Errorf("an encoded path: %d %s", a.status, a.body)
	}
}

func TestProbesOfClientsAndOrchestrators(t *testing.T) {
	h := build(t, func(p *plan) { p.server.Version = "1.2.3" })
	for _, test := range []struct {
		method, path string
		status       int
		body         string
	}{
		{http.MethodGet, "/", 200, "mneme 1.2.3\n"},
		{http.MethodHead, "/", 200, ""},
		{http.MethodGet, "/healthz", 200, "ok\n"},
		{http.MethodHead, "/healthz", 200, ""},
		{http.MethodGet, "/readyz", 200, "ready\n"},
		{http.MethodHead, "/readyz", 200, ""},
	} {
		conn := h.dial()
		for range 2 { // a HEAD answer with a body would be taken for the next answer
			a := exchangeOn(t, conn, fmt.Sprintf("%s %s HTTP/1.1\r\nHost: proxy\r\n\r\n", test.method, test.path))
			if a.status != test.status || a.body != test.body || a.cut != nil {
				t.Errorf("%s %s: %d %q %v", test.method, test.path, a.status, a.body, a.cut)
			}
		}
	}
}

func TestAPanicEndsItsRequestOnly(t *testing.T) { onEveryTransport(t, aPanicEndsItsRequestOnly) }

func aPanicEndsItsRequestOnly(t *testing.T, on transportPlan) {
	h := build(t, on, func(p *plan) {
		p.prepare = func(s *server.Server) {
			s.MountPanic("/panic/before", false)
			s.MountPanic("/panic/inside", true)
		}
	})
	before := h.do(http.MethodGet, "/panic/before", "")
	if before.status != http.StatusInternalServerError || strings.Contains(before.body, "on purpose") || errorMessage(before.body) == "" {
		t.Errorf("before the first byte: %d %s", before.status, before.body)
	}
	inside := h.do(http.MethodGet, "/panic/inside", "")
	if inside.status != 200 || inside.cut == nil {
		t.Errorf("inside a stream: %d %q %v", inside.status, inside.body, inside.cut)
	}
	if a := h.post(chat.path, chat.body(`text "hi"`, true)); a.status != 200 || a.cut != nil {
		t.Errorf("the next request: %d", a.status)
	}
	if got := strings.Count(h.log.String(), "on purpose"); got != 2 {
		t.Errorf("the log tells of %d panics:\n%s", got, h.log)
	}
}
