package router

import (
	"bufio"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// timeout is how long a test waits for something that has to come; it is never part of what is asserted.
const timeout = time.Minute

// A host is a raw listener whose connections are served by a script, to misbehave below the level of HTTP.
type host struct {
	net.Listener
	served sync.WaitGroup
	closed chan struct{} // gets one value per connection whose other end has gone while the script awaited that
}

// listen serves every connection with script, which is given its number from 0.
func listen(t testing.TB, script func(h *host, n int, c *conn)) *host {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	h := &host{Listener: l, closed: make(chan struct{}, 1000)}
	h.served.Go(func() {
		for n := 0; ; n++ {
			raw, err := l.Accept()
			if err != nil {
				return
			}
			h.served.Go(func() {
				defer func() { _ = raw.Close() }()
				script(h, n, &conn{Conn: raw, in: bufio.NewReader(raw)})
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		h.served.Wait()
	})
	return h
}

func (h *host) url() string { return "http://" + h.Addr().String() + "/v1" }

// awaitClosed fails the test unless a connection's other end goes away.
func (h *host) awaitClosed(t testing.TB) {
	t.Helper()
	select {
	case <-h.closed:
	case <-time.After(timeout):
		t.Error("the connection to the provider stayed open")
	}
}

type conn struct {
	net.Conn
	in *bufio.Reader
}

// request reads one request with its body; nil when there is none.
func (c *conn) request() *http.Request {
	r, err := http.ReadRequest(c.in)
	if err != nil {
		return nil
	}
	if _, err := io.Copy(io.Discard, r.Body); err != nil {
		return nil
	}
	return r
}

func (c *conn) write(s string) { _, _ = io.WriteString(c.Conn, s) }

// chunk writes one piece of a chunked body.
func (c *conn) chunk(s string) {
	const hex = "0123456789abcdef"
	n := len(s)
	c.write(string([]byte{hex[n>>12&15], hex[n>>8&15], hex[n>>4&15], hex[n&15]}) + "\r\n" + s + "\r\n")
}

const streamHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"

// awaitGone returns when the other end has closed the connection.
func (c *conn) awaitGone(h *host) {
	_, _ = io.Copy(io.Discard, c.in)
	h.closed <- struct{}{}
}

// chatCall is a small call to the provider of [compatible].
func chatCall() *Call {
	return &Call{Format: codec.Chat, Model: "m", Stream: true, Body: []byte(`{"model":"m","stream":true}`)}
}

// overBoth runs a test over connections of our own, and over net/http, which serves where a proxy or HTTP/2 is wanted. to
// makes the provider of [compatible].
func overBoth(t *testing.T, test func(t *testing.T, to func(Config) *Provider)) {
	t.Run("direct", func(t *testing.T) {
		test(t, func(c Config) *Provider { return newRouter(t, c).Provider("host") })
	})
	t.Run("net/http", func(t *testing.T) {
		test(t, func(c Config) *Provider {
			r := newRouter(t, c)
			p := r.Provider("host")
			p.endpoints[0].upstream.close()
			timeouts := defaultTimeouts
			if c.Timeouts.TLS != 0 {
				timeouts.TLS = c.Timeouts.TLS
			}
			p.endpoints[0].upstream = newTransport(timeouts, strings.HasPrefix(c.Providers["host"].BaseURL, "https:"), c.HTTP2)
			return p
		})
	})
}

// readAll reads a reply to its end and closes it.
func readAll(r *Reply) (string, error) {
	text, err := io.ReadAll(r.Body)
	return string(text), errors.Join(err, r.Body.Close())
}

// mustFail checks that err says what it should to a person, and neither a credential nor what a library said.
func mustFail(t *testing.T, err *codec.Error, kind codec.Kind, parts ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if err.Kind != kind || err.Provider != "host" {
		t.Errorf("kind %v, provider %q: %v", err.Kind, err.Provider, err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Message, part) {
			t.Errorf("%q is missing in: %s", part, err.Message)
		}
	}
	if strings.Contains(err.Message, "key-1") || strings.Contains(err.Message, "net/http") {
		t.Errorf("the message says too much: %s", err.Message)
	}
	if err.Cause != nil && strings.Contains(err.Message, err.Cause.Error()) {
		t.Errorf("the message is a library's: %s", err.Message)
	}
}

// discardLog keeps a test server's complaints about our failed handshakes out of the output.
var discardLog = log.New(io.Discard, "", 0)
