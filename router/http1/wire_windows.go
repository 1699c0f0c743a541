package http1

import "os"

type nonblocking struct{}

// readNow reads what has arrived. The error is a timeout if nothing has.
func (w *wire) readNow(p []byte) (int, error) {
	nothing := true
	if w.raw != nil && w.raw.Control(func(fd uintptr) { nothing = silent(fd) }) != nil || nothing {
		return 0, os.ErrDeadlineExceeded
	}
	return w.Conn.Read(p)
}

// writeNow never writes: Go's sockets block on Windows.
func (*wire) writeNow([]byte) bool { return false }
