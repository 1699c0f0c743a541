package http1

import (
	"context"
	"crypto/tls"
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
	socket net.Conn
	abort  func()    // closes the socket; made once, because every request hands it to its context
	since  time.Time // idle since

	writing chan bool // gets whether a body that is sent beside has left whole; nil when none is

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
	secured := tls.Client(socket, c.TLS)
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

// quiet tells whether an idle connection is open and the other end has said nothing on it: its end, or bytes that would be
// taken for the next answer. It does not wait.
func (c *conn) quiet() bool {
	return c.raw == nil || c.raw.Read(c.peek) == nil && c.alive
}

func (c *conn) look(fd uintptr) bool {
	var b [1]byte
	_, err := syscall.Read(int(fd), b[:])
	c.alive = err == syscall.EAGAIN
	return true
}

// inlineBody is how much of a body is copied behind the head and leaves with it in one write, by the caller's goroutine. The
// buffers of the two kernels hold that much in any case. What a body has beyond is sent beside, because the other end may
// answer and read no further.
const inlineBody = 32 << 10

// outputs are buffers for the heads of requests.
var outputs = sync.Pool{New: func() any { return new([]byte) }}

// send sends a request, or begins to.
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
	if _, err = c.stream.Write(out); err != nil || inline == len(r.Body) {
		return err
	}
	rest, done := r.Body[inline:], make(chan bool, 1)
	c.writing = done
	go func() {
		_, err := c.stream.Write(rest)
		done <- err == nil
	}()
	return nil
}

// sent tells whether the request has left whole. Whoever has answered it has read it, as a rule, and what can be missing is
// only that the goroutine has not come to say so: it is waited for, but not for a network.
func (c *conn) sent() bool {
	if c.writing == nil {
		return true
	}
	select {
	case whole := <-c.writing:
		c.writing = nil
		return whole
	case <-time.After(lastWrite):
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
