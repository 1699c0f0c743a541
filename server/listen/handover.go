//go:build unix

package listen

import (
	"fmt"
	"net"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// Handover keeps listening sockets open for the program that replaces this one. Clients that connect meanwhile wait in
// the sockets' queues. The zero value has none.
type Handover struct{ sockets []handed }

type handed struct {
	fd      int // a copy of the listener's
	address string
}

// Keep adds a socket, which stays open when its listener is closed.
func (h *Handover) Keep(listener net.Listener, address Address) error {
	file, ok := Unwrap(listener).(syscall.Conn)
	if !ok {
		return fmt.Errorf("a listener of type %T has no file", listener)
	}
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	var kept int
	var failed error
	if err := raw.Control(func(fd uintptr) { kept, failed = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0) }); err != nil {
		return err
	}
	if failed != nil {
		return fmt.Errorf("keep the socket of %s open: %w", address, failed)
	}
	if s, ok := listener.(*socket); ok {
		s.stays.Store(true)
	}
	h.sockets = append(h.sockets, handed{kept, address.String()})
	return nil
}

// Environment returns the variable that passes the sockets to the program that this process becomes, see [EnvSockets].
func (h *Handover) Environment() (variable string, err error) {
	var lines []string
	for _, s := range h.sockets {
		if _, err := unix.FcntlInt(uintptr(s.fd), unix.F_SETFD, 0); err != nil {
			return "", fmt.Errorf("hand over the socket of %s: %w", s.address, err)
		}
		lines = append(lines, fmt.Sprintf("%d=%s", s.fd, s.address))
	}
	return EnvSockets + "=" + strings.Join(lines, "\n"), nil
}
