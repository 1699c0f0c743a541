package http1

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"
)

// conn is a connection on which one request is served at a time.
type conn struct {
	client *Client
	stream net.Conn // what is read and written: the socket, or TLS over it
	wire   *wire    // between TLS and the socket; nil: plain
	socket net.Conn
	abort  func()    // closes the socket; made once, because every request hands it to its context
	since  time.Time // idle since

	plain    int64          // bytes that have left without TLS
	before   int64          // bytes that had left before the newest request
	writing  chan time.Time // gets when a body that is sent beside has left, zero if it has not; nil when none is
	answered time.Time      // when the head of the answer was there; set only beside such a body

	raw   syscall.RawConn       // the socket's; nil where it has none
	peek  func(fd uintptr) bool // look, made once
	alive bool                  // what the newest look found
}

// dial opens a connection. It ends early with ctx, and by the cutoff.
func (c *Client) dial(ctx context.Context, cutoff *Cutoff) (*conn, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	if !cutoff.Guard(stop) {
		return nil, net.ErrClosed
	}
	defer cutoff.Release()
	socket, err := c.Dial(ctx, "tcp", c.Address)
	if err != nil {
		return nil, err
	}
	opened := &conn{client: c, stream: socket, socket: socket, abort: func() { _ = socket.Close() }}
	opened.peek = opened.look
	if s, ok := socket.(syscall.Conn); ok {
		opened.raw, _ = s.SyscallConn()
	}
	if c.TLS == nil {
		return opened, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.TLSHandshake)
	defer cancel()
	opened.wire = newWire(socket, opened.raw)
	secured := tls.Client(opened.wire, c.TLS)
	if err := secured.HandshakeContext(ctx); err != nil {
		_ = socket.Close()
		return nil, err
	}
	opened.stream = secured
	return opened, nil
}

// close closes the socket without the farewell of TLS, which would wait for the other end, and waits until nothing is sent
// any more.
func (c *conn) close() {
	_ = c.socket.Close()
	if c.writing != nil {
		<-c.writing
		c.writing = nil
	}
}

// quiet reports whether the connection is open and the other end has sent nothing that has not been read: bytes that
// would be taken for the next answer. It does not wait. Of a connection that is no socket, as tests have them, it knows
// only what TLS holds.
func (c *conn) quiet() bool {
	if c.wire != nil {
		return c.wire.quiet(c.stream)
	}
	return c.raw == nil || c.raw.Read(c.peek) == nil && c.alive
}

func (c *conn) look(fd uintptr) bool {
	c.alive = silent(fd)
	return true
}

// errUnsent is why nothing of a request has left.
var errUnsent = errors.New("http1: the connection had ended before the request")

// inlineBody is how much of a body is copied after the head and leaves with it in one write, by the caller's goroutine. The
// buffers of the two kernels hold that much in any case. What a body has beyond is sent beside, because the other end may
// answer and read no further.
const inlineBody = 32 << 10

// outputs are buffers for the heads of requests.
var outputs = sync.Pool{New: func() any { return new([]byte) }}

// send sends a request, or begins to. After errUnsent the other end has got none of it.
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

// left is how many bytes have left for the other end. With TLS that is more than was written, and can be a part of what
// TLS says was not.
func (c *conn) left() int64 {
	if c.wire != nil {
		return c.wire.written
	}
	return c.plain
}

// unread reports whether the other end had ended the connection before it got a byte of the newest request. err is how the
// connection ended. An end that the other end announces acknowledges all that it has got until then, so that what was not
// acknowledged cannot have been read. A reset announces nothing: what it says it has got is passed over by the kernel.
func (c *conn) unread(err error) bool {
	if err != io.EOF || c.raw == nil { //nolint:errorlint // connections return it as it is
		return false
	}
	bytes, ok := acknowledged(c.raw)
	return ok && bytes <= c.before
}

// headCame notes when the answer began, for sent.
func (c *conn) headCame() {
	if c.writing != nil {
		c.answered = time.Now()
	}
}

// sent reports whether the request had left whole when its answer began. Otherwise the answer is an early one, and the
// other end may take what is left of the body for its next request: for one that the author of the body has made up, and
// whose answer would be another's. The peer normally answers when it has read the whole body, and what can be missing is
// that the goroutine has come to say so: it is given lastWrite for that.
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

// Heads are read into buffers of their own, so that a body can be read into the caller's. Those of real providers fit
// into one.
const headBuffer = 4 << 10

var inputs = sync.Pool{New: func() any { b := make([]byte, headBuffer); return &b }}

// receive reads the head of the answer, and passes over interim ones. limit bounds all of them together. An error for which
// isCut holds means that not a byte of an answer has come.
func (c *conn) receive(r *Response, limit int) error {
	input := inputs.Get().(*[]byte)
	defer func() {
		if r.body.rest == nil { // else the body gives it back
			inputs.Put(input)
		}
	}()
	buffer := *input
	got, seen := 0, 0 // bytes in the buffer, and of whole lines looked at
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
