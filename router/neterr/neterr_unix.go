//go:build unix

package neterr

import "syscall"

const (
	Refused = syscall.ECONNREFUSED // nothing listens there
	Reset   = syscall.ECONNRESET   // the peer reset the connection
	Broken  = syscall.EPIPE        // a write after that
	InUse   = syscall.EADDRINUSE   // the address is in use
)
