package router

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
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
	writeBuffer       = 8 << 10  // header and a short body leave in one write
)

// transport is the upstream over net/http's connection pool, without its client: no redirects, no cookies.
type transport struct {
	http *http.Transport
}

func newTransport(t Timeouts, http2 bool) *transport {
	dialer := &net.Dialer{Timeout: t.Dial, KeepAlive: keepAlivePeriod}
	return &transport{http: &http.Transport{
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
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: keepAlivePeriod, PingTimeout: t.Dial},
	}}
}

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
	if len(out.body) > 0 {
		req.Body = io.NopCloser(bytes.NewReader(out.body))
		req.ContentLength = int64(len(out.body))
		// Used by net/http to send again on another connection where a pooled one turned out to be closed before a
		// byte was written, or where the caller's Idempotency-Key allows it.
		req.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(out.body)), nil }
	}
	res, err := t.http.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	return &incoming{status: res.StatusCode, header: res.Header, body: res.Body}, nil
}

func (t *transport) close() { t.http.CloseIdleConnections() }
