package router

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/mnemeproxy/mneme/codec"
)

func TestACallSendsTheBytesAndReadsTheAnswer(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		body := bytes.Repeat([]byte("0123456789abcdef"), 20_000) // larger than every buffer on the way
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			got, err := io.ReadAll(r.Body)
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d bytes arrived, err %v", len(got), err)
			}
			if r.Method != http.MethodPost || r.URL.String() != "/v1/chat/completions" || r.Header.Get("Authorization") != "Bearer key-1" || r.ContentLength != int64(len(body)) {
				t.Errorf("%s %s %v, length %d", r.Method, r.URL, r.Header, r.ContentLength)
			}
			w.Header().Set("X-Request-Id", "r1")
			w.WriteHeader(http.StatusTooManyRequests)
			_, _ = io.WriteString(w, `{"error":{}}`)
		}))
		defer s.Close()
		p := to(compatible(s.URL + "/v1"))

		reply, err := p.Do(t.Context(), &Call{Format: codec.Chat, Body: body})
		if err != nil {
			t.Fatal(err)
		}
		if text, err := readAll(reply); text != `{"error":{}}` || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		if reply.Status != http.StatusTooManyRequests || reply.Header.Get("X-Request-Id") != "r1" {
			t.Errorf("%d %v", reply.Status, reply.Header)
		}
	})
}

func TestTheCallersCredentialGoesBeforeTheServersOwn(t *testing.T) {
	got := make(chan http.Header, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got <- r.Header }))
	defer s.Close()
	p := newRouter(t, compatible(s.URL)).Provider("host")
	c := chatCall()
	c.Credential = Credential{Header: "X-Api-Key", Value: "mine"}
	reply, err := p.Do(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	_ = reply.Body.Close()
	if h := <-got; h.Get("X-Api-Key") != "mine" || h.Get("Authorization") != "" {
		t.Error(h)
	}
}

func TestWithoutACredentialNothingIsSent(t *testing.T) {
	p := newRouter(t, Config{}).Provider("openai")
	_, err := p.Do(t.Context(), chatCall())
	if err == nil || err.Kind != codec.KindAuthentication || !strings.Contains(err.Message, "mneme account credential set ACCOUNT openai") {
		t.Error(err)
	}
	c := chatCall()
	c.Credential = Credential{Header: "Authorization", Value: "Bearer secret\r\nX-Evil: 1"}
	if _, err = p.Do(t.Context(), c); err == nil || err.Kind != codec.KindAuthentication || strings.Contains(err.Message, "secret") {
		t.Error(err)
	}
}

func TestConnectionsAreUsedAgain(t *testing.T) {
	h := listen(t, func(_ *host, _ int, c *conn) {
		for c.request() != nil {
			c.write(streamHead)
			c.chunk("data: x\n\n")
			c.chunk("")
		}
	})
	p := newRouter(t, compatible(h.url())).Provider("host")
	var locals []string
	p.endpoints[0].upstream.(*direct).client.Dial = countDials(&locals)
	for range 5 {
		reply, err := p.Do(t.Context(), chatCall())
		if err != nil {
			t.Fatal(err)
		}
		if text, err := readAll(reply); text != "data: x\n\n" || err != nil {
			t.Fatalf("%q, %v", text, err)
		}
	}
	if len(locals) != 1 {
		t.Errorf("%d connections were made", len(locals))
	}
}

func countDials(locals *[]string) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if err == nil {
			*locals = append(*locals, c.LocalAddr().String())
		}
		return c, err
	}
}

// deadConn is a pooled connection that the other end has closed, which shows only when it is written to.
type deadConn struct {
	net.Conn
	dead func() bool
}

