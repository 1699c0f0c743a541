package router

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/router/http1"
	"github.com/mnemeproxy/mneme/router/neterr"
)

// For both upstreams. Idle connections are dropped before the 60 s after which common load balancers drop them, so that
// requests rarely meet a closing one. Answer headers of real providers are under 8 KiB.
const (
	idlePerHost       = 512
	idleConnections   = 45 * time.Second
	keepAlivePeriod   = 30 * time.Second
	maxResponseHeader = 256 << 10
	readBuffer        = 16 << 10 // one read empties a burst from the socket
	writeBuffer       = 16 << 10
)

// transport is the upstream over net/http's connection pool, without its client: no redirects, no cookies.
type transport struct{ pool *http.Transport }

// newTransport makes an upstream; secure says whether the provider is reached over TLS.
func newTransport(t Timeouts, secure, http2 bool) *transport {
	dialer := &net.Dialer{Timeout: t.Dial, KeepAlive: keepAlivePeriod}
	pool := &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			c, err := dialer.DialContext(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return pooledConnOf(c, secure), nil
		},
		TLSHandshakeTimeout:    t.TLS,
		ForceAttemptHTTP2:      http2,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    idlePerHost,
		IdleConnTimeout:        idleConnections,
		MaxResponseHeaderBytes: maxResponseHeader,
		ReadBufferSize:         readBuffer,
		WriteBufferSize:        writeBuffer,
		OnProxyConnectResponse: proxyAgreed,
		// A stuck connection would block all streams on it.
		HTTP2: &http.HTTP2Config{SendPingTimeout: keepAlivePeriod, PingTimeout: t.Dial},
	}
	return &transport{pool: pool}
}

// newUploads makes the upstream for bodies that are sent as they arrive. Each gets a connection of its own: one that has
// been used may turn out to have ended when a part of the body is lost on it.
func newUploads(t Timeouts, secure bool) *transport {
	uploads := newTransport(t, secure, false)
	uploads.pool.DisableKeepAlives = true
	dial := uploads.pool.DialContext
	uploads.pool.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return uploadConn{conn}, nil
	}
	return uploads
}

// uploadConn leaves it to reads to report that the peer has closed the connection: a provider may refuse an upload before
// it has read all of it, and net/http drops that answer if a write fails first.
type uploadConn struct{ net.Conn }

func (c uploadConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if errors.Is(err, neterr.Reset) || errors.Is(err, neterr.Broken) {
		return len(p), nil
	}
	return n, err
}

// do sends a request once. An unusable pooled connection is replaced before anything is written on it. If net/http had
// GetBody, it would resend a request with an Idempotency-Key.
func (t *transport) do(ctx context.Context, out outgoing) (incoming, error) {
	ctx, cancel := context.WithCancel(ctx)
	if !out.cutoff.Guard(cancel) { // the cutoff cancels through it
		cancel()
		return incoming{}, context.Canceled
	}
	var connected, unusable atomic.Bool
	trace := &httptrace.ClientTrace{GotConn: func(c httptrace.GotConnInfo) {
		unusable.Store(c.Reused && !overHTTP2(c.Conn) && !usable(c.Conn))
		connected.Store(!unusable.Load())
	}}
	ctx = httptrace.WithClientTrace(ctx, trace)
	for {
		res, err := t.pool.RoundTrip(t.request(ctx, out))
		switch {
		case unusable.Load():
			if err == nil {
				_ = res.Body.Close() // of another request
			}
			if ctx.Err() != nil {
				return incoming{}, ctx.Err()
			}
		case err == nil:
			return incoming{status: res.StatusCode, header: http1.HeaderOf(res.Header), body: res.Body, length: res.ContentLength}, nil
		case connected.Load():
			return incoming{}, fmt.Errorf("%w: %w", http1.ErrSent, err)
		default:
			return incoming{}, err
		}
	}
}

// overHTTP2 reports whether answers on a connection are matched to their requests.
func overHTTP2(conn net.Conn) bool {
	c, ok := conn.(*tls.Conn)
	return ok && c.ConnectionState().NegotiatedProtocol == "h2"
}

func (*transport) request(ctx context.Context, out outgoing) *http.Request {
	r := (&http.Request{
		Method:     out.method,
		URL:        out.url,
		Host:       out.url.Host,
		Header:     out.header.HTTP(),
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
	}).WithContext(ctx)
	switch {
	case out.upload != nil:
		r.Body = io.NopCloser(out.upload)
		r.ContentLength = out.size
	case out.size > 0:
		r.Body = out.body.open()
		r.ContentLength = out.size
	}
	return r
}

func (t *transport) close() { t.pool.CloseIdleConnections() }

// isCut reports whether a connection ended while we waited for an answer on it.
func isCut(err error) bool {
	for _, end := range []error{neterr.Reset, neterr.Broken, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed} {
		if errors.Is(err, end) {
			return true
		}
	}
	// net/http's error for a connection whose end was read before the request was written has no exported name.
	return err.Error() == "http: server closed idle connection"
}

// A proxyRefusal is a proxy's refusal to connect to the provider.
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
