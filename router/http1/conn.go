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
)

// conn is a connection on which one request is served at a time.
type conn struct {
	client *Client
	stream net.Conn // what is read and written: the socket, or TLS over it
	wire   *wire    // between TLS and the socket; nil: plain
	socket *socket
	abort  func()    // closes the socket; made once, because every request passes it to its context
	since  time.Time // idle since

	plain    int64          // bytes sent without TLS
	before   int64          // bytes sent before the newest request
	writing  chan time.Time // receives the time at which a body sent concurrently was complete, zero if it failed; nil if there is none
	answered time.Time      // when the head of the answer arrived; set only while such a body is sent
}

// dial opens a connection. It ends early with ctx, and by the cutoff.
func (c *Client) dial(ctx context.Context, cutoff *Cutoff) (*conn, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if !cutoff.Guard(stop) {
		return nil, net.ErrClosed
	}
	defer cutoff.Release()
	dialed, err := c.Dial(ctx, "tcp", c.Address)
	if err != nil {
		return nil, err
	}
	socket := newSocket(dialed)
	opened := &conn{client: c, stream: socket, socket: socket, abort: func() { _ = socket.Close() }}
	if c.TLS == nil {
		return opened, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.TLSHandshake)
	defer cancel()
	opened.wire = &wire{socket: socket}
	secured := tls.Client(opened.wire, c.TLS)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = socket.Close()
		return nil, err
	}
	opened.stream = secured
	return opened, nil
}

// close closes the socket without the close_notify of TLS, which would wait for the peer, and waits until nothing is
// being sent.
func (c *conn) close() {
	_ = c.socket.Close()
	if c.writing != nil {
		<-c.writing
		c.writing = nil
	}
}

// quiet reports whether the connection is open and has no unread bytes, which would be taken for the next answer. It
// does not wait. Of a connection without a socket, as in tests, it knows only what TLS holds.
func (c *conn) quiet() bool {
	if c.wire != nil {
		return c.wire.quiet(c.stream)
	}
	return c.socket.silent()
}

// errUnsent says why nothing of a request was sent.
var errUnsent = errors.New("http1: the connection had ended before the request")

// inlineBody is how much of a body is copied after the head and sent with it in one write, by the caller's goroutine.
// The buffers of the two kernels always hold that much. The rest of a body is sent concurrently, because the peer may
// answer and stop reading.
const inlineBody = 32 << 10

// outputs pools buffers for the heads of requests.
var outputs = sync.Pool{New: func() any { return new([]byte) }}

// send sends a request, or starts to. After errUnsent the peer has got none of it.
func (c *conn) send(host string, r *Request) error {
	buffer := outputs.Get().(*[]byte)
	defer outputs.Put(buffer)
	out, err := appendHead((*buffer)[:0], host, r)
	if err != nil {
		return err
	}
	inline := min(len(r.Body), inlineBody)
	out = append(out, r.Body[:inline]...)
	*buffer = out[:0]
	c.before = c.left()
	err = c.write(out)
	switch {
	case err != nil && c.left() == c.before:
		return fmt.Errorf("%w: %w", errUnsent, err)
	case err != nil || inline == len(r.Body):
		return err
	}
	rest, done := r.Body[inline:], make(chan time.Time, 1)
	c.writing = done
	go func() {
		if err := c.write(rest); err != nil {
			done <- time.Time{}
			return
		}
		done <- time.Now()
	}()
	return nil
}

func (c *conn) write(p []byte) error {
	n, err := c.stream.Write(p)
	if c.wire == nil {
		c.plain += int64(n)
	}
	return err
}

// left returns how many bytes were sent to the peer. With TLS that is more than was written, and can include bytes that
// TLS reports as unwritten.
func (c *conn) left() int64 {
	if c.wire != nil {
		return c.wire.written
	}
	return c.plain
}

// unread reports whether the peer had ended the connection before it got a byte of the newest request. err is how the
// connection ended. A regular end acknowledges everything received before it, so unacknowledged bytes cannot have been
// read. A reset proves nothing: the kernel ignores its acknowledgement.
func (c *conn) unread(err error) bool {
	if err != io.EOF || c.socket.raw == nil { //nolint:errorlint // connections return it as it is
		return false
	}
	bytes, ok := acknowledged(c.socket.raw)
	return ok && bytes <= c.before
}

// headCame records when the answer began, for sent.
func (c *conn) headCame() {
	if c.writing != nil {
		c.answered = time.Now()
	}
}

// sent reports whether the whole request was sent before its answer began. Otherwise the answer is early, and the peer
// may read the rest of the body as its next request: one that the author of the body made up, and whose answer another
// client would get. The peer normally answers after it has read the whole body; the writing goroutine gets lastWrite to
// report completion.
func (c *conn) sent() bool {
	if c.writing == nil {
		return true
	}
	select {
	case at := <-c.writing:
		c.writing = nil
		return !at.IsZero() && at.Sub(c.answered) <= lastWrite
	case <-time.After(time.Until(c.answered.Add(lastWrite))):
		return false
	}
}

const lastWrite = 10 * time.Millisecond

// Heads are read into separate buffers, so that a body can be read into the caller's. Those of real providers fit into
// one.
const headBuffer = 4 << 10

var inputs = sync.Pool{New: func() any { b := make([]byte, headBuffer); return &b }}

// receive reads the head of the answer, and skips interim ones. limit bounds all of them together. If isCut holds for
// the error, not a byte of an answer has arrived.
func (c *conn) receive(r *Response, limit int) error {
	input := inputs.Get().(*[]byte)
	defer func() {
		if r.body.rest == nil { // otherwise the body releases it
			inputs.Put(input)
		}
	}()
	buffer := *input
	got, seen := 0, 0 // bytes in the buffer, and bytes of complete lines examined
	began := false
	for {
		if got == len(buffer) {
			if got >= limit {
				return ErrHeadTooLarge
			}
			buffer = append(buffer, make([]byte, min(got, limit-got))...)
		}
		n, err := c.stream.Read(buffer[got:])
		got += n
		began = began || n > 0
		if !isAnswer(buffer[:got]) {
			return malformed("status line")
		}
		for {
			var end int
			if end, seen = headEnd(buffer[:got], seen); end == 0 {
				break
			}
			interim, malformed := r.readHead(buffer[:end])
			if malformed != nil {
				return malformed
			}
			if !interim {
				r.body.begin(r, buffer[end:got], input)
				return nil
			}
			if limit -= end; limit <= 0 {
				return ErrHeadTooLarge
			}
			got, seen = copy(buffer, buffer[end:got]), 0
		}
		switch {
		case err == nil:
		case began && isCut(err):
			return io.ErrUnexpectedEOF
		default:
			return err
		}
	}
}