func (c deadConn) Write(p []byte) (int, error) {
	if c.dead() {
		_ = c.Close()
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

func TestAConnectionThatDiedInThePoolIsReplacedUnseen(t *testing.T) {
	h := listen(t, func(_ *host, _ int, c *conn) {
		for c.request() != nil {
			c.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
		}
	})
	p := newRouter(t, compatible(h.url())).Provider("host")
	dials, dead := 0, false
	p.endpoints[0].upstream.(*direct).client.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		dials++
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		if dials > 1 {
			return c, err
		}
		return deadConn{Conn: c, dead: func() bool { return dead }}, err
	}
	mustAnswer(t, p)
	dead = true
	mustAnswer(t, p)
	if dials != 2 {
		t.Errorf("%d connections were made", dials)
	}
}

// closing serves the first request of its first connection, reads another one there and closes without an answer; later
// connections are served well. It counts the requests.
func closing(t *testing.T) (h *host, requests *atomic.Int32) {
	requests = new(atomic.Int32)
	h = listen(t, func(_ *host, n int, c *conn) {
		for i := 0; c.request() != nil; i++ {
			requests.Add(1)
			if n == 0 && i == 1 {
				return
			}
			c.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
		}
	})
	return h, requests
}

func mustAnswer(t *testing.T, p *Provider) {
	t.Helper()
	reply, err := p.Do(t.Context(), chatCall())
	if err != nil {
		t.Fatal(err)
	}
	if text, err := readAll(reply); text != "hi" || err != nil {
		t.Fatalf("%q, %v", text, err)
	}
}

func TestARequestThatMayBeAtWorkIsNotSentAgain(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		h, requests := closing(t)
		p := to(compatible(h.url()))
		mustAnswer(t, p)
		_, err := p.Do(t.Context(), chatCall())
		mustFail(t, err, codec.KindUpstream, "closed the connection before it answered", h.Addr().String())
		if n := requests.Load(); n != 2 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

// A client that has named its request says that it may be read twice. Each time is an attempt of its own.
func TestARequestWithAnIdempotencyKeyIsSentTwiceAtMost(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		var requests atomic.Int32
		const warm = 6
		all := make(chan struct{})
		h := listen(t, func(_ *host, _ int, c *conn) {
			for c.request() != nil {
				switch n := requests.Add(1); {
				case n > warm:
					return // a prompt that no worker survives
				case n == warm:
					close(all)
				}
				<-all
				c.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
			}
		})
		p := to(compatible(h.url()))
		var warming sync.WaitGroup
		for range warm {
			warming.Go(func() { mustAnswer(t, p) })
		}
		warming.Wait()
		var attempts []Attempt
		call := chatCall()
		call.Header = fields("Idempotency-Key: one")
		call.Observe = func(a Attempt) { attempts = append(attempts, a) }
		_, err := p.Do(t.Context(), call)
		mustFail(t, err, codec.KindUpstream, "closed the connection before it answered")
		if n := requests.Load() - warm; n != 2 {
			t.Errorf("%d requests were sent", n)
		}
		if len(attempts) != 2 || attempts[0].Failure != FailureCut || !attempts[0].Retried || attempts[1].Resends != 1 || attempts[1].Retried {
			t.Errorf("told of %+v", attempts)
		}
		if left := p.budget.tenths.Load(); left != fullBudget-oneRetry {
			t.Errorf("%d tenths of a retry are left", left)
		}
	})
}

func TestARequestIsNotSentAgainAfterANewConnectionFailed(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		var requests atomic.Int32
		h := listen(t, func(_ *host, _ int, c *conn) {
			c.request()
			requests.Add(1)
		})
		_, err := to(compatible(h.url())).Do(t.Context(), chatCall())
		mustFail(t, err, codec.KindUpstream, "closed the connection before it answered")
		if n := requests.Load(); n != 1 {
			t.Errorf("%d requests were sent", n)
		}
	})
}

func TestFailuresBeforeTheAnswerSayWhatToDo(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		answers := func(text string) string {
			return listen(t, func(h *host, _ int, c *conn) {
				c.request()
				c.write(text)
			}).url()
		}
		for name, x := range map[string]struct {
			base  string
			kind  codec.Kind
			parts []string
		}{
			"refused":         {refused, codec.KindUpstream, []string{"refuses connections", "127.0.0.1:1", "providers.host.base_url"}},
			"closed":          {answers(""), codec.KindUpstream, []string{"closed the connection before it answered"}},
			"not HTTP":        {answers("SSH-2.0-OpenSSH_9.9\r\n"), codec.KindUpstream, []string{"not HTTP", "base_url"}},
			"huge header":     {answers("HTTP/1.1 200 OK\r\nX-A: " + strings.Repeat("a", 300<<10) + "\r\n\r\n"), codec.KindUpstream, []string{"header of more than 256 KiB"}},
			"redirect":        {answers("HTTP/1.1 307 Temporary Redirect\r\nLocation: https://other.example/v1/chat?token=secret\r\nContent-Length: 0\r\n\r\n"), codec.KindUpstream, []string{"redirect (HTTP 307) to https://other.example,", "base_url"}},
			"bare redirect":   {answers("HTTP/1.1 304 Not Modified\r\n\r\n"), codec.KindUpstream, []string{"redirect (HTTP 304),"}},
			"switching":       {answers("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n"), codec.KindUpstream, []string{"HTTP 101"}},
			"unread encoding": {answers("HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 1\r\n\r\nx"), codec.KindUpstream, []string{`content encoding "br"`}},
			"TLS to plain": {
				strings.Replace(answers("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"), "http:", "https:", 1), codec.KindUpstream,
				[]string{"says https, but the host does not speak TLS"},
			},
		} {
			t.Run(name, func(t *testing.T) {
				p := to(compatible(x.base))
				_, err := p.Do(t.Context(), chatCall())
				mustFail(t, err, x.kind, append(x.parts, "host ")...)
			})
		}
	})
}

