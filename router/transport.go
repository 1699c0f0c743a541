package router

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Of the transport. Idle connections are dropped before the 60 s after which common load balancers drop them, because
// a request that meets a closing connection cannot be told from one that was read and lost. Answer headers of real
// providers stay under 8 KiB.
const (
	idlePerHost       = 512
	idleConnections   = 45 * time.Second
	keepAlivePeriod   = 30 * time.Second
	maxResponseHeader = 256 << 10
	readBuffer        = 16 << 10 // one read takes what a burst has left in the socket
	writeBuffer       = 16 << 10 // header and a short body leave in one write
)

// transport is the upstream over net/http's connection pool, without its client: no redirects, no cookies.
type transport struct {
	pool *http.Transport
	send func(*http.Request) (*http.Response, error) // pool.RoundTrip
}

func newTransport(t Timeouts, http2 bool) *transport {
	dialer := &net.Dialer{Timeout: t.Dial, KeepAlive: keepAlivePeriod}
	pool := &http.Transport{
		Proxy:                  http.ProxyFromEnvironment,
		DialContext:            dialer.DialContext,
		TLSHandshakeTimeout:    t.TLS,
		ForceAttemptHTTP2:      http2,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleConnections,
		MaxResponseHeaderBytes: maxResponseHeader,
		ReadBufferSize:         readBuffer,
		WriteBufferSize:        writeBuffer,
		OnProxyConnectResponse: proxyAgreed,
		// A stuck connection would hold up all the streams on it.
		HTTP2: &http.HTTP2Config{SendPingTimeout: keepAlivePeriod, PingTimeout: t.Dial},
	}
	return &transport{pool: pool, send: pool.RoundTrip}
}

// do sends a request once, but for one case: a pooled connection that the provider closed meanwhile. As long as no
// byte was written on it, nothing can have been answered or charged, and the request goes to the next connection.
// net/http does so by itself where it knows that nothing was written (it needs GetBody for that) or where the client's
// Idempotency-Key allows more. It does not where it had read the end of the idle connection just before it began to
// write; that is errClosedIdle, and handled here. A connection lost after that, without an answer, is an error: the
// request may be at work.
func (t *transport) do(ctx context.Context, out *outgoing) (*incoming, error) {
	req := (&http.Request{
		Method:     out.method,
		URL:        out.url,
		Host:       out.url.Host,
		Header:     out.header,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
	}).WithContext(ctx)
	if out.size > 0 {
		req.Body = out.body.open()
		req.ContentLength = out.size
		req.GetBody = func() (io.ReadCloser, error) { return out.body.open(), nil }
	}
	for attempt := 0; ; attempt++ {
		res, err := t.send(req) //nolint:bodyclose // closed by the reader of the incoming
		switch {
		case err == nil:
			return &incoming{status: res.StatusCode, header: res.Header, body: res.Body}, nil
		case !isClosedIdle(err) || attempt == closedIdleRetries:
			return nil, err
		case req.GetBody != nil:
			req.Body = out.body.open()
		}
	}
}

// A proxyRefusal is a proxy's refusal to lead to the provider.
type proxyRefusal struct {
	proxy  string // host:port; the rest of its URL may hold a password
	status int
}

func (e *proxyRefusal) Error() string {
	return "proxy " + e.proxy + " answered CONNECT with HTTP " + strconv.Itoa(e.status)
}

func proxyAgreed(_ context.Context, proxy *url.URL, _ *http.Request, res *http.Response) error {
	if res.StatusCode == http.StatusOK {
		return nil
	}
	return &proxyRefusal{proxy: proxy.Host, status: res.StatusCode}
}

func (t *transport) close() { t.pool.CloseIdleConnections() }

// closedIdleRetries bounds how many closed connections in a row are passed over.
const closedIdleRetries = 3

// isClosedIdle recognises net/http's error for a connection whose end had been read before the request was written.
// The error has no exported name.
func isClosedIdle(err error) bool {
	return err != nil && err.Error() == "http: server closed idle connection"
}
