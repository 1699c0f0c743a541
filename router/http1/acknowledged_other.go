//go:build !linux

package http1

import "syscall"

// acknowledged works only on Linux.
func acknowledged(syscall.RawConn) (bytes int64, ok bool) { return 0, false }
