package edge

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// body is the body of a request. Nothing of it is read before the handler asks: a request that is refused at its head
// costs no more than that.
type body struct {
	conn     *connection
	length   int64 // as announced; -1: unknown, it comes in chunks
	left     int64 // unread bytes, in chunks those of the current one
	received int64
	inChunk  bool         // the end of a chunk is due
	expected bool         // the client waits to be told to send it
	err      error        // how reading has ended, io.EOF at the end; nil before
	status   int          // of the answer to a body that cannot be read; 0: as its handler says
	content  []byte       // read by [Request.ReadBody]
	charged  *chargedBody // for a net/http handler; nil: for another one
}

// chunkedLength is the length of a body in chunks, also in hertz.
const chunkedLength = -1

// hide takes the body of a request whose head has been parsed away from hertz, which sees one without a body.
func (b *body) hide(c *connection) {
	head := &c.rc.Request.Header
	*b = body{conn: c, length: int64(head.ContentLength())}
	if b.length < chunkedLength { // there is none
		b.length = 0
	}
	b.left = max(b.length, 0)
	if b.length == 0 {
		b.err = io.EOF
	} else if bytes.EqualFold(head.Peek("Expect"), []byte("100-continue")) {
		b.expected = true
	}
	head.SetContentLength(0)
	if b.expected {
		head.DelBytes([]byte("Expect"))
	}
}

// Read reads the content of the body.
func (b *body) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if len(p) == 0 {
		return 0, nil
	}
	b.invite()
	if b.left == 0 { // there is a chunk to come
		if err := b.nextChunk(); err != nil {
			return 0, b.end(err)
		}
	}
	if b.conn.Len() == 0 {
		b.conn.limitTime()
	}
	n, err := b.conn.wire.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	b.received += int64(n)
	if err == nil && b.left == 0 && b.length != chunkedLength {
		_ = b.end(io.EOF) // the next call reports it
	}
	if err != nil {
		err = b.end(err)
	}
	return n, err
}

// invite tells a client that waits for it to send the body.
func (b *body) invite() {
	if b.expected && !b.conn.buffered {
		b.expected = false
		_, _ = b.conn.wire.WriteBinary(continueLine)
		_ = b.conn.wire.Flush()
	}
}

var continueLine = []byte("HTTP/1.1 100 Continue\r\n\r\n")

// end ends reading with an error, and returns the one for the handler.
func (b *body) end(err error) error {
	var timeout net.Error
	var known *codec.Error
	switch {
	case errors.Is(err, io.EOF):
		if b.err == nil && b.left > 0 {
			err = io.ErrUnexpectedEOF
		} else {
			b.conn.arrived()
		}
	case errors.Is(err, errNotBuffered):
		return err
	case errors.As(err, &timeout) && timeout.Timeout():
		b.status = http.StatusRequestTimeout
		err = b.conn.tooSlow()
	case errors.As(err, &known) && known != ErrNoMemory:
		if b.status == 0 {
			b.status = http.StatusBadRequest
		}
	}
	b.err = err
	return err
}

// nextChunk reads up to the content of the next chunk. It returns io.EOF behind the last one and the trailers.
func (b *body) nextChunk() error {
	size, err := b.chunkSize()
	if err != nil {
		return err
	}
	if size == 0 {
		if err := b.trailers(); err != nil {
			return err
		}
		return io.EOF
	}
	if limit := b.conn.all.limits.body; size > limit-b.received {
		b.status = http.StatusRequestEntityTooLarge
		return TooLarge(limit)
	}
	b.left, b.inChunk = size, true
	return nil
}

// chunkSize reads the line before a chunk, and the end of the one before. Extensions are refused: none is in use, and
// readers differ in where they end.
func (b *body) chunkSize() (size int64, err error) {
	if b.inChunk {
		if err := b.literal("\r\n"); err != nil {
			return 0, err
		}
		b.inChunk = false
	}
	digits, blanks := 0, 0
	for {
		c, err := b.readByte()
		if err != nil {
			return 0, err
		}
		digit := hexDigit(c)
		switch {
		case digit >= 0 && blanks == 0:
			if digits++; digits > mostDigits {
				return 0, errMalformed
			}
			size = size<<4 | int64(digit)
		case c == ' ' && digits > 0:
			if blanks++; blanks > mostBlanks {
				return 0, errMalformed
			}
		case c == '\r' && digits > 0:
			return size, b.literal("\n")
		default:
			return 0, errMalformed
		}
	}
}

const (
	mostDigits = 15 // of a chunk's size, which then is no more than 60 bits
	mostBlanks = 64 // behind it; some senders pad it
)

