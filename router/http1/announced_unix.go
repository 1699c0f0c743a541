//go:build unix && (!linux || race)

package http1

import "syscall"

// The race detector takes what is read for a consequence of what was written only if it sees the calls.
func read(fd uintptr, p []byte) (int, syscall.Errno)  { return call(syscall.Read, fd, p) }
func write(fd uintptr, p []byte) (int, syscall.Errno) { return call(syscall.Write, fd, p) }

func call(f func(fd int, p []byte) (int, error), fd uintptr, p []byte) (int, syscall.Errno) {
	for {
		n, err := f(int(fd), p)
		number, _ := err.(syscall.Errno) //nolint:errorlint // the calls return it as it is, and errors.As allocates for each event
		if number != syscall.EINTR {
			return n, number
		}
	}
}
