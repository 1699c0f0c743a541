//go:build unix

package http1

import (
	"errors"
	"io"
	"os"
	"syscall"
)

// nonblocking is the current system call. It belongs to a wire because a closure per call would be garbage.
type nonblocking struct {
	p           []byte
	n           int
	err         error
	read, write func(fd uintptr) bool
}

// readNow reads what has arrived. The error is a timeout if nothing has.
func (w *wire) readNow(p []byte) (int, error) {
	if w.raw == nil {
		return 0, os.ErrDeadlineExceeded
	}
	c := &w.now
	if c.read == nil {
		c.read = func(fd uintptr) bool { c.n, c.err = syscall.Read(int(fd), c.p); return true }
	}
	c.p = p
	err := w.raw.Read(c.read)
	c.p = nil
	switch {
	case err != nil:
		return 0, err
	case errors.Is(c.err, syscall.EAGAIN):
		return 0, os.ErrDeadlineExceeded
	case c.err != nil:
		return 0, c.err
	case c.n == 0:
		return 0, io.EOF
	default:
		return c.n, nil
	}
}

// writeNow writes p if the socket accepts it at once.
func (w *wire) writeNow(p []byte) bool {
	if w.raw == nil {
		return false
	}
	c := &w.now
	if c.write == nil {
		c.write = func(fd uintptr) bool { c.n, c.err = syscall.Write(int(fd), c.p); return true }
	}
	c.p = p
	err := w.raw.Write(c.write)
	c.p = nil
	return err == nil && c.err == nil && c.n == len(p)
}
