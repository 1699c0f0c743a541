package http1

import (
	"errors"
	"net"
	"os"
)

// wire is the socket below TLS. TLS reads ahead: bytes that the peer sends after an answer can be in its buffers,
// decrypted or not, while the socket is empty. A wire can report all of it without waiting.
//
// It belongs to the goroutine that owns the connection, except for TLS's writes while a body is sent concurrently.
type wire struct {
	*socket
	records Records // as received
	written int64   // bytes sent

	// Reads and writes do not wait.
	polling bool
	failed  bool // such a write failed
}

// quiet reports whether the peer has sent nothing that over, the TLS connection on w, has not yet delivered. Messages
// of TLS itself, session tickets and new keys, do not count and are processed on the way. A partial record counts,
// because it can become data.
//
// Read timeouts leave a TLS connection usable (crypto/tls: Conn.readFromUntil keeps what it has read, and
// readRecordOrCCS no error that is temporary).
func (w *wire) quiet(over net.Conn) bool {
	w.polling = true
	n, err := over.Read(w.surplus[:])
	w.polling = false
	return n == 0 && errors.Is(err, os.ErrDeadlineExceeded) && w.records.Whole() && !w.failed
}

func (w *wire) Read(p []byte) (n int, err error) {
	if w.polling {
		n, err = w.readNow(p) // a timeout means that there is nothing
	} else {
		n, err = w.socket.Read(p)
	}
	w.records.Pass(p[:n])
	return n, err
}

// Write is called only by TLS, one call at a time.
func (w *wire) Write(p []byte) (n int, err error) {
	if !w.polling {
		n, err = w.socket.Write(p)
		w.written += int64(max(n, 0))
		return n, err
	}
	// The peer's new keys may have to be answered with ours while the socket is full.
	if w.writeNow(p) {
		w.written += int64(len(p))
		return len(p), nil
	}
	w.failed = true
	return 0, os.ErrDeadlineExceeded
}

// Records tracks TLS records by their headers (RFC 8446, section 5.1). Its zero value is at the first record.
type Records struct {
	header int // bytes of the next header
	size   int // as far as the header has arrived
	left   int // bytes of the record itself
}

const recordHeader = 5

// Pass consumes bytes as they arrive.
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

// Whole reports whether the last record is complete.
func (r *Records) Whole() bool { return r.header == 0 && r.left == 0 }
