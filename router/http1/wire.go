package http1

import (
	"errors"
	"net"
	"os"
	"syscall"
)

// wire is the socket below TLS. TLS reads ahead: what the other end sends after an answer can lie in its buffers,
// decrypted or not, when the socket is empty. A wire can be asked for all of it without waiting.
//
// It belongs to the goroutine that owns the connection, but for what TLS writes while a body is sent beside.
type wire struct {
	net.Conn
	raw     syscall.RawConn // nil where the connection has none
	records Records         // as they have come
	written int64           // bytes that have left

	// Reads and writes take what the socket gives and takes at once.
	polling bool
	failed  bool // a write that could not be done so

	surplus [1]byte
	now     nonblocking
}

func newWire(socket net.Conn, raw syscall.RawConn) *wire { return &wire{Conn: socket, raw: raw} }

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
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && w.records.Whole() && !w.failed
}

func (w *wire) Read(p []byte) (n int, err error) {
	if w.polling {
		n, err = w.readNow(p) // a timeout says that there is nothing
	} else {
		n, err = w.Conn.Read(p)
	}
	w.records.Pass(p[:n])
	return n, err
}

// Write is called by TLS alone, one call at a time.
func (w *wire) Write(p []byte) (n int, err error) {
	if !w.polling {
		n, err = w.Conn.Write(p)
		w.written += int64(max(n, 0))
		return n, err
	}
	// New keys of the other end may have to be answered with some of ours, and the socket be full.
	if w.writeNow(p) {
		w.written += int64(len(p))
		return len(p), nil
	}
	w.failed = true
	return 0, os.ErrDeadlineExceeded
}

// Records follows the records of TLS by their headers (RFC 8446, section 5.1). Its zero value stands before the first.
type Records struct {
	header int // bytes of the next header
	size   int // as far as the header says it
	left   int // bytes of the record itself
}

const recordHeader = 5

// Pass takes bytes as they come.
func (r *Records) Pass(p []byte) {
	for len(p) > 0 {
		if r.left > 0 {
			n := min(r.left, len(p))
			r.left -= n
			p = p[n:]
			continue
		}
		if r.header++; r.header > 3 { // after the type and the version
			r.size = r.size<<8 | int(p[0])
		}
		if r.header == recordHeader {
			r.left, r.header, r.size = r.size, 0, 0
		}
		p = p[1:]
	}
}

// Whole reports whether the last record has come to its end.
func (r *Records) Whole() bool { return r.header == 0 && r.left == 0 }
