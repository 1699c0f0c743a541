//go:build unix

package http1

import "syscall"

// silent reports whether a socket is open and has nothing to read. It does not wait.
func silent(fd uintptr) bool {
	var b [1]byte
	_, err := syscall.Read(int(fd), b[:])
	return err == syscall.EAGAIN
}
