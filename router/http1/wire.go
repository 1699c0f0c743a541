package http1

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
)

// wire is the socket below TLS. TLS reads ahead: what the other end sends behind an answer can lie in its buffers,
// decrypted or not, when the socket is empty. A wire can be asked for all of it without waiting.
//
// It belongs to the goroutine that owns the connection, but for what TLS writes while a body is sent beside.
type wire struct {
	net.Conn
	raw     syscall.RawConn // nil where the connection has none
	records records         // as they have come
	written int64           // bytes that have left

	// Reads and writes take what the socket gives and takes at once.
	polling bool
	failed  bool // a write that could not be done so

	// Of the system call under way. They are fields because closures made for each call would be garbage.
	p           []byte
	n           int
	err         error
	read, write func(fd uintptr) bool

	surplus [1]byte
}

func newWire(socket net.Conn, raw syscall.RawConn) *wire {
	w := &wire{Conn: socket, raw: raw}
	w.read = func(fd uintptr) bool { w.n, w.err = syscall.Read(int(fd), w.p); return true }
	w.write = func(fd uintptr) bool { w.n, w.err = syscall.Write(int(fd), w.p); return true }
	return w
}

// quiet reports whether the other end has sent nothing that over, which is TLS on w, has not given to its reader. Messages
// of TLS itself are no surplus and are dealt with on the way: session tickets, new keys. A part of a record is none yet, but
// can become one.
//
// Timeouts of reads leave a TLS connection as it is (crypto/tls: Conn.readFromUntil keeps what it has read, and
// readRecordOrCCS no error that is temporary).
func (w *wire) quiet(over net.Conn) bool {
	w.polling = true
	n, err := over.Read(w.surplus[:])
	w.polling = false
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && w.records.whole() && !w.failed
}

func (w *wire) Read(p []byte) (n int, err error) {
	if w.polling {
		n, err = w.poll(p)
	} else {
		n, err = w.Conn.Read(p)
	}
	w.records.pass(p[:n])
	return n, err
}

// poll reads what is there. A timeout says that it is nothing.
func (w *wire) poll(p []byte) (int, error) {
	if w.raw == nil {
		return 0, os.ErrDeadlineExceeded
	}
	switch err := w.call(w.raw.Read, w.read, p); {
	case err == syscall.EAGAIN: //nolint:errorlint // as the system gives it
		return 0, os.ErrDeadlineExceeded
	case err != nil:
		return 0, err
	case w.n == 0:
		return 0, io.EOF
	default:
		return w.n, nil
	}
}

// Write is called by TLS alone, one call at a time.
func (w *wire) Write(p []byte) (n int, err error) {
	if !w.polling {
		n, err = w.Conn.Write(p)
		w.written += int64(max(n, 0))
		return n, err
	}
	// New keys of the other end may have to be answered with some of ours, and the socket be full.
	if w.raw != nil && w.call(w.raw.Write, w.write, p) == nil && w.n == len(p) {
		return w.n, nil
	}
	w.failed = true
	return 0, os.ErrDeadlineExceeded
}

func (w *wire) call(on func(func(fd uintptr) bool) error, with func(fd uintptr) bool, p []byte) error {
	w.p = p
	err := on(with)
	w.p = nil
	if err != nil {
		return err
	}
	return w.err
}

// records follows the records of TLS by their headers (RFC 8446, section 5.1).
type records struct {
	header int // bytes of the next header
	size   int // as far as the header says it
	left   int // bytes of the record itself
}

const recordHeader = 5

// pass takes bytes as they come.
func (r *records) pass(p []byte) {
	for len(p) > 0 {
		if r.left > 0 {
			n := min(r.left, len(p))
			r.left -= n
			p = p[n:]
			continue
		}
		if r.header++; r.header > 3 { // behind the type and the version
			r.size = r.size<<8 | int(p[0])
		}
		if r.header == recordHeader {
			r.left, r.header, r.size = r.size, 0, 0
		}
		p = p[1:]
	}
}

// whole reports whether the last record has come to its end.
func (r *records) whole() bool { return r.header == 0 && r.left == 0 }
