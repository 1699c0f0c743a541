package router

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"
)

// Of both upstreams. Idle connections are dropped before the 60 s after which common load balancers drop them, so that
// requests rarely meet a closing one. Answer headers of real providers stay under 8 KiB.
const (
	idlePerHost       = 512
	idleConnections   = 45 * time.Second
	keepAlivePeriod   = 30 * time.Second
	maxResponseHeader = 256 << 10
	readBuffer        = 16 << 10 // one read takes what a burst has left in the socket
	writeBuffer       = 16 << 10
)

// transport is the upstream over net/http's connection pool, without its client: no redirects, no cookies.
type transport struct {
	pool *http.Transport
	send func(*http.Request) (*http.Response, error) // pool.RoundTrip

	stale time.Duration // staleWithin
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
	return &transport{pool: pool, send: pool.RoundTrip, stale: staleWithin}
}

// do sends a request once, but for one case: a connection from the pool that the provider was just closing. Nobody can
// tell from here whether the request was read before the end; what can be told is that a stale connection fails at
// once, and without a byte of an answer. Such a request goes to another connection, as browsers do it. At the worst the
// first second of a model's work is paid for twice. Whatever takes longer, or fails on a new connection, is an error
// for the client to retry.
//
// net/http, which is given GetBody for that, does the same on its own only where it knows that nothing was written, or
// where the client sent an Idempotency-Key.
func (t *transport) do(ctx context.Context, out outgoing) (incoming, error) {
	ctx, cancel := context.WithCancel(ctx)
	if !out.cutoff.Guard(cancel) { // by which it is cancelled in the end
		cancel()
		return incoming{}, context.Canceled
	}
	var taken pooled
	req := (&http.Request{
		Method:     out.method,
		URL:        out.url,
		Host:       out.url.Host,
		Header:     out.header,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
	}).WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: taken.note}))
	if out.size > 0 {
		req.Body = out.body.open()
		req.ContentLength = out.size
		req.GetBody = func() (io.ReadCloser, error) { return out.body.open(), nil }
	}
	for attempt := 0; ; attempt++ {
		res, err := t.send(req) //nolint:bodyclose // closed by the reader of the incoming
		if err == nil {
			return incoming{status: res.StatusCode, header: res.Header, body: res.Body, length: res.ContentLength}, nil
		}
		if attempt == staleRetries || ctx.Err() != nil || !isCut(err) || !taken.within(t.stale) {
			return incoming{}, err
		}
		req = req.WithContext(req.Context()) // a copy: the failed attempt may still hold the old one
		if out.size > 0 {
			req.Body = out.body.open()
		}
	}
}

func (t *transport) close() { t.pool.CloseIdleConnections() }

const (
	staleWithin  = time.Second // longer than a round trip to any provider
	staleRetries = 3           // stale connections in a row that are passed over
)

// pooled notes when a request was given a connection that had served another one before.
type pooled struct{ at atomic.Int64 }

func (p *pooled) note(c httptrace.GotConnInfo) {
	p.at.Store(nobody)
	if c.Reused {
		p.at.Store(now())
	}
}

// within tells whether that was so, and less than d ago.
func (p *pooled) within(d time.Duration) bool {
	at := p.at.Load()
	return at != nobody && time.Duration(now()-at) < d
}

// isCut tells whether a connection ended while we waited for an answer on it.
func isCut(err error) bool {
	for _, end := range []error{syscall.ECONNRESET, syscall.EPIPE, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed} {
		if errors.Is(err, end) {
			return true
		}
	}
	// net/http's error for a connection whose end had been read before the request was written has no exported name.
	return err.Error() == "http: server closed idle connection"
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