func hexDigit(c byte) int {
	switch {
	case '0' <= c && c <= '9':
		return int(c - '0')
	case 'a' <= c && c <= 'f':
		return int(c-'a') + 10
	case 'A' <= c && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

func (b *body) literal(text string) error {
	for i := range len(text) {
		c, err := b.readByte()
		if err != nil {
			return err
		}
		if c != text[i] {
			return errMalformed
		}
	}
	return nil
}

func (b *body) readByte() (byte, error) {
	if b.conn.Len() == 0 {
		b.conn.limitTime()
	}
	c, err := b.conn.wire.ReadByte()
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return c, err
}

// trailers reads and judges the lines behind the last chunk, which nothing here uses.
func (b *body) trailers() error {
	for read := 0; ; {
		line, err := b.line(b.conn.all.limits.head - read)
		if err != nil {
			return err
		}
		if fault := malformedTrailer(line); fault != "" {
			return malformedHead(fault)
		}
		if len(line) == len("\r\n") {
			return b.conn.wire.Skip(len(line))
		}
		read += len(line)
		if err := b.conn.wire.Skip(len(line)); err != nil {
			return err
		}
	}
}

// line waits for a line of at most so many bytes and returns it with its end. It stays unread.
func (b *body) line(most int) ([]byte, error) {
	for seen := 0; ; {
		text, err := b.conn.wire.Peek(b.conn.Len())
		if err != nil {
			return nil, err
		}
		if end := bytes.IndexByte(text[seen:], '\n'); end >= 0 {
			return text[:seen+end+1], nil
		}
		if seen = len(text); seen >= most {
			b.status = http.StatusRequestHeaderFieldsTooLarge
			return nil, errHeadTooLarge
		}
		b.conn.limitTime()
		if _, err := b.conn.wire.Peek(seen + 1); errors.Is(err, io.EOF) {
			return nil, io.ErrUnexpectedEOF
		} else if err != nil {
			return nil, err
		}
	}
}

// skipBuffered discards what has arrived of the body, and reports whether that is the rest of it.
func (b *body) skipBuffered() bool {
	if b.err == nil && !b.expected {
		b.conn.buffered = true
		b.discard()
		b.conn.buffered = false
	}
	return errors.Is(b.err, io.EOF)
}

// skip discards the rest of the body, for which the client has until then.
func (b *body) skip(until time.Time) error {
	b.conn.timed.Store(true)
	_ = b.conn.SetReadDeadline(until)
	b.discard()
	if errors.Is(b.err, io.EOF) {
		return nil
	}
	return b.err
}

// discard reads the body to its end.
func (b *body) discard() {
	piece := newPiece()
	defer pieces.Put(piece)
	for {
		if _, err := b.Read((*piece)[:cap(*piece)]); err != nil {
			return
		}
	}
}

// isShort reports whether so little of the body is left that reading it is cheaper than another connection.
func (b *body) isShort() bool {
	return b.err == nil && !b.expected && b.length != chunkedLength && b.left <= shortRest
}

// shortRest is what net/http reads of a body that its handler has left.
const shortRest = 256 << 10

// ReadBody returns the whole body as it was sent. Its memory is taken from a share before it arrives. It must not be
// changed, and is valid until the handler returns or calls [Request.DropBody].
func (r *Request) ReadBody(s *Share) ([]byte, error) {
	b := &r.conn.body
	if b.content != nil { // a message on a socket
		return b.content, nil
	}
	if b.length > 0 && b.received == 0 && b.length <= int64(b.conn.Len()) {
		b.content = b.conn.lend(int(b.length))
		b.received, b.left = b.length, 0
		_ = b.end(io.EOF)
		return b.content, nil
	}
	var err error
	b.content, err = ReadAll(s, b, b.length, b.conn.all.limits.body)
	return b.content, err
}

// DropBody lets go of the body that ReadBody returned. What still refers to it stays valid.
func (r *Request) DropBody() {
	r.conn.body.content = nil
	r.conn.dropLent()
}

// BodyReader returns the body to read it as it arrives.
func (r *Request) BodyReader() io.Reader { return &r.conn.body }

// Announced returns the length of the body as the head says it, -1 if it comes in chunks.
func (r *Request) Announced() int64 { return r.conn.body.length }

// Received returns how many bytes of the body have been read.
func (r *Request) Received() int64 { return r.conn.body.received }

// ReadAll reads up to the end, and takes the memory for it from a share before the bytes arrive. length is how many there
// are, negative if unknown. More than limit are an error.
//
// A reader gets little memory on its word: the room for what it announces is made when a good part has arrived.
func ReadAll(s *Share, from io.Reader, length, limit int64) ([]byte, error) {
	all, err := grow(s, nil, length, limit)
	for err == nil {
		if len(all) == cap(all) {
			if int64(len(all)) == length {
				return all, nil
			}
			if int64(len(all)) > limit {
				return nil, TooLarge(limit)
			}
			if all, err = grow(s, all, length, limit); err != nil {
				break
			}
		}
		var n int
		n, err = from.Read(all[len(all):cap(all)])
		all = all[:len(all)+n]
	}
	if !errors.Is(err, io.EOF) {
		return nil, err
	}
	if int64(len(all)) > limit {
		return nil, TooLarge(limit)
	}
	return fit(s, all), nil
}

const (
	firstRoom  = 64 << 10 // of a longer body; an eighth if the length is unknown
	roomFactor = 8        // so that little is copied, and little becomes garbage
)

// grow returns a larger buffer with the same bytes. Both are held meanwhile.
func grow(s *Share, full []byte, length, limit int64) ([]byte, error) {
	room := max(int64(cap(full))*roomFactor, firstRoom)
	if full == nil && length < 0 {
		room = firstRoom / roomFactor
	}
	if length >= 0 && (room > length || cap(full) > firstRoom) {
		room = length
	}
	if room > limit {
		room = limit + 1 // so that one byte more is seen
	}
	if err := s.Take(room); err != nil {
		return full, err
	}
	grown := append(make([]byte, 0, room), full...)
	s.Give(int64(cap(full)))
	return grown, nil
}

// fit returns the same bytes in a buffer of their size, if much of the present one is empty.
func fit(s *Share, all []byte) []byte {
	if cap(all) <= firstRoom || cap(all) < 2*len(all) || s.Take(int64(len(all))) != nil {
		return all
	}
	s.Give(int64(cap(all)))
	return append(make([]byte, 0, len(all)), all...)
}
