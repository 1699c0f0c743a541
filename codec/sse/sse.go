// Package sse splits and writes event streams (WHATWG HTML, section 9.2) without allocating per frame.
//
// The stream is read into a buffer that the [Splitter] owns. Frames are views into it, so a short event costs no more
// than finding its end.
package sse

import (
	"bytes"
	"errors"
	"io"
)

// MaxFrame is the default limit for one frame: the largest request that any of the providers accepts.
const MaxFrame = 32 << 20

// ErrFrameTooLong means that a frame exceeded the limit.
var ErrFrameTooLong = errors.New("sse: frame over the limit")

// Frame is one event of a stream. Its slices are valid until the next call of Read or Reset on the splitter.
type Frame struct {
	Raw  []byte // the bytes as they came, with the blank line after them
	Name []byte // the event field; empty when there is none
	Data []byte // the data field; several lines are joined with a line feed
	// Comment is set when the frame holds no data: comments and fields that dispatch nothing.
	Comment bool
}

// Splitter cuts a byte stream into frames. Line ends may be LF, CRLF or CR, in any mix and cut anywhere.
// The zero value is not ready; use [NewSplitter] or [Split].
type Splitter struct {
	buf     []byte // buf[head:tail] is read and not yet returned
	head    int
	tail    int
	passed  int  // buf[:passed] has been returned by Passed
	scanned int  // no frame ends before buf[scanned]
	size    int  // the size buf grows to if there is more to read than room
	limit   int  // the size it grows to for a long frame
	filled  bool // the newest read left less than a quarter of the buffer free
	started bool // a byte order mark can no longer come
	returns bool // a CR was read: line ends are not all LF, as they are with nearly every provider
	joined  []byte
}

// NewSplitter returns a splitter that reads up to size bytes at a time, and up to limit if a frame is longer. Its
// buffer stays smaller until a read has nearly filled it: most streams send little at a time, and thousands may be
// open.
func NewSplitter(size, limit int) *Splitter {
	size = max(size, 512)
	return &Splitter{buf: make([]byte, min(size, firstBuffer)), size: size, limit: limit}
}

// Split returns a splitter for a stream in memory, or for a part of one that starts with a frame. The stream is neither
// copied nor changed, and Read must not be called.
func Split(stream []byte) Splitter {
	return Splitter{buf: stream, tail: len(stream), returns: bytes.IndexByte(stream, '\r') >= 0}
}

const (
	firstBuffer = 1 << 10 // holds some events of usual size
	growth      = 4
)

// keepBuffer is the largest buffer that Reset keeps: one long frame must not hold its memory for the life of a pool.
const keepBuffer = 64 << 10

// Reset discards everything read, for another stream.
func (s *Splitter) Reset() {
	if len(s.buf) > keepBuffer {
		s.buf = make([]byte, keepBuffer/4)
	}
	*s = Splitter{buf: s.buf, size: s.size, limit: s.limit, joined: s.joined[:0]}
}

// Read reads once from r, as much as there is room for, and returns the bytes (a view valid until the next Read).
// Frames still in the buffer stay; those already returned are gone.
func (s *Splitter) Read(r io.Reader) ([]byte, error) {
	if err := s.makeRoom(); err != nil {
		return nil, err
	}
	n, err := r.Read(s.buf[s.tail:])
	return s.arrived(n), err
}

func (s *Splitter) arrived(n int) []byte {
	got := s.buf[s.tail : s.tail+n]
	s.tail += n
	s.filled = len(s.buf)-s.tail < len(s.buf)/4 // a reader that removes chunk framing in place never fills all of it
	s.returns = s.returns || bytes.IndexByte(got, '\r') >= 0
	return got
}

func (s *Splitter) makeRoom() error {
	if s.head > 0 {
		copy(s.buf, s.buf[s.head:s.tail])
		s.tail -= s.head
		s.scanned = max(s.scanned-s.head, 0)
		s.head = 0
	}
	s.passed = 0
	if s.tail < len(s.buf) && (!s.filled || len(s.buf) >= s.size) {
		return nil
	}
	if s.tail == len(s.buf) && s.tail >= s.limit {
		return ErrFrameTooLong
	}
	grown := make([]byte, min(s.larger(), s.limit))
	copy(grown, s.buf[:s.tail])
	s.buf = grown
	return nil
}

