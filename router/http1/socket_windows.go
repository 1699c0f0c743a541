package http1

import (
	"net"
	"os"
	"syscall"
	"unsafe"

	"golang.org/x/sys/windows"
)

// socket is the connection below TLS, or a plain one.
type socket struct {
	net.Conn
	raw syscall.RawConn // nil where the connection has none, as in tests

	surplus [1]byte // that a look finds
}

func newSocket(c net.Conn) *socket {
	s := &socket{Conn: c}
	if with, ok := c.(syscall.Conn); ok {
		s.raw, _ = with.SyscallConn()
	}
	return s
}

// readNow reads what has arrived. The error is a timeout if nothing has.
func (s *socket) readNow(p []byte) (int, error) {
	if s.silent() {
		return 0, os.ErrDeadlineExceeded
	}
	return s.Conn.Read(p)
}

// writeNow never writes: Go's sockets block on Windows.
func (*socket) writeNow([]byte) bool { return false }

var wsaPoll = windows.NewLazySystemDLL("ws2_32.dll").NewProc("WSAPoll")

// silent reports whether the socket is open and has nothing to read. It does not wait. A read would: Go's sockets block
// on Windows.
func (s *socket) silent() bool {
	const readable = 0x0100 // POLLRDNORM; a close by the peer is always reported
	found := uintptr(0)
	if s.raw != nil && s.raw.Control(func(fd uintptr) {
		look := struct {
			socket        uintptr
			asked, events int16
		}{socket: fd, asked: readable}
		found, _, _ = wsaPoll.Call(uintptr(unsafe.Pointer(&look)), 1, 0)
	}) != nil {
		return false
	}
	return found == 0
}
