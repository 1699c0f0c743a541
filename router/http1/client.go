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
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/router/neterr"
)

// Options configure a [Client]. Every field except TLS is required.
type Options struct {
	Address string      // host:port to connect to
	Host    string      // of the Host header
	TLS     *tls.Config // nil: plain; ServerName is required

	Dial         func(ctx context.Context, network, address string) (net.Conn, error)
	TLSHandshake time.Duration // for the handshake
	Idle         time.Duration // how long an unused connection is kept
	MaxIdle      int           // unused connections kept
	MaxHead      int           // bytes of the head of an answer, including trailers and interim answers
}

// Client holds the connections to one origin. It is safe for concurrent use.
type Client struct {
	Options

	mu     sync.Mutex
	idle   []*conn // the last is the one used most recently
	sweep  *time.Timer
	closed bool
}

// NewClient returns a client without connections.
func NewClient(o Options) *Client { return &Client{Options: o} }

// Request is what [Client.Do] sends. Its fields must not include Host, Content-Length and Connection.
type Request struct {
	Method string
	Target string // in origin form: path and query, escaped
	Fields Header
	Body   []byte  // not changed, and not read once the answer is closed or Do has failed
	Cutoff *Cutoff // for this request only; nil: only its context ends it
}

// Errors for missing and malformed answers.
var (
	// ErrSent is wrapped by the errors of requests of which some bytes were sent.
	ErrSent = errors.New("http1: no answer to a request that was sent")
	// ErrUnread is wrapped as well if it is certain that the peer has read nothing of the request, because it ended the
	// connection before the request could reach it. Otherwise it may have read all of it.
	ErrUnread = errors.New("http1: the connection had ended before the request came")

	ErrMalformed    = errors.New("http1: malformed answer")
	ErrHeadTooLarge = errors.New("http1: head of the answer over the limit")
	ErrField        = errors.New("http1: a field of the request holds what no field can hold")
)

// Do sends a request and returns when the head of its answer has arrived. Interim answers (1xx) are skipped. Cancelling
// ctx closes the connection at once, in every phase, until the answer has been read to its end or closed; so does the
// cutoff.
//
// A request is sent once. A kept connection that turns out to have ended before a byte of the request was sent is
// replaced. If it ends later, without an answer, the request may have been read, so that is an error: a proxy must not
// repeat a request that is not idempotent (RFC 9110, section 9.2.2), and net/http and nginx do not either. Such errors
// wrap [ErrSent]. They are rare, because a connection is checked before it is used, and is not kept for as long as
// servers and load balancers keep theirs. If the end and the request crossed on the way, the error also wraps
// [ErrUnread]: the caller may send the request again.
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

// try sends r on a connection; kept reports that it has served other requests.
func (c *Client) try(ctx context.Context, conn *conn, kept bool, r *Request) (*Response, error) {
	res := &Response{conn: conn, release: context.AfterFunc(ctx, conn.abort), cutoff: r.Cutoff}
	if !r.Cutoff.Guard(conn.abort) {
		_ = res.Close()
		return nil, net.ErrClosed
	}
	unsent := conn.send(c.Host, r)
	// Bytes on a kept connection that has sent nothing of the request are no answer to it.
	none := errors.Is(unsent, errUnsent) || errors.Is(unsent, ErrField)
	if unsent != nil && (!isCut(unsent) || kept && none) {
		return nil, res.failed(unsent, none)
	}
	// Also if sending failed: the peer may have answered, and closed the connection, before that.
	if err := conn.receive(res, c.MaxHead); err != nil {
		if !none && conn.unread(err) {
			err = fmt.Errorf("%w: %w", ErrUnread, err)
		}
		return nil, res.failed(err, none)
	}
	conn.headCame()
	res.body.reusable = res.body.reusable && unsent == nil
	if res.body.err != nil { // there is no body
		res.finish()
	}
	return res, nil
}

// failed ends an answer that does not arrive; unsent reports that nothing of its request was sent.
func (r *Response) failed(err error, unsent bool) error {
	_ = r.Close()
	if unsent {
		return err
	}
	return fmt.Errorf("%w: %w", ErrSent, err)
}

// isCut reports whether a connection ended while we waited for an answer on it. io.ErrUnexpectedEOF means that part of
// an answer had arrived.
func isCut(err error) bool {
	for _, end := range []error{neterr.Reset, neterr.Broken, io.EOF, net.ErrClosed} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// Response is an answer whose body has yet to be read. It belongs to one goroutine.
type Response struct {
	Status int
	Header Header
	Length int64 // of the body in bytes; -1 if only the end tells

	conn    *conn       // nil once the connection has been returned or closed
	release func() bool // from the context
	cutoff  *Cutoff
	body    body
}

// BodySent reports whether the request's body is no longer read. A peer that answers has normally read all of it, and the
// goroutine that has written it gets lastWrite to report that.
func (r *Response) BodySent() bool {
	if r.conn == nil || r.conn.writing == nil || len(r.conn.writing) > 0 {
		return true
	}
	wait := time.Until(r.conn.answered.Add(lastWrite))
	if wait <= 0 {
		return false
	}
	select {
	case at := <-r.conn.writing:
		r.conn.writing <- at // for sent
		return true
	case <-time.After(wait):
		return false
	}
}

// Read reads the body. It waits only if nothing has arrived. At the end of the framed body it returns io.EOF, together
// with the last bytes if the end is known by then; if the connection ends before that, io.ErrUnexpectedEOF.
func (r *Response) Read(p []byte) (int, error) {
	if r.conn == nil {
		return 0, r.body.failure()
	}
	if len(p) == 0 {
		return 0, nil
	}
	for {
		n, err := r.body.fill(r.conn, p)
		if n = r.body.arrived(p, n, err); r.body.err != nil {
			r.finish()
			return n, r.body.err
		}
		if n > 0 {
			return n, nil
		}
	}
}

// Close ends the answer. If the answer was not read to its end, the connection is closed. Close may be called more than
// once, and never waits for the peer.
func (r *Response) Close() error {
	if r.conn != nil {
		r.body.fail(net.ErrClosed)
		r.finish()
	}
	return nil
}

// finish returns the connection to the pool if another request may follow on it, and closes it otherwise. The peer's
// bytes must all have been read: a rest would be the answer to the next request, which may be another client's. A rest
// in the socket of a plain connection is found when the connection is taken; TLS is checked here as well.
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
