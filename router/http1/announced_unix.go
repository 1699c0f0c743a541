//go:build unix && (!linux || race)

package http1

import (
	"errors"
	"syscall"
)

// The race detector takes what is read for a consequence of what was written only if it sees the calls.
func read(fd uintptr, p []byte) (int, syscall.Errno)  { return call(syscall.Read, fd, p) }
func write(fd uintptr, p []byte) (int, syscall.Errno) { return call(syscall.Write, fd, p) }

func call(f func(fd int, p []byte) (int, error), fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, err := f(int(fd), p)
		if !errors.Is(err, syscall.EINTR) {
			var number syscall.Errno
			errors.As(err, &number)
			return n, number
		}
	}
}
