//go:build !linux

package http1

import "syscall"

// acknowledged is known on Linux only.
func acknowledged(syscall.RawConn) (bytes int64, ok bool) { return 0, false }