func TestFailuresToConnectSayWhatToDo(t *testing.T) {
	for name, x := range map[string]struct {
		err   error
		kind  codec.Kind
		parts []string
	}{
		"no such name":   {&net.DNSError{Err: "no such host", Name: "api.example", IsNotFound: true}, codec.KindUpstream, []string{"there is no host of that name", "providers.host.base_url"}},
		"no DNS":         {&net.DNSError{Err: "server misbehaving", Name: "api.example", IsTemporary: true}, codec.KindUpstream, []string{"could not be resolved just now"}},
		"no route":       {&net.OpError{Op: "dial", Net: "tcp", Err: syscall.EHOSTUNREACH}, codec.KindUpstream, []string{"cannot be reached over the network"}},
		"dial timeout":   {&net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}, codec.KindTimeout, []string{"did not take the connection in time", "firewalls"}},
		"expired":        {&tls.CertificateVerificationError{Err: x509.CertificateInvalidError{Reason: x509.Expired}}, codec.KindUpstream, []string{"has expired", "clock"}},
		"TLS alert":      {tls.AlertError(40), codec.KindUpstream, []string{"the TLS handshake failed"}},
		"something else": {errors.New("key-1 was lost"), codec.KindUpstream, []string{"failed before it answered"}},
	} {
		t.Run(name, func(t *testing.T) {
			p := newRouter(t, compatible("https://api.example/v1")).Provider("host")
			p.endpoints[0].upstream.(*direct).client.Dial = func(context.Context, string, string) (net.Conn, error) { return nil, x.err }
			_, err := p.Do(t.Context(), chatCall())
			mustFail(t, err, x.kind, append(x.parts, "host (api.example:443)")...)
		})
	}
}

func TestAProxyThatFailsIsNamed(t *testing.T) {
	refusing := listen(t, func(_ *host, _ int, c *conn) {
		c.request()
		c.write("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
	})
	for proxy, want := range map[string]string{"127.0.0.1:1": "cannot be used", refusing.Addr().String(): "with HTTP 407"} {
		p := newRouter(t, compatible("https://api.example/v1")).Provider("host")
		over := newTransport(defaultTimeouts, true, false)
		p.endpoints[0].upstream = over
		over.pool.Proxy = http.ProxyURL(&url.URL{Scheme: "http", Host: proxy, User: url.UserPassword("me", "secret")})
		_, err := p.Do(t.Context(), chatCall())
		mustFail(t, err, codec.KindUpstream, want, "The proxy "+proxy, "HTTPS_PROXY")
		if strings.Contains(err.Error(), "secret") {
			t.Error(err)
		}
	}
}

func TestACertificateThatCannotBeTrustedIsExplained(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	s.Config.ErrorLog = discardLog
	s.StartTLS()
	defer s.Close()
	p := newRouter(t, compatible(s.URL)).Provider("host")
	_, err := p.Do(t.Context(), chatCall())
	mustFail(t, err, codec.KindUpstream, "authority this machine does not know", "SSL_CERT_FILE")

	trusting(p, s, "other.example")
	_, err = p.Do(t.Context(), chatCall())
	mustFail(t, err, codec.KindUpstream, "certificate is for another host name")
}

// trusting makes a provider trust a test server's certificate for the given server name; "" for its real one.
func trusting(p *Provider, s *httptest.Server, name string) {
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	switch u := p.endpoints[0].upstream.(type) {
	case *direct:
		u.client.TLS.RootCAs = roots
		if name != "" {
			u.client.TLS.ServerName = name
		}
	case *transport:
		u.pool.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: name, MinVersion: tls.VersionTLS12}
	}
}

