package router

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
)

// A corked connection sends what is written to it in one piece.
type corked struct {
	net.Conn
	held bytes.Buffer
}

func (c *corked) Write(p []byte) (int, error) { return c.held.Write(p) }

func (c *corked) flush() {
	_, _ = c.Conn.Write(c.held.Bytes())
	c.held.Reset()
}

func (c *corked) Read(p []byte) (int, error) {
	c.flush() // the other end has said all it had to say
	return c.Conn.Read(p)
}

// surplusHost answers each request with the account that it names. The first answer of all has surplus behind it, in the same
// piece: the pieces are records of their own over TLS.
func surplusHost(t *testing.T, s *httptest.Server, frame func(body string) []string, surplus []string) string {
	var strayed atomic.Bool
	h := listen(t, func(_ *host, _ int, c *conn) {
		out := &corked{Conn: c.Conn}
		var stream net.Conn = out
		if s != nil {
			secure := tls.Server(out, &tls.Config{Certificates: s.TLS.Certificates})
			if secure.Handshake() != nil {
				return
			}
			stream = secure
		}
		for in := bufio.NewReader(stream); ; out.flush() {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, r.Body)
			pieces := frame(r.Header.Get("X-Client-Request-Id"))
			if strayed.CompareAndSwap(false, true) {
				pieces = slices.Concat(pieces, surplus)
			}
			for _, piece := range pieces {
				_, _ = io.WriteString(stream, piece)
			}
		}
	})
	if s != nil {
		return strings.Replace(h.url(), "http:", "https:", 1)
	}
	return h.url()
}

// leadingProxy is a proxy that leads wherever it is asked to.
func leadingProxy(t *testing.T) *url.URL {
	h := listen(t, func(_ *host, _ int, c *conn) {
		r := c.request()
		if r == nil {
			return
		}
		to, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", r.Host)
		if err != nil {
			return
		}
		defer func() { _ = to.Close() }()
		c.write("HTTP/1.1 200 Connection established\r\n\r\n")
		go func() {
			_, _ = io.Copy(c.Conn, to)
			_ = c.Close()
		}()
		_, _ = io.Copy(to, c.in)
	})
	return &url.URL{Scheme: "http", Host: h.Addr().String()}
}

// What stands behind an answer reaches no other account, whichever upstream serves and however it comes.
func TestWhatStandsBehindAnAnswerReachesNoOtherAccount(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	framings := map[string]func(body string) []string{
		"by length": func(body string) []string {
			return []string{fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)}
		},
		"body apart": func(body string) []string {
			return []string{fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n", len(body)), body}
		},
		"in chunks": func(body string) []string {
			return []string{streamHead, fmt.Sprintf("%x\r\n%s\r\n", len(body), body), "0\r\n\r\n"}
		},
	}
	const stray = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nstray"
	surpluses := map[string][]string{
		"an answer":              {stray},
		"answers":                {strings.Repeat(stray, 30)},
		"an answer in two":       {stray[:20], stray[20:]},
		"a line break":           {"\r\n"},
		"a line break and more":  {"\r\n", stray},
		"an interim answer":      {"HTTP/1.1 100 Continue\r\n\r\n"},
		"hints and an answer":    {"HTTP/1.1 103 Early Hints\r\n\r\n" + stray},
		"a byte":                 {"H"},
		"the end of another":     {"0\r\n\r\n"},
		"a head without a body":  {stray[:len(stray)-5]},
		"an answer that closes":  {"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\nContent-Length: 5\r\n\r\nstray"},
		"an answer without size": {"HTTP/1.1 200 OK\r\n\r\nstray"},
	}
	for kind, through := range map[string]func(p *Provider, secure bool){
		"direct": func(*Provider, bool) {},
		"net/http": func(p *Provider, secure bool) {
			p.endpoints[0].upstream = newTransport(defaultTimeouts, secure, false)
		},
		"net/http, by a proxy": func(p *Provider, secure bool) {
			over := newTransport(defaultTimeouts, secure, false)
			if secure {
				over.pool.Proxy = http.ProxyURL(leadingProxy(t))
			}
			p.endpoints[0].upstream = over
		},
	} {
		for framing, frame := range framings {
			for what, surplus := range surpluses {
				for _, secure := range []bool{false, true} {
					t.Run(fmt.Sprintf("%s, %s, %s, TLS %v", kind, framing, what, secure), func(t *testing.T) {
						server := s
						if !secure {
							server = nil
						}
						c := compatible(surplusHost(t, server, frame, surplus))
						host := c.Providers["host"]
						host.Dialect = "openai" // whose header is passed on
						c.Providers["host"] = host
						p := newRouter(t, c).Provider("host")
						through(p, secure)
						defer p.endpoints[0].upstream.close()
						if secure {
							trusting(p, s, "example.com")
						}
						for i := range 6 {
							call, own := chatCall(), fmt.Sprintf("account %d, call %d", i%2, i)
							call.Account = own[:9]
							call.Header = fields("X-Client-Request-Id: " + own)
							reply, err := p.Do(t.Context(), call)
							if err != nil {
								t.Fatal(err)
							}
							if text, err := readAll(reply); text != own || err != nil {
								t.Fatalf("%s got %q, %v", own, text, err)
							}
						}
					})
				}
			}
		}
	}
}

