// Package http1 is an HTTP/1.1 client for streamed answers (RFC 9112): one request at a time on each connection, sent
// and read by the caller's own goroutine.
//
// A request and its answer cost two system calls, no hand-over between goroutines and a few allocations; a read of the
// body allocates nothing. Bodies are read from the socket into the caller's buffer, and their chunk framing is removed
// in place. There is no support for redirects, cookies, proxies, HTTP/2, upgrades or compression.
package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/router/neterr"
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
	// ErrSent is wrapped by the errors of requests of which something has left.
	ErrSent = errors.New("http1: no answer to a request that was sent")
	// ErrUnread is wrapped besides where it is certain that the other end has not read anything of the request, because it
	// ended the connection before that could reach it. Otherwise it may have read all of it.
	ErrUnread = errors.New("http1: the connection had ended before the request came")

	ErrMalformed    = errors.New("http1: malformed answer")
	ErrHeadTooLarge = errors.New("http1: head of the answer over the limit")
	ErrField        = errors.New("http1: a field of the request holds what no field can hold")
)

// Do sends a request and returns when the head of its answer is there. Interim answers (1xx) are passed over. Cancelling ctx
// closes the connection at once, in every phase, until the answer has been read to its end or closed; so does the cutoff.
//
// A request is sent once. A kept connection that is found to have ended before a byte of the request has left on it is
// replaced, which is no second send. One that ends later, without an answer, may have been read and is an error: no proxy
// repeats a request of its own accord that is not idempotent (RFC 9110, section 9.2.2), and net/http and nginx do not
// either. Such errors wrap [ErrSent]. Few requests meet such an end, because a connection is looked at before it is used, and
// is not kept for as long as servers and load balancers keep theirs. Where the end and the request have crossed on the way,
// the error wraps [ErrUnread], too: the caller may send the request again.
func (c *Client) Do(ctx context.Context, r *Request) (*Response, error) {
	for {
		conn := c.take()
		kept := conn != nil
		if !kept {
			var err error
			if conn, err = c.dial(ctx, r.Cutoff); err != nil {
				return nil, err
			}
		}
		res, err := c.try(ctx, conn, kept, r)
		if err == nil || !kept || !errors.Is(err, errUnsent) || ctx.Err() != nil || !r.Cutoff.Release() {
			return res, err
		}
	}
}

// try sends r on a connection of its own; kept tells that it has served other requests.
func (c *Client) try(ctx context.Context, conn *conn, kept bool, r *Request) (*Response, error) {
	res := &Response{conn: conn, release: context.AfterFunc(ctx, conn.abort), cutoff: r.Cutoff}
	if !r.Cutoff.Guard(conn.abort) {
		_ = res.Close()
		return nil, net.ErrClosed
	}
	unsent := conn.send(c.Host, r)
	// What stands on a kept connection that has taken nothing of the request is no answer to it.
	none := errors.Is(unsent, errUnsent) || errors.Is(unsent, ErrField)
	if unsent != nil && (!isCut(unsent) || kept && none) {
		return nil, res.failed(unsent, none)
	}
	// Also where the request could not be sent: the other end may have answered, and closed the connection, before that.
	if err := conn.receive(res, c.MaxHead); err != nil {
		if !none && conn.unread(err) {
			err = fmt.Errorf("%w: %w", ErrUnread, err)
		}
		return nil, res.failed(err, none)
	}
	conn.headCame()
	res.body.reusable = res.body.reusable && unsent == nil
	if res.body.err != nil { // there is none
		res.finish()
	}
	return res, nil
}

// failed ends an answer that does not come; unsent tells that nothing of its request has left.
func (r *Response) failed(err error, unsent bool) error {
	_ = r.Close()
	if unsent {
		return err
	}
	return fmt.Errorf("%w: %w", ErrSent, err)
}

// isCut reports whether a connection ended while we waited for an answer on it. With io.ErrUnexpectedEOF a part of an
// answer was there.
func isCut(err error) bool {
	for _, end := range []error{neterr.Reset, neterr.Broken, io.EOF, net.ErrClosed} {
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

// finish gives the connection back when another request may follow on it, and closes it otherwise. Nothing of what the other
// end has sent may be left then: it would be the answer to the next request, which may be another client's. What is left
// in the socket of a plain connection is found when the connection is taken; TLS is asked here, too.
func (r *Response) finish() {
	conn := r.conn
	r.conn = nil
	released := r.release()
	if r.cutoff.Release() && released && r.body.reusable && r.body.err == io.EOF && //nolint:errorlint // our own value
		conn.sent() && (conn.wire == nil || conn.quiet()) {
		conn.client.keep(conn)
		return
	}
	conn.close()
}