func TestATLSHandshakeThatHangsEnds(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		h := listen(t, func(h *host, _ int, c *conn) { c.awaitGone(h) })
		c := compatible(strings.Replace(h.url(), "http:", "https:", 1))
		c.Timeouts.TLS = 20 * time.Millisecond
		_, err := to(c).Do(t.Context(), chatCall())
		mustFail(t, err, codec.KindTimeout, "TLS handshake in time")
		h.awaitClosed(t)
	})
}

func TestHTTP2IsSpokenWhenAskedFor(t *testing.T) {
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
		_, _ = io.WriteString(w, r.Proto)
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	for _, x := range []struct {
		on   bool
		want string
	}{{true, "body HTTP/2.0"}, {false, "body HTTP/1.1"}} {
		c := compatible(s.URL)
		c.HTTP2 = x.on
		r := newRouter(t, c)
		trusting(r.Provider("host"), s, "")
		reply, err := r.Provider("host").Do(t.Context(), &Call{Format: codec.Chat, Body: []byte("body ")})
		if err != nil {
			t.Fatal(err)
		}
		if text, err := readAll(reply); text != x.want || err != nil {
			t.Errorf("%q, %v", text, err)
		}
		r.Close()
	}
}

func TestEarlyHintsAreNotTheAnswer(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		h := listen(t, func(_ *host, _ int, c *conn) {
			c.request()
			c.write("HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
		})
		reply, err := to(compatible(h.url())).Do(t.Context(), chatCall())
		if err != nil {
			t.Fatal(err)
		}
		if text, err := readAll(reply); text != "hi" || err != nil || reply.Status != 200 {
			t.Errorf("%d %q %v", reply.Status, text, err)
		}
	})
}

func TestASilentProviderRunsIntoTheFirstByteLimit(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		for name, head := range map[string]string{"before the header": "", "before the body": streamHead} {
			t.Run(name, func(t *testing.T) {
				h := listen(t, func(h *host, _ int, c *conn) {
					c.request()
					c.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi")
					c.request()
					c.write(head)
					c.awaitGone(h)
				})
				p := to(compatible(h.url()))
				mustAnswer(t, p) // so that there is a connection, however soon the limit is reached
				p.firstByte = 50 * time.Millisecond
				reply, err := p.Do(t.Context(), chatCall())
				if err == nil {
					_, failure := readAll(reply)
					errors.As(failure, &err)
				}
				mustFail(t, err, codec.KindTimeout, "sent nothing within 50ms", "timeouts.first_byte")
				p.endpoints[0].upstream.close() // where it was reached before anything was sent, the connection is idle
				h.awaitClosed(t)
			})
		}
	})
}

func TestAProviderThatFallsSilentRunsIntoTheIdleLimit(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		h := listen(t, func(h *host, _ int, c *conn) {
			c.request()
			c.write(streamHead)
			c.chunk("data: 1\n\n")
			c.awaitGone(h)
		})
		cfg := compatible(h.url())
		cfg.Timeouts.Idle = 30 * time.Millisecond
		reply, fault := to(cfg).Do(t.Context(), chatCall())
		if fault != nil {
			t.Fatal(fault)
		}
		text, failure := readAll(reply)
		var err *codec.Error
		errors.As(failure, &err)
		mustFail(t, err, codec.KindTimeout, "fell silent in the middle of its answer for 30ms", "timeouts.idle")
		if text != "data: 1\n\n" {
			t.Errorf("%q was read", text)
		}
		h.awaitClosed(t)
	})
}

func TestSignsOfLifeDoNotHideAStall(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		h := listen(t, func(h *host, _ int, c *conn) {
			gone := make(chan struct{})
			c.request()
			c.write(streamHead)
			c.chunk("data: 1\n\n")
			go func() {
				defer close(gone)
				c.awaitGone(h)
			}()
			for {
				select {
				case <-gone:
					return
				case <-time.After(5 * time.Millisecond):
					c.chunk(": keep-alive\n\n")
				}
			}
		})
		cfg := compatible(h.url())
		cfg.Timeouts.Idle = 60 * time.Millisecond
		reply, fault := to(cfg).Do(t.Context(), chatCall())
		if fault != nil {
			t.Fatal(fault)
		}
		defer func() { _ = reply.Body.Close() }()
		buf := make([]byte, 4096)
		for {
			n, failure := reply.Body.Read(buf)
			if failure != nil {
				var err *codec.Error
				errors.As(failure, &err)
				mustFail(t, err, codec.KindTimeout, "fell silent")
				break
			}
			if !bytes.HasPrefix(buf[:n], []byte("data")) {
				reply.Body.KeptAlive()
			}
		}
		h.awaitClosed(t)
	})
}

