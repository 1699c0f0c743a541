package http1

import (
	"io"
	"net"
)

// body tracks how much of an answer's body is still to come.
type body struct {
	rest     []byte  // was read with the head
	input    *[]byte // holds rest
	left     int64   // bytes; -1: chunks or the end of the connection delimit it
	chunked  bool
	chunks   chunks
	reusable bool  // another request may follow once the body has been read
	err      error // sticky
}

// begin is called with what has been read after the head, in a buffer that is released once it is consumed.
func (b *body) begin(r *Response, rest []byte, input *[]byte) {
	b.left = r.Length
	if b.left == 0 {
		b.err = io.EOF
	}
	if b.left >= 0 && int64(len(rest)) > b.left { // unexpected bytes
		rest = rest[:b.left]
		b.reusable = false
	}
	if len(rest) > 0 {
		b.rest, b.input = rest, input
	}
}

func (b *body) fail(err error) {
	if b.err == nil {
		b.err = err
	}
	b.release()
}

func (b *body) release() {
	if b.input != nil {
		inputs.Put(b.input)
		b.rest, b.input = nil, nil
	}
}

func (b *body) failure() error {
	if b.err == nil {
		return net.ErrClosed
	}
	return b.err
}

// arrived takes note of the n bytes that fill has read into p, and perhaps an error, and returns how many bytes of the
// body are left in it without framing.
func (b *body) arrived(p []byte, n int, err error) int {
	switch {
	case b.chunked:
		n = b.unchunk(p[:n])
	case b.left >= 0:
		if b.left -= int64(n); b.left == 0 {
			b.err = io.EOF
		}
	case err == io.EOF: //nolint:errorlint // connections return it as it is
		b.err = io.EOF
	}
	if err != nil && b.err == nil {
		if b.err = err; err == io.EOF { //nolint:errorlint // as above
			b.err = io.ErrUnexpectedEOF
		}
	}
	if b.err != nil {
		b.release()
	}
	return n
}

// fill reads bytes from the connection, none of them from after a body of known length.
func (b *body) fill(c *conn, p []byte) (int, error) {
	if b.left >= 0 && int64(len(p)) > b.left {
		p = p[:b.left]
	}
	if len(b.rest) == 0 {
		return c.stream.Read(p)
	}
	n := copy(p, b.rest)
	if b.rest = b.rest[n:]; len(b.rest) == 0 {
		b.release()
	}
	return n, nil
}

// unchunk removes the framing from p, in place, and returns how many bytes of the body are left in it.
func (b *body) unchunk(p []byte) int {
	n, used, err := b.chunks.strip(p)
	b.err = err
	if used < len(p) || err == io.EOF && len(b.rest) > 0 { //nolint:errorlint // our own value
		b.reusable = false // unexpected bytes
	}
	return n
}
