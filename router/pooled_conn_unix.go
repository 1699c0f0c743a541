//go:build unix

package router

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/mnemeproxy/mneme/router/http1"
)

// A pooledConn is a connection in net/http's pool. net/http returns a connection to the pool before it checks for bytes
// after the answer, so the next request can overtake that check and get those bytes as its answer. A pooledConn knows
// whether net/http has read everything and waits for more.
type pooledConn struct {
	net.Conn
	raw    syscall.RawConn
	secure bool // TLS is used on it, after the handshake with a proxy if there is one

	mu      sync.Mutex
	waiting bool // the newest read has found nothing and is still waiting
	ended   bool
	stream  tlsStream

	// Of the current read; there is one at a time.
	p    []byte
	n    int
	err  error
	read func(fd uintptr) bool
}

// pooledConnOf returns socket itself if that is not a socket.
func pooledConnOf(socket net.Conn, secure bool) net.Conn {
	with, ok := socket.(syscall.Conn)
	if !ok {
		return socket
	}
	raw, err := with.SyscallConn()
	if err != nil {
		return socket
	}
	c := &pooledConn{Conn: socket, raw: raw, secure: secure}
	c.read = func(fd uintptr) bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.n, c.err = syscall.Read(int(fd), c.p)
		c.waiting = errors.Is(c.err, syscall.EAGAIN)
		return !c.waiting
	}
	return c
}

func (c *pooledConn) Read(p []byte) (int, error) {
	if len(p) == 0 {
		return 0, nil
	}
	c.p = p
	err := c.raw.Read(c.read)
	c.p = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = false
	switch {
	case err != nil:
	case c.err != nil:
		err = &net.OpError{Op: "read", Net: "tcp", Addr: c.RemoteAddr(), Err: os.NewSyscallError("read", c.err)}
	case c.n == 0:
		err = io.EOF
	default:
		if c.secure {
			c.stream.pass(p[:c.n])
		}
		return c.n, nil
	}
	c.ended = true
	return 0, err
}

func (c *pooledConn) Close() error {
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	return c.Conn.Close()
}

// quiet reports whether net/http has read everything that has arrived, and waits: then its own and TLS's buffers are
// empty, since it would have read those first. The socket must be empty too, and no TLS record incomplete.
func (c *pooledConn) quiet() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.waiting || c.ended || !c.stream.whole() {
		return false
	}
	empty := false
	err := c.raw.Control(func(fd uintptr) {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		empty = errors.Is(err, syscall.EAGAIN)
	})
	return err == nil && empty
}

func (c *pooledConn) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ended
}

// Between the end of an answer and net/http's next read there is only the scheduler's delay.
const (
	lookEvery = 20 * time.Microsecond
	lookFor   = time.Second
)

// usable reports whether a request may follow on a pooled connection, and closes it otherwise.
func usable(conn net.Conn) bool {
	c := underneath(conn)
	if c == nil {
		_ = conn.Close()
		return false
	}
	for end := time.Now().Add(lookFor); !c.quiet(); time.Sleep(lookEvery) {
		if c.over() || time.Now().After(end) {
			_ = c.Close()
			return false
		}
	}
	return true
}

// underneath returns the pooledConn below TLS, also that of a proxy; nil if there is none.
func underneath(conn net.Conn) *pooledConn {
	for {
		switch c := conn.(type) {
		case *pooledConn:
			return c
		case *tls.Conn:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}

// tlsStream tracks TLS records, after the answer of a proxy to CONNECT.
type tlsStream struct {
	begun    bool
	greeting bool   // the answer of a proxy
	newest   uint32 // the last four bytes of it
	opaque   bool   // something of unknown length comes first
	records  http1.Records
}

func (s *tlsStream) pass(p []byte) {
	if !s.begun {
		const alert, handshake = 21, 22
		s.begun, s.greeting = true, p[0] == 'H'
		s.opaque = !s.greeting && p[0] != alert && p[0] != handshake
	}
	for s.greeting && len(p) > 0 {
		s.newest = s.newest<<8 | uint32(p[0])
		p = p[1:]
		s.greeting = s.newest != '\r'<<24|'\n'<<16|'\r'<<8|'\n'
	}
	if !s.opaque {
		s.records.Pass(p)
	}
}

func (s *tlsStream) whole() bool { return !s.greeting && s.records.Whole() }