func TestAnAnswerThatBreaksOffIsAnErrorAndNoEnd(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		for name, x := range map[string]struct {
			answer string
			reset  bool
			want   string
		}{
			"inside a chunk":          {streamHead + "0020\r\ndata: 1\n\n", false, "closed before the end"},
			"between chunks":          {streamHead + "0009\r\ndata: 1\n\n\r\n", false, "closed before the end"},
			"short of its length":     {"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\ndata: 1\n\n", false, "closed before the end"},
			"by a reset":              {streamHead + "0009\r\ndata: 1\n\n\r\n", true, "reset"},
			"in gzip":                 {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\nxxxx", false, ""},
			"with a chunk of no size": {streamHead + "xyz\r\n", false, ""},
		} {
			t.Run(name, func(t *testing.T) {
				headerRead := make(chan struct{})
				h := listen(t, func(_ *host, _ int, c *conn) {
					c.request()
					c.write(x.answer)
					if x.reset {
						<-headerRead // a reset overtakes what was written before
						_ = c.Conn.(*net.TCPConn).SetLinger(0)
					}
				})
				reply, fault := to(compatible(h.url())).Do(t.Context(), chatCall())
				if fault != nil {
					t.Fatal(fault)
				}
				close(headerRead)
				_, failure := readAll(reply)
				var err *codec.Error
				if !errors.As(failure, &err) {
					t.Fatalf("got %v", failure)
				}
				mustFail(t, err, codec.KindUpstream, "cannot be read to its end", x.want)
				if _, again := reply.Body.Read(make([]byte, 1)); !errors.Is(again, err) {
					t.Errorf("the error does not last: %v", again)
				}
			})
		}
	})
}

func TestCancellingEndsTheCallInEveryPhase(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		reached := make(chan struct{}, 1)
		left := errors.New("the client left")
		for name, script := range map[string]func(h *host, n int, c *conn){
			"while it sends": func(h *host, _ int, c *conn) {
				_, _ = c.in.ReadByte() // and not the rest, so that the request cannot be written to its end
				reached <- struct{}{}
				c.awaitGone(h)
			},
			"while it waits": func(h *host, _ int, c *conn) {
				c.request()
				reached <- struct{}{}
				c.awaitGone(h)
			},
			"while it reads": func(h *host, _ int, c *conn) {
				c.request()
				c.write(streamHead)
				c.chunk("data: 1\n\n")
				reached <- struct{}{}
				c.awaitGone(h)
			},
		} {
			t.Run(name, func(t *testing.T) {
				h := listen(t, script)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				go func() {
					<-reached
					cancel(left)
				}()
				c := chatCall()
				c.Body = make([]byte, 8<<20)
				reply, err := to(compatible(h.url())).Do(ctx, c)
				if err == nil {
					_, failure := readAll(reply)
					errors.As(failure, &err)
				}
				mustFail(t, err, codec.KindUpstream, "was cancelled")
				if !errors.Is(err, left) {
					t.Errorf("the cause is lost: %v", err.Cause)
				}
				h.awaitClosed(t)
			})
		}
	})
}

func TestACauseMadeForTheClientIsHandedOn(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		h := listen(t, func(h *host, _ int, c *conn) { c.awaitGone(h) })
		draining := codec.Errorf(codec.KindOverloaded, "The proxy is shutting down.")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(draining)
		if _, err := to(compatible(h.url())).Do(ctx, chatCall()); err != draining {
			t.Error(err)
		}
	})
}

