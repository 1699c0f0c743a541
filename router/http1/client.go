// Package http1 is an HTTP/1.1 client for the way of a streamed answer (RFC 9112): one request at a time on each
// connection, sent and read by the caller's own goroutine.
//
// A request and its answer cost two system calls to write and read, no hand-over between goroutines and a few
// allocations; a read of the body costs none. Bodies are read from the socket into the caller's buffer and freed of
// their chunk framing in place. What is not for that way is left out: redirects, cookies, proxies, HTTP/2, upgrades,
// compression.
package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// Options configure a [Client]. Every field has to be set, but for TLS.
type Options struct {
	Address string      // host:port to connect to
	Host    string      // of the Host header
	TLS     *tls.Config // nil: plain; ServerName has to be set

	Dial         func(ctx context.Context, network, address string) (net.Conn, error)
	TLSHandshake time.Duration // for the handshake
	Idle         time.Duration // an unused connection is closed after that
	MaxIdle      int           // unused connections that are kept
	MaxHead      int           // bytes of the head of an answer, trailers and interim answers included
	Stale        time.Duration // see [Client.Do]
}

// Client holds the connections to one origin. It is safe for concurrent use.
type Client struct {
	Options

	mu     sync.Mutex
	idle   []*conn // the last is the one used most recently
	sweep  *time.Timer
	closed bool
}

// NewClient makes a client without connections.
func NewClient(o Options) *Client { return &Client{Options: o} }

// Field is one line of a request's head.
type Field struct{ Name, Value string }

// Request is what [Client.Do] sends. Host, Content-Length and Connection are not among its fields.
type Request struct {
	Method string
	Target string // in origin form: path and query, escaped
	Fields []Field
	Body   []byte  // not changed, and not read any more once the answer is closed or Do has failed
	Cutoff *Cutoff // for this request alone; nil: only its context ends it
}

// Errors of answers that are no HTTP/1.
var (
	ErrMalformed    = errors.New("http1: malformed answer")
	ErrHeadTooLarge = errors.New("http1: head of the answer over the limit")
	ErrField        = errors.New("http1: a field of the request holds what no field can hold")
)

// staleRetries is how many stale connections in a row are passed over.
const staleRetries = 3

// Do sends a request and returns when the head of its answer is there. Interim answers (1xx) are passed over. Cancelling ctx
// closes the connection at once, in every phase, until the answer has been read to its end or closed; so does the cutoff.
//
// A request is sent once, but for one case: a connection that had been kept and that the other end was just closing. Nobody
// can tell from here whether the request was read before the end; what can be told is that a stale connection fails at
// once, and without a byte of an answer. A request that failed so within the time Stale goes to another connection, as
// browsers do it.
func (c *Client) Do(ctx context.Context, r *Request) (*Response, error) {
	for attempt := 0; ; attempt++ {
		began := time.Now()
		res, kept, err := c.try(ctx, r)
		if err == nil {
			return res, nil
		}
		if !kept || attempt == staleRetries || ctx.Err() != nil || !r.Cutoff.Release() || !isCut(err) || time.Since(began) >= c.Stale {
			return nil, err
		}
	}
}

// try sends r once; kept tells whether that was on a connection that had been kept.
func (c *Client) try(ctx context.Context, r *Request) (res *Response, kept bool, err error) {
	conn := c.take()
	kept = conn != nil
	if !kept {
		if conn, err = c.dial(ctx, r.Cutoff); err != nil {
			return nil, false, err
		}
	}
	res = &Response{conn: conn, release: context.AfterFunc(ctx, conn.abort), cutoff: r.Cutoff}
	if !r.Cutoff.Guard(conn.abort) {
		_ = res.Close()
		return nil, kept, net.ErrClosed
	}
	unsent := conn.send(c.Host, r)
	if unsent != nil && !isCut(unsent) {
		_ = res.Close()
		return nil, kept, unsent
	}
	// Also where the request could not be sent: the other end may have answered, and closed the connection, before that.
	if err = conn.receive(res, c.MaxHead); err != nil {
		_ = res.Close()
		return nil, kept, err
	}
	res.body.reusable = res.body.reusable && unsent == nil
	if res.body.err != nil { // there is none
		res.finish()
	}
	return res, kept, nil
}

// isCut tells whether a connection ended while we waited for an answer on it. With io.ErrUnexpectedEOF a part of an
// answer was there.
func isCut(err error) bool {
	for _, end := range []error{syscall.ECONNRESET, syscall.EPIPE, io.EOF, net.ErrClosed} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// Response is an answer whose body is still on its way. It belongs to one goroutine.
type Response struct {
	Status int
	Header http.Header // by canonical names
	Length int64       // of the body in bytes; -1 when its end has to be waited for

	conn    *conn       // nil once the connection has been given back or closed
	release func() bool // from the context
	cutoff  *Cutoff
	body    body
}

// Read reads the body. It ends with io.EOF where the body ended as its framing says, together with the last bytes where
// that is known by then, and with io.ErrUnexpectedEOF where the connection ended before.
func (r *Response) Read(p []byte) (int, error) {
	if r.conn == nil {
		return 0, r.body.failure()
	}
	n, err := r.body.read(r.conn, p)
	if err != nil {
		r.finish()
	}
	return n, err
}

// Close ends the answer. A connection whose answer was not read to its end is closed. It may be called more than once, and
// never waits for the other end.
func (r *Response) Close() error {
	if r.conn != nil {
		r.body.fail(net.ErrClosed)
		r.finish()
	}
	return nil
}

// finish gives the connection back when another request may follow on it, and closes it otherwise.
func (r *Response) finish() {
	conn := r.conn
	r.conn = nil
	released := r.release()
	if r.cutoff.Release() && released && r.body.reusable && r.body.err == io.EOF && conn.sent() { //nolint:errorlint // our own value
		conn.client.keep(conn)
		return
	}
	conn.close()
}