// A clean connection serves the next request, through a proxy too, and however many ask.
func TestCleanConnectionsAreUsedAgain(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) }))
	var opened atomic.Int32
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	s.StartTLS()
	defer s.Close()
	const clients = 4
	for name, through := range map[string]func(p *Provider){
		"direct":   func(*Provider) {},
		"net/http": func(p *Provider) { p.endpoints[0].upstream = newTransport(defaultTimeouts, true, false) },
		"net/http, by a proxy": func(p *Provider) {
			over := newTransport(defaultTimeouts, true, false)
			over.pool.Proxy = http.ProxyURL(leadingProxy(t))
			p.endpoints[0].upstream = over
		},
	} {
		opened.Store(0)
		p := newRouter(t, compatible(s.URL)).Provider("host")
		through(p)
		trusting(p, s, "example.com")
		var asking sync.WaitGroup
		for i := range clients {
			asking.Go(func() {
				for range 25 {
					call := chatCall()
					call.Body = fmt.Appendf(nil, "%d", i)
					reply, err := p.Do(context.Background(), call)
					if err != nil {
						t.Error(err)
						return
					}
					if text, err := readAll(reply); text != string(call.Body) || err != nil {
						t.Errorf("%q, %v", text, err)
					}
				}
			})
		}
		asking.Wait()
		p.endpoints[0].upstream.close()
		// net/http dials ahead of a connection that becomes free meanwhile.
		if n := opened.Load(); n > clients && name == "direct" || n > 4*clients {
			t.Errorf("%s: %d connections were opened", name, n)
		}
	}
}

// net/http gives a connection to the next request before it looks for what stands behind the answer on it.
func TestTheNextRequestDoesNotOvertakeTheLookBehindAnAnswer(t *testing.T) {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	frame := func(body string) []string {
		return []string{fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", len(body), body)}
	}
	c := compatible(surplusHost(t, s, frame, frame("stray")))
	host := c.Providers["host"]
	host.Dialect = "openai"
	c.Providers["host"] = host
	p := newRouter(t, c).Provider("host")
	p.endpoints[0].upstream = newTransport(defaultTimeouts, true, false)
	defer p.endpoints[0].upstream.close()
	trusting(p, s, "example.com")

	given, sent := make(chan struct{}), make(chan struct{})
	var once sync.Once
	asks := func(own string, trace *httptrace.ClientTrace) {
		call := chatCall()
		call.Header = fields("X-Client-Request-Id: " + own)
		reply, err := p.Do(httptrace.WithClientTrace(t.Context(), trace), call)
		if err != nil {
			t.Error(err)
			return
		}
		if text, err := readAll(reply); text != own || err != nil {
			t.Errorf("%s got %q, %v", own, text, err)
		}
	}
	var first sync.WaitGroup
	first.Go(func() {
		asks("first", &httptrace.ClientTrace{PutIdleConn: func(error) { // by net/http, before it looks
			close(given)
			<-sent
		}})
	})
	<-given
	asks("second", &httptrace.ClientTrace{WroteRequest: func(httptrace.WroteRequestInfo) { once.Do(func() { close(sent) }) }})
	first.Wait()
}