func TestEndingAStreamOfASharedConnectionReachesTheProvider(t *testing.T) {
	gone := make(chan struct{})
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "data: 1\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		gone <- struct{}{}
	}))
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	c := compatible(s.URL)
	c.HTTP2 = true
	r := newRouter(t, c)
	defer r.Close()
	p := r.Provider("host")
	trusting(p, s, "")
	for name, end := range map[string]func(cancel func(), b *Body){
		"cancel": func(cancel func(), b *Body) {
			cancel()
			var err *codec.Error
			if _, failure := io.ReadAll(b); !errors.As(failure, &err) || !errors.Is(err, context.Canceled) {
				t.Error(failure)
			}
		},
		"close": func(_ func(), b *Body) { _ = b.Close() },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		reply, err := p.Do(ctx, chatCall())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := reply.Body.Read(make([]byte, 100)); err != nil {
			t.Fatal(err)
		}
		end(cancel, reply.Body)
		select {
		case <-gone:
		case <-time.After(timeout):
			t.Errorf("%s: the provider does not know", name)
		}
		cancel()
		_ = reply.Body.Close()
	}
}

func TestADeadlineOfTheCallersIsATimeout(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		h := listen(t, func(h *host, _ int, c *conn) { c.awaitGone(h) })
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
		defer cancel()
		_, err := to(compatible(h.url())).Do(ctx, chatCall())
		mustFail(t, err, codec.KindTimeout, "ran out")
	})
}

func TestCancellingWhileItConnectsEndsTheCall(t *testing.T) {
	p := newRouter(t, compatible("http://192.0.2.1/v1")).Provider("host")
	ctx, cancel := context.WithCancel(t.Context())
	dialing := make(chan struct{})
	p.endpoints[0].upstream.(*direct).client.Dial = func(ctx context.Context, _, _ string) (net.Conn, error) {
		close(dialing)
		<-ctx.Done()
		return nil, ctx.Err()
	}
	go func() {
		<-dialing
		cancel()
	}()
	_, err := p.Do(ctx, chatCall())
	mustFail(t, err, codec.KindUpstream, "was cancelled")
	if !errors.Is(err, context.Canceled) {
		t.Error(err.Cause)
	}
}

func TestClosingEarlyEndsTheCallWithoutWaiting(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		h := listen(t, func(h *host, _ int, c *conn) {
			c.request()
			c.write(streamHead)
			c.chunk("data: 1\n\n")
			c.awaitGone(h) // and never a word more
		})
		reply, err := to(compatible(h.url())).Do(t.Context(), chatCall())
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := reply.Body.Close(); err != nil {
				t.Error(err)
			}
		}
		h.awaitClosed(t)
	})
}

// lateReader is an upstream that goes on reading a request's body when the call is over, as net/http may.
type lateReader struct {
	body io.ReadCloser
	err  error
}

func (u *lateReader) do(_ context.Context, out outgoing) (incoming, error) {
	u.body = out.body.open()
	_, _ = io.ReadFull(u.body, make([]byte, 10))
	return incoming{status: 413, body: http.NoBody}, u.err
}

func (u *lateReader) close() {}

// The buffer of a body may carry the next client's request as soon as the call is over.
func TestABodyIsNotReadAfterTheCallIsOver(t *testing.T) {
	p := newRouter(t, compatible("http://127.0.0.1:1/v1")).Provider("host")
	for name, failure := range map[string]error{"answered early": nil, "failed": io.ErrUnexpectedEOF} {
		u := &lateReader{err: failure}
		p.endpoints[0].upstream = u
		reply, err := p.Do(t.Context(), chatCall())
		if err == nil {
			if n, err := u.body.Read(make([]byte, 5)); n != 5 || err != nil {
				t.Errorf("%s: before the end: %d, %v", name, n, err)
			}
			_ = reply.Body.Close()
		}
		if n, err := u.body.Read(make([]byte, 5)); n != 0 || !errors.Is(err, errReleased) {
			t.Errorf("%s: after the end: %d, %v", name, n, err)
		}
	}
}

