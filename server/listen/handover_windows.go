package listen

import (
	"errors"
	"net"
)

// Handover has no sockets on Windows, where a process cannot become another program.
type Handover struct{}

// Keep fails.
func (*Handover) Keep(net.Listener, Address) error { return errors.ErrUnsupported }

// Environment fails.
func (*Handover) Environment() (string, error) { return "", errors.ErrUnsupported }
