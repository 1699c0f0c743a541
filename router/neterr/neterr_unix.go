//go:build unix

package neterr

import "syscall"

const (
	Refused = syscall.ECONNREFUSED // nobody listens there
	Reset   = syscall.ECONNRESET   // the other end gave the connection up
	Broken  = syscall.EPIPE        // written to after that
	InUse   = syscall.EADDRINUSE   // somebody listens there already
)