// larger returns the next size of the buffer. Up to the size of a read it is reached in steps, because a stream that has begun
// with one long event keeps its buffer.
func (s *Splitter) larger() int {
	if more := growth * len(s.buf); len(s.buf) >= firstBuffer && more < s.size {
		return more
	}
	return max(2*len(s.buf), s.size)
}

// Next sets f to the next whole frame that has been read, and returns false if more has to be read first.
func (s *Splitter) Next(f *Frame) bool {
	if !s.skipMark() {
		return false
	}
	if s.plainNext(f) {
		return true
	}
	for {
		end, ok := s.frameEnd()
		if !ok {
			return false
		}
		raw := s.buf[s.head:end:end]
		s.head, s.scanned = end, end
		if blank(raw) {
			continue
		}
		s.parse(f, raw)
		return true
	}
}

var eventField, dataField = []byte("event: "), []byte("data: ")

// plainNext is Next for a whole frame as providers write nearly all: one data line, perhaps after an event line, with
// nothing but line feeds. It finds both lines and their values in one look. A frame of which a part has been searched
// before is left to frameEnd, which does not search that part again.
func (s *Splitter) plainNext(f *Frame) bool {
	if s.returns || s.scanned > s.head {
		return false
	}
	rest, at := s.buf[s.head:s.tail], 0
	var name []byte
	if bytes.HasPrefix(rest, eventField) {
		n := bytes.IndexByte(rest, '\n')
		if n < 0 {
			return false
		}
		name, at = rest[len(eventField):n:n], n+1
	}
	if !bytes.HasPrefix(rest[at:], dataField) {
		return false
	}
	at += len(dataField)
	n := bytes.IndexByte(rest[at:], '\n')
	end := at + n + 2
	if n < 0 || end > len(rest) || rest[end-1] != '\n' {
		return false
	}
	*f = Frame{Raw: rest[:end:end], Name: name, Data: rest[at : at+n : at+n], Comment: wrapsComment(rest[at : at+n])}
	s.Pass(end)
	return true
}

// wrapsComment reports whether data is a comment that a host wrote as data: no JSON begins so.
func wrapsComment(data []byte) bool { return len(data) > 0 && data[0] == ':' }

// Rest returns what has been read and not yet returned; it begins with a frame or with blank lines. It is valid until
// the next Read.
func (s *Splitter) Rest() []byte { return s.buf[s.head:s.tail] }

// Pass skips n bytes of whole frames that were found in Rest, as Next does.
func (s *Splitter) Pass(n int) {
	s.head += n
	s.scanned = s.head
}

// Residue returns the bytes after the last whole frame, parsed as a frame: a stream that breaks off may leave a
// complete data line, or a bare JSON object, after its last frame.
func (s *Splitter) Residue(f *Frame) bool {
	raw := s.buf[s.head:s.tail]
	s.head, s.scanned = s.tail, s.tail
	if blank(raw) {
		return false
	}
	s.parse(f, raw)
	return true
}

// Passed returns the raw bytes that Next and Residue have passed since the last call of Passed or Read: the frames, and
// the blank lines and the byte order mark between them. It is valid until the next Read.
func (s *Splitter) Passed() []byte {
	passed := s.buf[s.passed:s.head]
	s.passed = s.head
	return passed
}

// Drop removes the frame that Next returned last from what Passed returns.
func (s *Splitter) Drop(f *Frame) {
	size := len(f.Raw)
	copy(s.buf[s.passed+size:s.head], s.buf[s.passed:s.head-size])
	s.passed += size
}

// Buffered reports whether bytes were read that Next has not returned.
func (s *Splitter) Buffered() bool { return s.head < s.tail }

var mark = []byte("\xEF\xBB\xBF")

