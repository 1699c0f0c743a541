// Package scan walks JSON as bytes. It returns members, elements and strings as views; nothing is copied or decoded.
//
// Translation needs what JSON libraries hide: the escaped body of a string, the exact bytes of a number or an object,
// the offsets of a member, every duplicate. All functions are safe on any input: on bytes that are not JSON they stop
// early and never panic. [Valid] reports whether a document is JSON. Callers run it once at the edge; after that, a
// walk that stops early has seen everything.
//
// Nothing in this package allocates except where a doc comment says so.
package scan

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"unicode/utf8"

	"github.com/bytedance/sonic/decoder"
)

// Members walks the members of a JSON object in the order of the document, duplicates included.
//
//	for m := scan.Object(doc); m.Next(); {
//		switch string(m.Key) { … m.Value … }
//	}
type Members struct {
	Key   []byte // unescaped name; valid until the next call of Next
	Value []byte // raw value, a view into the document
	// Start and End are the offsets of the whole member in the document: from the quote of its name to the end of its value.
	Start, End int

	doc     []byte
	pos     int
	scratch []byte // a name with escapes, decoded
}

// Object starts a walk over doc, which may have white space around it. A doc that is not an object has no members.
func Object(doc []byte) Members {
	i := Space(doc, 0)
	if i >= len(doc) || doc[i] != '{' {
		return Members{}
	}
	return Members{doc: doc, pos: i + 1}
}

// ObjectAt starts a walk over the object that begins at an offset of doc. The walk ends at the object's end. Offsets
// are relative to doc.
func ObjectAt(doc []byte, at int) Members {
	if at >= len(doc) || doc[at] != '{' {
		return Members{doc: doc[:at], pos: at}
	}
	return Members{doc: doc, pos: at + 1}
}

// ReadObject walks the members of a document that has not been validated, and reports whether it is an object and
// [WellFormed], at the cost of the validation alone. What visit received is valid only if the result is true. skip
// returns the offset after the value at an offset, and validates its syntax as [SkipValid] does.
func ReadObject(doc []byte, skip func(doc []byte, i int) (end int, ok bool), visit func(m *Members)) bool {
	m := Object(doc)
	for from, first := m.pos, true; m.NextName(); from, first = m.End, false {
		if comma := bytes.IndexByte(doc[from:m.Start], ',') >= 0; comma == first {
			return false
		}
		end, ok := skip(doc, m.pos)
		if !ok || !m.take(end) {
			return false
		}
		visit(&m)
	}
	end := m.Close()
	return end > m.pos && doc[end-1] == '}' && Space(doc, end) == len(doc) && utf8.Valid(doc)
}

// Close returns the offset after an object whose members have all been walked, so that an object that is read anyway
// need not be skipped to find its end. If doc is not an object, it is where the walk stopped.
func (m *Members) Close() int {
	i := Space(m.doc, m.pos)
	if i < len(m.doc) && m.doc[i] == '}' {
		i++
	}
	return i
}

// Next moves to the next member and reports whether there is one. It allocates only for a name with escapes.
func (m *Members) Next() bool {
	if !m.NextName() {
		return false
	}
	return m.take(Skip(m.doc, m.pos))
}

// NextName moves to the name of the next member without reading its value. One of [Members.Skip], [Members.Elements]
// and [Members.Walk] has to follow. So an array that is walked anyway is not skipped first.
func (m *Members) NextName() bool {
	i := Space(m.doc, m.pos)
	if i < len(m.doc) && m.doc[i] == ',' {
		i = Space(m.doc, i+1)
	}
	if i >= len(m.doc) || m.doc[i] != '"' {
		return false
	}
	start := i
	end := skipString(m.doc, i)
	key := m.doc[i+1 : max(end-1, i+1)]
	i = Space(m.doc, end)
	if i >= len(m.doc) || m.doc[i] != ':' {
		return false
	}
	if bytes.IndexByte(key, '\\') >= 0 {
		m.scratch = Unescape(m.scratch[:0], key)
		key = m.scratch
	}
	m.Key, m.Start = key, start
	m.pos = Space(m.doc, i+1)
	return true
}

// Skip sets Value and End after a NextName, and reports whether there is a value.
func (m *Members) Skip() bool { return m.take(Skip(m.doc, m.pos)) }

// SkipTo is [Members.Skip] for a value whose start and end are known. It returns false if the value is somewhere else.
func (m *Members) SkipTo(start, end int) bool {
	return m.pos == start && end <= len(m.doc) && m.take(end)
}

