package edge

import (
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// wire buffers what hertz reads from a client's socket and writes to it. It holds memory only while there are unread or
// unsent bytes. What is not read stays in the kernel, so that a client that sends more than is asked for has to wait.
//
// Reading and writing each belong to one goroutine at a time.
type wire struct {
	net.Conn
	memory *Budget

	in       *[]byte // what has been read; nil: nothing
	from     int     // index of its first unread byte
	lent     *[]byte // whose bytes a body is; nil: none
	buffered bool    // nothing more may be read from the socket
	waiting  atomic.Int64

	out     *[]byte // what is to be sent
	tail    []byte  // what is to be sent behind that, in the memory of the caller
	writing atomic.Int64
}

// pieceSize is the size of a pooled buffer: an ordinary request's head and body, or an event. Larger ones are charged.
const pieceSize = 4 << 10

var pieces = sync.Pool{New: func() any {
	piece := make([]byte, 0, pieceSize)
	return &piece
}}

func newPiece() *[]byte {
	piece := pieces.Get().(*[]byte)
	*piece = (*piece)[:0]
	return piece
}

// drop gives a read buffer back.
func (w *wire) drop(buffer *[]byte) {
	switch {
	case buffer == nil:
	case cap(*buffer) == pieceSize:
		pieces.Put(buffer)
	default:
		w.memory.Give(int64(cap(*buffer)))
	}
}

// Len returns the number of unread bytes.
func (w *wire) Len() int {
	if w.in == nil {
		return 0
	}
	return len(*w.in) - w.from
}

// Peek waits for n bytes and returns them. They stay unread.
func (w *wire) Peek(n int) ([]byte, error) {
	for w.Len() < n {
		if err := w.fill(n); err != nil {
			return nil, err
		}
	}
	if n == 0 {
		return nil, nil
	}
	return (*w.in)[w.from : w.from+n], nil
}

// fill reads once, with room for n unread bytes.
func (w *wire) fill(n int) error {
	if w.buffered {
		return errNotBuffered
	}
	if err := w.makeRoom(n); err != nil {
		return err
	}
	had := len(*w.in)
	got, err := w.Conn.Read((*w.in)[had:cap(*w.in)])
	*w.in = (*w.in)[:had+got]
	w.waiting.Store(int64(w.Len()))
	switch {
	case got > 0:
		return nil
	case err == nil:
		return io.ErrNoProgress
	default:
		return err
	}
}

// makeRoom makes room for n unread bytes, and for at least one more than there are.
func (w *wire) makeRoom(n int) error {
	if w.in == nil {
		w.in, w.from = newPiece(), 0
	}
	n = max(n, w.Len()+1)
	if cap(*w.in)-w.from >= n {
		return nil
	}
	if n <= cap(*w.in) {
		*w.in = append((*w.in)[:0], (*w.in)[w.from:]...)
		w.from = 0
		return nil
	}
	room := max(n, 2*cap(*w.in))
	if !w.memory.Take(int64(room)) {
		return ErrNoMemory
	}
	grown := append(make([]byte, 0, room), (*w.in)[w.from:]...)
	w.drop(w.in)
	w.in, w.from = &grown, 0
	return nil
}

// Skip discards unread bytes.
func (w *wire) Skip(n int) error {
	if n > w.Len() {
		return io.ErrUnexpectedEOF
	}
	w.from += n
	return nil
}

// ReadByte implements [io.ByteReader].
func (w *wire) ReadByte() (byte, error) {
	p, err := w.Peek(1)
	if err != nil {
		return 0, err
	}
	w.from++
	return p[0], nil
}

// ReadBinary is part of hertz's connection.
func (w *wire) ReadBinary(n int) ([]byte, error) {
	p, err := w.Peek(n)
	if err != nil {
		return nil, err
	}
	w.from += n
	return slices.Clone(p), nil
}

// Read reads what is buffered, or straight from the socket if p is large.
func (w *wire) Read(p []byte) (int, error) {
	if w.Len() == 0 {
		w.settle()
		if len(p) >= pieceSize && !w.buffered {
			return w.Conn.Read(p)
		}
		if err := w.fill(1); err != nil {
			return 0, err
		}
	}
	n := copy(p, (*w.in)[w.from:])
	w.from += n
	w.settle()
	return n, nil
}

// lend returns the next n bytes, which must be buffered, until returnLent is called.
func (w *wire) lend(n int) []byte {
	p := (*w.in)[w.from : w.from+n : w.from+n]
	rest := (*w.in)[w.from+n:]
	w.lent, w.in, w.from = w.in, nil, 0
	for len(rest) > 0 { // the beginning of the next request
		if w.makeRoom(len(rest)) != nil {
			break // it is cut off, and cannot be read
		}
		*w.in = append(*w.in, rest...)
		rest = nil
	}
	w.waiting.Store(int64(w.Len()))
	return p
}

// returnLent ends a loan.
func (w *wire) returnLent() {
	w.drop(w.lent)
	w.lent = nil
}

// dropLent ends a loan whose bytes may still be referred to: the buffer is not used again.
func (w *wire) dropLent() {
	if w.lent != nil && cap(*w.lent) != pieceSize {
		w.memory.Give(int64(cap(*w.lent)))
	}
	w.lent = nil
}

// settle gives the read buffer back if nothing in it is unread.
func (w *wire) settle() {
	if w.in != nil && w.Len() == 0 {
		w.drop(w.in)
		w.in, w.from = nil, 0
		w.waiting.Store(0)
	}
}

// Release is called by hertz when it no longer uses what it has read.
func (w *wire) Release() error {
	w.returnLent()
	w.settle()
	return nil
}

// end gives everything back. Nothing may use the wire any more.
func (w *wire) end() {
	w.from = 0
	if w.in != nil {
		*w.in = (*w.in)[:0]
	}
	_ = w.Release()
	w.out, w.tail = nil, nil
}

// Malloc returns room for n bytes that are sent by the next Flush.
func (w *wire) Malloc(n int) ([]byte, error) {
	if w.tail != nil {
		if err := w.Flush(); err != nil {
			return nil, err
		}
	}
	if w.out == nil {
		w.out = newPiece()
	}
	had := len(*w.out)
	*w.out = slices.Grow(*w.out, n)[:had+n]
	return (*w.out)[had:], nil
}

// WriteBinary sends b with the next Flush. Until then b must not change.
func (w *wire) WriteBinary(b []byte) (int, error) {
	if len(b) >= pieceSize && w.tail == nil {
		w.tail = b
		return len(b), nil
	}
	to, err := w.Malloc(len(b))
	return copy(to, b), err
}

// Flush sends what was written.
func (w *wire) Flush() error {
	if w.out == nil && w.tail == nil {
		return nil
	}
	w.writing.Store(time.Now().UnixNano())
	err := w.send()
	w.writing.Store(0)
	if w.out != nil && cap(*w.out) == pieceSize {
		pieces.Put(w.out)
	}
	w.out, w.tail = nil, nil
	return err
}

func (w *wire) send() (err error) {
	switch {
	case w.tail == nil:
		_, err = w.Conn.Write(*w.out)
	case w.out == nil:
		_, err = w.Conn.Write(w.tail)
	default:
		_, err = (&net.Buffers{*w.out, w.tail}).WriteTo(w.Conn)
	}
	return err
}

// SetReadTimeout and SetWriteTimeout are part of hertz's connection. The deadlines here are those of [connections].
func (w *wire) SetReadTimeout(time.Duration) error  { return nil }
func (w *wire) SetWriteTimeout(time.Duration) error { return nil }

// errNotBuffered ends reading that may not wait.
var errNotBuffered = errors.New("no more has arrived")
