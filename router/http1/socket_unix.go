//go:build unix

package http1

import (
	"io"
	"net"
	"os"
	"syscall"
)

// socket is the connection below TLS, or a plain one. Besides reading and writing as any connection does, it reads and
// writes without waiting. It belongs to the goroutine that owns the connection, except for Close and for writes while a
// body is sent concurrently.
type socket struct {
	net.Conn
	raw     syscall.RawConn // nil where the connection has none, as in tests
	plain   bool            // Conn is nothing but the socket, so that its methods can be passed over
	in, out transfer
	surplus [1]byte // that a look finds
}

// transfer is the current system call. It is kept, with its function, because a closure per call would be garbage.
type transfer struct {
	p    []byte
	wait bool // until something can be transferred
	n    int
	err  syscall.Errno
	call func(fd uintptr) bool
}

func newSocket(c net.Conn) *socket {
	s := &socket{Conn: c}
	if with, ok := c.(syscall.Conn); ok {
		s.raw, _ = with.SyscallConn()
	}
	_, tcp := c.(*net.TCPConn)
	s.plain = tcp && s.raw != nil
	s.in.call, s.out.call = s.receive, s.send
	return s
}

func (s *socket) Read(p []byte) (int, error) {
	if !s.plain || len(p) == 0 {
		return s.Conn.Read(p)
	}
	return s.read(p, true)
}

// readNow reads what has arrived. The error is a timeout if nothing has.
func (s *socket) readNow(p []byte) (int, error) {
	if s.raw == nil {
		return 0, os.ErrDeadlineExceeded
	}
	return s.read(p, false)
}

func (s *socket) read(p []byte, wait bool) (int, error) {
	t := &s.in
	t.p, t.wait = p, wait
	err := s.raw.Read(t.call)
	t.p = nil
	switch {
	case err != nil:
		return 0, err
	case t.err == syscall.EAGAIN:
		return 0, os.ErrDeadlineExceeded
	case t.err != 0:
		return 0, os.NewSyscallError("read", t.err)
	case t.n == 0:
		return 0, io.EOF
	default:
		return t.n, nil
	}
}

func (s *socket) receive(fd uintptr) (done bool) {
	t := &s.in
	t.n, t.err = read(fd, t.p)
	return t.err != syscall.EAGAIN || !t.wait
}

// mostUnannounced is the longest write that is not announced to the scheduler (see unannounced_linux.go): the kernel
// needs some 10 µs for it.
const mostUnannounced = 64 << 10

func (s *socket) Write(p []byte) (int, error) {
	if !s.plain || len(p) > mostUnannounced {
		return s.Conn.Write(p)
	}
	return s.write(p, true)
}

// writeNow writes p if the socket accepts all of it at once.
func (s *socket) writeNow(p []byte) bool {
	if s.raw == nil {
		return false
	}
	n, err := s.write(p, false)
	return err == nil && n == len(p)
}

func (s *socket) write(p []byte, wait bool) (int, error) {
	t := &s.out
	t.p, t.wait, t.n = p, wait, 0
	err := s.raw.Write(t.call)
	t.p = nil
	if err == nil && t.err != 0 && t.err != syscall.EAGAIN {
		err = os.NewSyscallError("write", t.err)
	}
	return t.n, err
}

func (s *socket) send(fd uintptr) (done bool) {
	t := &s.out
	for t.n < len(t.p) {
		var n int
		if n, t.err = write(fd, t.p[t.n:]); t.err != 0 {
			return t.err != syscall.EAGAIN || !t.wait
		}
		t.n += n
	}
	t.err = 0
	return true
}

// silent reports whether the socket is open and has nothing to read.
func (s *socket) silent() bool {
	_, err := s.readNow(s.surplus[:])
	return err == os.ErrDeadlineExceeded //nolint:errorlint // of readNow
}