// Elements walks the value after a NextName if it is an array, and reports whether it was one. The offsets passed to
// visit are relative to the document.
func (m *Members) Elements(visit func(start, end int)) bool {
	if m.pos >= len(m.doc) || m.doc[m.pos] != '[' {
		return false
	}
	e := Elements{doc: m.doc, pos: m.pos + 1}
	for e.Next() {
		visit(e.Start, e.pos)
	}
	end := Space(m.doc, e.pos)
	if end < len(m.doc) {
		end++ // the closing bracket
	}
	return m.take(end)
}

// Walk is [Members.Elements] for elements whose own walk finds their end: read receives the start of an element and
// returns the offset after it. A result that is not above start ends this walk, and the walk over the members as well.
func (m *Members) Walk(read func(start int) (end int)) bool {
	if m.pos >= len(m.doc) || m.doc[m.pos] != '[' {
		return false
	}
	i := Space(m.doc, m.pos+1)
	for i < len(m.doc) && m.doc[i] != ']' {
		end := read(i)
		if end <= i {
			m.doc = nil
			return true
		}
		if i = Space(m.doc, end); i < len(m.doc) && m.doc[i] == ',' {
			i = Space(m.doc, i+1)
		}
	}
	if i < len(m.doc) {
		i++ // the closing bracket
	}
	return m.take(i)
}

func (m *Members) take(end int) bool {
	if end <= m.pos {
		return false
	}
	m.Value, m.End = m.doc[m.pos:end:end], end
	m.pos = end
	return true
}

// Elements walks the elements of a JSON array.
type Elements struct {
	Value []byte // raw value, a view into the document
	Start int    // offset of Value in the document

	doc []byte
	pos int
}

// Array starts a walk over doc, which may have white space around it. A doc that is not an array has no elements.
func Array(doc []byte) Elements {
	i := Space(doc, 0)
	if i >= len(doc) || doc[i] != '[' {
		return Elements{}
	}
	return Elements{doc: doc, pos: i + 1}
}

// Next moves to the next element and reports whether there is one.
func (e *Elements) Next() bool {
	return e.NextStart() && e.Take(Skip(e.doc, e.Start))
}

// NextStart moves to the start of the next element without reading its value. [Elements.Take] has to follow, with the
// offset after the element. So an element that is read anyway is not skipped first.
func (e *Elements) NextStart() bool {
	i := Space(e.doc, e.pos)
	if i < len(e.doc) && e.doc[i] == ',' {
		i = Space(e.doc, i+1)
	}
	if i >= len(e.doc) || e.doc[i] == ']' {
		return false
	}
	e.Start = i
	return true
}

// Take sets Value after a NextStart, and reports whether there is one.
func (e *Elements) Take(end int) bool {
	if end <= e.Start {
		e.doc = nil
		return false
	}
	e.Value, e.pos = e.doc[e.Start:end:end], end
	return true
}

// Count returns the number of elements of an array, or of members of an object; 0 for anything else.
func Count(doc []byte) int {
	n := 0
	if IsObject(doc) {
		for m := Object(doc); m.Next(); {
			n++
		}
		return n
	}
	for e := Array(doc); e.Next(); {
		n++
	}
	return n
}

// Get returns the raw value of the first member with that name, or nil.
func Get(object []byte, name string) []byte {
	for m := Object(object); m.Next(); {
		if string(m.Key) == name {
			return m.Value
		}
	}
	return nil
}

// Path follows names through nested objects and returns the raw value, or nil.
func Path(object []byte, names ...string) []byte {
	for _, name := range names {
		object = Get(object, name)
		if object == nil {
			return nil
		}
	}
	return object
}

// Space returns the offset of the first byte at or after i that is not JSON white space.
func Space(doc []byte, i int) int {
	for i < len(doc) {
		switch doc[i] {
		case ' ', '\t', '\n', '\r':
			i++
		default:
			return i
		}
	}
	return i
}

// Skip returns the offset after the value that starts at i. After the last byte, or at a byte that does not start a
// value, it returns i.
func Skip(doc []byte, i int) int {
	if i >= len(doc) {
		return i
	}
	switch doc[i] {
	case '"':
		return skipString(doc, i)
	case '{', '[':
		return skipNested(doc, i)
	}
	start := i
	for i < len(doc) {
		switch doc[i] {
		case ',', '}', ']', ' ', '\t', '\n', '\r', ':', '"':
			return i
		}
		i++
	}
	if i == start {
		return start
	}
	return i
}