// Clients come and go in every phase, and the buffer of each carries the next request at once.
func TestRequestsOfManyClientsDoNotMix(t *testing.T) {
	var mixed atomic.Int32
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buf := make([]byte, 64<<10)
		var first byte
		for total := 0; ; {
			n, err := r.Body.Read(buf)
			if total == 0 && n > 0 {
				first = buf[0]
			}
			if total += n; bytes.Count(buf[:n], []byte{first}) != n {
				mixed.Add(1)
			}
			if err != nil {
				break
			}
			if first%4 == 0 { // answered before it was read
				break
			}
		}
		_, _ = w.Write([]byte{first})
	}))
	defer s.Close()
	r := newRouter(t, compatible(s.URL))
	defer r.Close()
	p := r.Provider("host")
	var clients sync.WaitGroup
	for client := range 6 {
		clients.Go(func() {
			buffer := make([]byte, 1<<20)
			for i := range 8 {
				mark := byte(client*8 + i + 1)
				for at := range buffer {
					buffer[at] = mark
				}
				ctx, cancel := context.WithCancel(t.Context())
				if i%3 == 0 {
					time.AfterFunc(time.Duration(i)*100*time.Microsecond, cancel)
				}
				reply, err := p.Do(ctx, &Call{Format: codec.Chat, Body: buffer})
				if err == nil && i%2 == 0 {
					_, _ = io.ReadAll(reply.Body)
				}
				if err == nil {
					_ = reply.Body.Close()
				}
				cancel()
			}
		})
	}
	clients.Wait()
	if n := mixed.Load(); n > 0 {
		t.Errorf("%d requests held bytes of another", n)
	}
}

func TestAnAnswerBeforeTheRequestWasSentIsRead(t *testing.T) {
	overBoth(t, func(t *testing.T, to func(Config) *Provider) {
		h := listen(t, func(h *host, _ int, c *conn) {
			_, _ = c.in.ReadByte()
			c.write("HTTP/1.1 413 Content Too Large\r\nContent-Length: 2\r\n\r\nno")
			c.awaitGone(h)
		})
		c := chatCall()
		c.Body = make([]byte, 8<<20) // more than the sockets hold
		reply, err := to(compatible(h.url())).Do(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := readAll(reply); text != "no" || err != nil || reply.Status != http.StatusRequestEntityTooLarge {
			t.Errorf("%d %q %v", reply.Status, text, err)
		}
	})
}

func TestAPieceOfACompressedStreamDoesNotWaitForTheNext(t *testing.T) {
	const event = "data: compressed although nobody asked\n\n"
	type flusher interface {
		io.WriteCloser
		Flush() error
	}
	for encoding, begin := range map[string]func(io.Writer) flusher{
		"gzip": func(w io.Writer) flusher { return gzip.NewWriter(w) },
		"zstd": func(w io.Writer) flusher { z, _ := zstd.NewWriter(w); return z },
	} {
		next := make(chan struct{})
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", encoding)
			z := begin(w)
			for range 3 {
				_, _ = io.WriteString(z, event)
				_ = z.Flush()
				w.(http.Flusher).Flush()
				<-next
			}
			_ = z.Close()
		}))
		r := newRouter(t, compatible(s.URL))
		reply, err := r.Provider("host").Do(t.Context(), chatCall())
		if err != nil {
			t.Fatal(err)
		}
		for range 3 {
			got := make([]byte, len(event))
			if _, err := io.ReadFull(reply.Body, got); err != nil || string(got) != event {
				t.Errorf("%s: %q, %v", encoding, got, err)
			}
			next <- struct{}{}
		}
		if rest, err := readAll(reply); rest != "" || err != nil {
			t.Errorf("%s: %q, %v", encoding, rest, err)
		}
		r.Close()
		s.Close()
	}
}

func TestCompressedAnswersAreReadWithoutTheirEncoding(t *testing.T) {
	const text = "data: compressed although nobody asked\n\n"
	var zipped, zstded bytes.Buffer
	gz := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(gz, text)
	_ = gz.Close()
	zs, _ := zstd.NewWriter(&zstded)
	_, _ = io.WriteString(zs, text)
	_ = zs.Close()
	for encoding, body := range map[string][]byte{"gzip": zipped.Bytes(), "x-gzip": zipped.Bytes(), "zstd": zstded.Bytes(), "identity": []byte(text)} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if got := r.Header.Get("Accept-Encoding"); got != "identity" {
				t.Errorf("asked for %q", got)
			}
			w.Header().Set("Content-Encoding", encoding)
			_, _ = w.Write(body)
		}))
		r := newRouter(t, compatible(s.URL))
		reply, err := r.Provider("host").Do(t.Context(), chatCall())
		if err != nil {
			t.Fatal(err)
		}
		if got, err := readAll(reply); got != text || err != nil {
			t.Errorf("%s: %q, %v", encoding, got, err)
		}
		if encoding != "identity" && (reply.Header.Get("Content-Encoding") != "" || reply.Header.Get("Content-Length") != "") {
			t.Errorf("%s: %v", encoding, reply.Header)
		}
		r.Close()
		s.Close()
	}
}