// skipMark drops one byte order mark at the start; it returns false if more bytes are needed to decide.
func (s *Splitter) skipMark() bool {
	if s.started {
		return true
	}
	head := s.buf[s.head:s.tail]
	if len(head) < len(mark) && bytes.HasPrefix(mark, head) {
		return false
	}
	if bytes.HasPrefix(head, mark) {
		s.head += len(mark)
	}
	s.started = true
	return true
}

// frameEnd returns the offset after the blank line that ends the first frame. A CR at the very end may be half of a
// CRLF, so the frame is returned only when the next byte has arrived, unless the CR starts the blank line.
func (s *Splitter) frameEnd() (int, bool) {
	i := max(s.scanned, s.head)
	for i < s.tail {
		n := bytes.IndexByte(s.buf[i:s.tail], '\n')
		cr := -1
		if s.returns {
			cr = bytes.IndexByte(s.buf[i:endOf(i, n, s.tail)], '\r')
		}
		if cr < 0 && n < 0 {
			s.scanned = s.tail
			return 0, false
		}
		at := i + n
		if cr >= 0 {
			at = i + cr
		}
		next, whole := lineEnd(s.buf[:s.tail], at)
		if !whole {
			s.scanned = at
			return 0, false
		}
		if at == s.head { // a blank line by itself
			return next, true
		}
		if next >= s.tail {
			s.scanned = at
			return 0, false
		}
		if c := s.buf[next]; c == '\n' || c == '\r' {
			end, whole := lineEnd(s.buf[:s.tail], next)
			if !whole {
				s.scanned = at
				return 0, false
			}
			return end, true
		}
		i = next
	}
	s.scanned = s.tail
	return 0, false
}

func endOf(from, n, tail int) int {
	if n < 0 {
		return tail
	}
	return from + n
}

// lineEnd returns the offset after the line end at i; false means that a CR is the last byte and its LF may follow.
func lineEnd(buf []byte, i int) (int, bool) {
	if buf[i] == '\n' {
		return i + 1, true
	}
	if i+1 >= len(buf) {
		return 0, false
	}
	if buf[i+1] == '\n' {
		return i + 2, true
	}
	return i + 1, true
}

func blank(raw []byte) bool {
	for _, c := range raw {
		if c != '\n' && c != '\r' {
			return false
		}
	}
	return true
}

// parse reads the fields of one frame. The common frame, one data line with or without an event line before it, is
// read without a copy.
func (s *Splitter) parse(f *Frame, raw []byte) {
	*f = Frame{Raw: raw, Comment: true}
	lines := 0
	for rest := raw; len(rest) > 0; {
		var line []byte
		line, rest = s.cutLine(rest)
		name, value := field(line)
		switch string(name) {
		case "event":
			f.Name = value
		case "data":
			f.Comment = false
			lines++
			if lines == 1 {
				f.Data = value
				continue
			}
			if lines == 2 {
				s.joined = append(s.joined[:0], f.Data...)
			}
			s.joined = append(s.joined, '\n')
			s.joined = append(s.joined, value...)
			f.Data = s.joined
		case "": // a comment or a blank line
		default:
			if len(line) > 0 && (line[0] == '{' || line[0] == '[') && lines == 0 {
				// A bare JSON text where a frame should be: some providers end a stream with an unframed error.
				f.Data, f.Comment = bytes.TrimRight(raw, "\r\n"), false
				return
			}
		}
	}
	f.Comment = f.Comment || wrapsComment(f.Data)
}

func (s *Splitter) cutLine(b []byte) (line, rest []byte) {
	i := bytes.IndexByte(b, '\n')
	if s.returns {
		if cr := bytes.IndexByte(b[:endOf(0, i, len(b))], '\r'); cr >= 0 {
			i = cr
		}
	}
	if i < 0 {
		return b, nil
	}
	next, whole := lineEnd(b, i)
	if !whole {
		next = len(b)
	}
	return b[:i], b[next:]
}

// field splits a line at its colon and drops one space after it.
func field(line []byte) (name, value []byte) {
	name, value, found := bytes.Cut(line, []byte{':'})
	if found && len(value) > 0 && value[0] == ' ' {
		value = value[1:]
	}
	return name, value
}