// Values of at least these lengths are passed to the JSON library's vectorised skip, which costs a tenth of a
// microsecond to call and then runs several times faster than the loops here.
const (
	longValue  = 192 // objects and arrays, without the long strings in them
	longString = 128
)

// skipNested finds the bracket that closes the one at i. It does not distinguish the two kinds, which match in a valid
// document. A value of many parts is passed to the library; a value that is long only because of a string is not, since
// that string has been skipped already.
func skipNested(doc []byte, i int) int {
	start, depth, inStrings := i, 0, 0
	for handed := false; i < len(doc); {
		if !handed && i-start-inStrings > longValue {
			if end, ok := SkipValid(doc, start); ok {
				return end
			}
			handed = true
		}
		switch doc[i] {
		case '"':
			end := skipString(doc, i)
			if end-i > longString {
				inStrings += end - i
			}
			i = end
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth == 0 {
				return i + 1
			}
		}
		i++
	}
	return i
}

// SkipValid returns the offset after a value, whose syntax it validates. ok is false if the library finds none, which it
// signals by a negative start; the end that it then returns may be after the document.
func SkipValid(doc []byte, i int) (end int, ok bool) {
	start, n := decoder.Skip(doc[i:])
	return i + n, start >= 0 && n > 0 && i+n <= len(doc)
}

// skipString returns the offset after the closing quote of the string that opens at i. It checks eight bytes at a time
// for a quote or a backslash: agents' texts are full of escapes, at which a search for just the next quote would stop
// too often.
func skipString(doc []byte, i int) int {
	const ones, highs, quotes, slashes = 0x0101010101010101, 0x8080808080808080, 0x2222222222222222, 0x5c5c5c5c5c5c5c5c
	start := i
	i++
	for handed := false; i+8 <= len(doc); {
		if !handed && i-start > longString {
			if end, ok := SkipValid(doc, start); ok {
				return end
			}
			handed = true
		}
		w := binary.LittleEndian.Uint64(doc[i:])
		q, s := w^quotes, w^slashes
		found := ((q - ones) &^ q & highs) | ((s - ones) &^ s & highs)
		if found == 0 {
			i += 8
			continue
		}
		i += bits.TrailingZeros64(found) / 8 // the lowest mark is exact, whatever borrows do above it
		if doc[i] == '"' {
			return i + 1
		}
		i += 2
	}
	for i < len(doc) {
		switch doc[i] {
		case '"':
			return i + 1
		case '\\':
			i++
		}
		i++
	}
	return len(doc)
}

// IsObject reports whether the value is an object.
func IsObject(v []byte) bool { i := Space(v, 0); return i < len(v) && v[i] == '{' }

// IsArray reports whether the value is an array.
func IsArray(v []byte) bool { i := Space(v, 0); return i < len(v) && v[i] == '[' }

// IsString reports whether the value is a string.
func IsString(v []byte) bool { return len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' }

// IsNull reports whether the value is absent or null.
func IsNull(v []byte) bool { return len(v) == 0 || string(v) == "null" }

// IsTrue reports whether the value is true.
func IsTrue(v []byte) bool { return string(v) == "true" }

// IsFalse reports whether the value is false.
func IsFalse(v []byte) bool { return string(v) == "false" }

// IsNumber reports whether the value is a number.
func IsNumber(v []byte) bool { return len(v) > 0 && (v[0] == '-' || v[0]-'0' <= 9) }

// Body returns the content of a string value, still escaped; nil if v is not a string. The body of "" is empty, not
// nil.
func Body(v []byte) []byte {
	if !IsString(v) {
		return nil
	}
	return v[1 : len(v)-1 : len(v)-1]
}

// Int reads an integer value. Numbers with a fraction or an exponent are accepted if they are whole. For anything else,
// and for numbers that do not fit an int64, ok is false.
func Int(v []byte) (n int64, ok bool) {
	if !IsNumber(v) {
		return 0, false
	}
	i, negative := 0, false
	if v[0] == '-' {
		negative, i = true, 1
	}
	const limit = (1<<63 - 1) / 10
	for ; i < len(v) && v[i]-'0' <= 9; i++ {
		if n > limit {
			return 0, false
		}
		n = n*10 + int64(v[i]-'0')
		if n < 0 {
			return 0, false
		}
	}
	if i < len(v) {
		return wholeFloat(v)
	}
	if negative {
		n = -n
	}
	return n, true
}
