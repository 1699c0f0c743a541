package server_test

import (
	"bytes"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/record"
)

// ending is how a client sees the end of an answer.
type ending string

const (
	whole   ending = "whole"   // it has everything
	refused ending = "refused" // a status of 502 and an error in the surface's shape
	late    ending = "late"    // likewise 504
	broken  ending = "broken"  // a stream that has begun ends with the surface's error event, and without a clean end
)

// A fault is something that goes wrong at a provider.
type fault struct {
	name   string
	serve  func(c *upstreamCall, meant *http.Response) // meant is what a provider in its senses would answer
	change func(*router.Config)                        // nil: nothing

	answer, stream ending // of a complete answer and of a stream
	says           string // that the error says; "" for what is not an error, or has several reasons
}

var faults = []fault{
	{name: "refuses", change: leadsTo(nobody), answer: refused, stream: refused, says: "refuses connections"},
	{name: "has no address", change: leadsTo("http://no-such-host.invalid"), answer: refused, stream: refused, says: "DNS"},
	{name: "resets", serve: func(c *upstreamCall, _ *http.Response) { c.reset() }, answer: refused, stream: refused, says: "closed the connection"},
	{
		name: "hangs before its header", serve: func(c *upstreamCall, _ *http.Response) { <-c.gone },
		change: func(c *router.Config) { c.Timeouts.FirstByte = shortly }, answer: late, stream: late, says: "timeouts.first_byte",
	},
	{name: "hangs behind its header", serve: func(c *upstreamCall, meant *http.Response) {
		c.head(meant)
		<-c.gone
	}, change: func(c *router.Config) { c.Timeouts.FirstByte = shortly }, answer: late, stream: late, says: "timeouts.first_byte"},
	{name: "hangs in the middle", serve: func(c *upstreamCall, meant *http.Response) {
		c.head(meant)
		c.chunk(half(meant))
		<-c.gone
	}, change: func(c *router.Config) { c.Timeouts.Idle = shortly }, answer: late, stream: broken, says: "timeouts.idle"},
	{
		name: "is no HTTP server", serve: func(c *upstreamCall, _ *http.Response) { c.write("220 smtp.example ESMTP ready\r\n\r\n") },
		answer: refused, stream: refused, says: "not HTTP",
	},
	{name: "sends garbage", serve: func(c *upstreamCall, meant *http.Response) {
		c.head(meant)
		c.chunk("\x00\xff{]garbage\xfe")
		c.chunk("")
	}, answer: refused, stream: refused},
	{name: "sends nothing", serve: func(c *upstreamCall, meant *http.Response) {
		c.head(meant)
		c.chunk("")
	}, answer: refused, stream: refused},
	{name: "ends in the middle", serve: func(c *upstreamCall, meant *http.Response) {
		c.head(meant)
		c.chunk(half(meant))
		c.chunk("")
	}, answer: refused, stream: broken},
	{name: "is cut in the middle", serve: func(c *upstreamCall, meant *http.Response) {
		c.head(meant)
		c.chunk(half(meant))
	}, answer: refused, stream: broken, says: "cannot be read to its end"},
	{name: "is reset in the middle", serve: func(c *upstreamCall, meant *http.Response) {
		c.head(meant)
		c.chunk(half(meant))
		c.reset()
	}, answer: refused, stream: broken},
	{name: "sends an endless line", serve: func(c *upstreamCall, meant *http.Response) {
		c.head(meant)
		line := strings.Repeat("x", 1<<20)
		c.chunk(`data: "` + line)
		for c.chunk(line) {
		}
	}, answer: refused, stream: refused}, // too long, and no JSON

	{name: "sends a page", serve: func(c *upstreamCall, _ *http.Response) {
		c.write("HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Type: text/html\r\nContent-Length: 15\r\n\r\n<html>hi</html>")
	}, answer: refused, stream: refused, says: "JSON"},
	{name: "leads elsewhere", serve: func(c *upstreamCall, _ *http.Response) {
		c.write("HTTP/1.1 307 Temporary Redirect\r\nLocation: http://" + c.LocalAddr().String() + "/elsewhere\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	}, answer: refused, stream: refused, says: "redirect"},
	{name: "says hints first", serve: func(c *upstreamCall, meant *http.Response) {
		c.write("HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n")
		c.head(meant)
		c.chunk(all(meant))
		c.chunk("")
	}, answer: whole, stream: whole},
	{name: "has huge headers", serve: func(c *upstreamCall, _ *http.Response) {
		c.write("HTTP/1.1 200 OK\r\nX-Padding: " + strings.Repeat("x", 1<<20) + "\r\n\r\n")
	}, answer: refused, stream: refused, says: "header of more than"},
	{name: "drips", serve: func(c *upstreamCall, meant *http.Response) {
		c.head(meant)
		for _, b := range []byte(all(meant)) {
			c.chunk(string(b))
		}
		c.chunk("")
	}, answer: whole, stream: whole},
}

// shortly is how long a provider may hang in these tests.
const shortly = 50 * time.Millisecond

func leadsTo(base string) func(*router.Config) {
	return func(c *router.Config) { maps.Copy(c.Providers, leading(base)) }
}

// head is that of what was meant, with a body in chunks. It says that the connection ends behind it, as it does: a request
// that met the end would be at fault, and not what this provider does.
func (c *upstreamCall) head(meant *http.Response) {
	c.write("HTTP/1.1 200 OK\r\nContent-Type: " + meant.Header.Get("Content-Type") + "\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n")
}

// reset ends the connection at once, with what has been sent so far.
func (c *upstreamCall) reset() {
	_ = c.Conn.(*net.TCPConn).SetLinger(0)
	_ = c.Close()
}

func all(meant *http.Response) string {
	body, _ := io.ReadAll(meant.Body)
	return string(body)
}

// half ends inside a frame, behind at least one whole event with text.
func half(meant *http.Response) string {
	body := all(meant)
	return body[:len(body)*3/4]
}

func TestEveryFaultOfAProviderReachesTheClientAndTheRecord(t *testing.T) {
	if testing.Short() {
		t.Skip("many cases, one after the other")
	}
	var h *harness
	var planned router.Config
	var misbehave atomic.Pointer[fault]
	var open, asked atomic.Int32
	var words atomic.Pointer[string] // of the request under way: one that was given up may be read only later
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	up := newUpstream(t, func(c *upstreamCall) {
		if bytes.Contains(c.body, []byte(*words.Load())) {
			asked.Add(1)
		}
		open.Add(1)
		defer open.Add(-1)
		meant, err := plain.Post(h.provider.URL()+c.request.URL.RequestURI(), "application/json", bytes.NewReader(c.body))
		if err != nil {
			return
		}
		defer meant.Body.Close()
		misbehave.Load().serve(c, meant)
	})
	h = build(t, up.serves, func(p *plan) {
		p.server.AnswerBytes = 4 << 20
		p.router.Breaker.Failures = -1
		p.router.Clock = &handClock{now: time.Now()} // nobody waits before a retry
		planned = p.router
	})
	requests := 0
	for _, f := range append(faults, untrusted(t)) {
		c := planned
		c.Providers = maps.Clone(planned.Providers)
		if f.change != nil {
			f.change(&c)
		}
		reroute := func() {
			routes, err := router.New(c)
			ok(t, err)
			t.Cleanup(routes.Close)
			h.proxy.Reroute(routes)
		}
		reroute()
		misbehave.Store(&f)
		for _, s := range generating {
			for _, model := range []string{s.model, standIn[s.name]} { // in the same format, and translated
				for _, stream := range []bool{false, true} {
					what := fmt.Sprintf("%s to %s, stream=%t: a provider that %s", s.name, model, stream, f.name)
					expected := f.answer
					if stream {
						expected = f.stream
					}
					requests++
					hello := fmt.Sprintf("Hello for the %dth time.", requests)
					body := strings.Replace(s.body("events 9", stream), s.model, model, 1)
					body = strings.Replace(body, "Hello.", hello, 1)
					words.Store(&hello)
					asked.Store(0)
					a := h.post(s.path, body)
					// What comes before a silence has to be read within the limit on it. Where the machine has no time for that, a
					// longer one is tried.
					for ; expected == broken && a.status == http.StatusGatewayTimeout && 0 < c.Timeouts.Idle && c.Timeouts.Idle < timeout; a = h.post(s.path, body) {
						c.Timeouts.Idle *= 2
						reroute()
						asked.Store(0)
					}
					h.ends(t, what, s, expected, f.says, a)
					if n := asked.Load(); n > 1 { // clients repeat requests themselves, and redirects are not followed
						t.Errorf("%s: it was asked %d times", what, n)
					}
					eventually(t, func() error {
						if n := open.Load(); n > 0 {
							return fmt.Errorf("%s: its connection stays open", what)
						}
						return nil
					})
				}
			}
		}
	}
}

// ends checks how an answer ended for the client, and that the record tells the same.
func (h *harness) ends(t *testing.T, what string, s surface, expected ending, says string, a *answer) {
	t.Helper()
	outcome, status := record.OutcomeUpstreamError, http.StatusOK
	switch expected {
	case whole:
		outcome = record.OutcomeComplete
		if a.cut != nil || strings.Contains(a.body, `"error":{`) {
			t.Errorf("%s: %v %s", what, a.cut, a.body)
		}
	case broken:
		endsWithError(t, s, what, a)
		if !strings.Contains(lastEvent(a.body), says) {
			t.Errorf("%s: ends with %s", what, lastEvent(a.body))
		}
	case refused, late:
		status = map[ending]int{refused: http.StatusBadGateway, late: http.StatusGatewayTimeout}[expected]
		if _, message := errorOf(t, s, a); message == "" || !strings.Contains(message, says) || a.cut != nil {
			t.Errorf("%s: %v %s", what, a.cut, a.body)
		}
	}
	if a.status != status {
		t.Errorf("%s: answered with %d, want %d: %s", what, a.status, status, a.body)
	}
	h.noSecrets(what, a.body)
	x := h.record(a.exchange())
	if x.Outcome != outcome || x.Status != a.status || string(x.RawResponse) != a.body || (x.Error == nil) != (expected == whole) {
		t.Errorf("%s: on record as %v with status %d, %d bytes of %d and %v", what, x.Outcome, x.Status, len(x.RawResponse), len(a.body), x.Error)
	}
}

// untrusted is a provider whose certificate nobody has signed.
func untrusted(t *testing.T) fault {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // of handshakes that fail as they should
	s.StartTLS()
	t.Cleanup(s.Close)
	return fault{name: "cannot be trusted", change: leadsTo(s.URL), answer: refused, stream: refused, says: "certificate"}
}
