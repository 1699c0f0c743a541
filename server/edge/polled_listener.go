//go:build unix

package edge

import (
	"errors"
	"fmt"
	"net"
	"syscall"

	"github.com/cloudwego/hertz/pkg/common/config"
	"github.com/cloudwego/hertz/pkg/network"
	polling "github.com/cloudwego/hertz/pkg/network/netpoll"
	"github.com/cloudwego/netpoll"
	"golang.org/x/sys/unix"

	"github.com/mnemeproxy/mneme/server/listen"
)

// polledListener is a listener for netpoll, which reads sockets itself and so cannot speak TLS. netpoll's own listener
// closes its file twice; the second close can hit another file that has got the same number in the meantime: a client's
// connection or a file of the store.
type polledListener struct {
	*listener
	socket syscall.RawConn // stays open while in use
	fd     int
}

// keepAlive is how many seconds a connection is silent before the kernel probes the client's machine.
const keepAlive = 60

// canPoll reports whether this system has netpoll.
const canPoll = true

// poll hands the listener over to netpoll.
func (l *listener) poll() (*polledListener, error) {
	inner := listen.Unwrap(l.Listener)
	file, ok := inner.(syscall.Conn)
	if !ok {
		return nil, fmt.Errorf("a listener of type %T has no file", inner)
	}
	socket, err := file.SyscallConn()
	if err != nil {
		return nil, err
	}
	p := &polledListener{listener: l, socket: socket}
	return p, socket.Control(func(fd uintptr) { p.fd = int(fd) })
}

// Fd is called by netpoll's event loop when it starts to serve the listener, under the lock that a shutdown takes.
func (p *polledListener) Fd() int {
	p.serving()
	return p.fd
}

// Accept returns nil if no connection is waiting.
func (p *polledListener) Accept() (net.Conn, error) {
	var (
		fd     int
		from   unix.Sockaddr
		failed error
	)
	err := p.socket.Control(func(listening uintptr) {
		if fd, from, failed = unix.Accept(int(listening)); failed == nil {
			p.coming.Add(1)
		}
	})
	if err != nil {
		return nil, err
	}
	switch {
	case errors.Is(failed, unix.EAGAIN), errors.Is(failed, unix.ECONNABORTED), errors.Is(failed, unix.EINTR):
		return nil, nil //nolint:nilnil // as netpoll wants it
	case failed != nil:
		return nil, failed
	}
	unix.CloseOnExec(fd)
	if p.address.Network == "tcp" { // if the connection is already gone, reading it will tell
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_NODELAY, 1)
		_ = netpoll.SetKeepAlive(fd, keepAlive)
	}
	return &accepted{fd: fd, local: p.Addr(), remote: addressOf(from)}, nil
}

// accepted is a connection for netpoll, which uses only these methods.
type accepted struct {
	net.Conn // nil
	fd       int
	local    net.Addr
	remote   net.Addr
}

func (a *accepted) Fd() int { return a.fd }

// newPollingTransporter serves listeners that were handed to netpoll.
func newPollingTransporter(o *config.Options) network.Transporter { return polling.NewTransporter(o) }

// closeWritePolled ends our side of a connection that netpoll serves.
func closeWritePolled(conn network.Conn) {
	if polled, ok := conn.(*polling.Conn); ok {
		if file, ok := polled.Conn.(interface{ Fd() int }); ok {
			_ = unix.Shutdown(file.Fd(), unix.SHUT_WR)
		}
	}
}

func (a *accepted) LocalAddr() net.Addr { return a.local }

func (a *accepted) RemoteAddr() net.Addr { return a.remote }

func addressOf(client unix.Sockaddr) net.Addr {
	switch a := client.(type) {
	case *unix.SockaddrInet4:
		return &net.TCPAddr{IP: a.Addr[:], Port: a.Port}
	case *unix.SockaddrInet6:
		return &net.TCPAddr{IP: a.Addr[:], Port: a.Port}
	default:
		return &net.UnixAddr{Net: "unix"}
	}
}
