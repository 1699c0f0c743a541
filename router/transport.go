package router

import (
	"context"
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
type transport struct{ pool *http.Transport }

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
	return &transport{pool: pool}
}

// do sends a request once. net/http replaces a connection on which nothing was written by another one; what was written is never
// sent again, which it would do with an Idempotency-Key if it were given GetBody.
func (t *transport) do(ctx context.Context, out outgoing) (incoming, error) {
	ctx, cancel := context.WithCancel(ctx)
	if !out.cutoff.Guard(cancel) { // by which it is cancelled in the end
		cancel()
		return incoming{}, context.Canceled
	}
	var connected atomic.Bool
	req := (&http.Request{
		Method:     out.method,
		URL:        out.url,
		Host:       out.url.Host,
		Header:     out.header,
		Proto:      "HTTP/1.1",
		ProtoMajor: 1,
		ProtoMinor: 1,
	}).WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }}))
	if out.size > 0 {
		req.Body = out.body.open()
		req.ContentLength = out.size
	}
	res, err := t.pool.RoundTrip(req) //nolint:bodyclose // closed by the reader of the incoming
	switch {
	case err == nil:
		return incoming{status: res.StatusCode, header: res.Header, body: res.Body, length: res.ContentLength}, nil
	case connected.Load():
		return incoming{}, fmt.Errorf("%w: %w", http1.ErrSent, err)
	default:
		return incoming{}, err
	}
}

func (t *transport) close() { t.pool.CloseIdleConnections() }

// isCut tells whether a connection ended while we waited for an answer on it.
func isCut(err error) bool {
	for _, end := range []error{neterr.Reset, neterr.Broken, io.EOF, io.ErrUnexpectedEOF, net.ErrClosed} {
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
