package record

import (
	"bytes"
	"sync"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// A record of numbered fields is a Protocol Buffers message, so "protoc --decode_raw" reads it without this package.
// FORMAT.md has the numbers. A field with its zero value is absent. Readers skip unknown numbers, so fields can be
// added. A number is never reused for another field.

// Fields is a record of numbered fields.
type Fields interface {
	fieldTarget
	writeFields(w *fieldWriter)
}

// fieldTarget receives the fields of a record one by one.
type fieldTarget interface {
	readField(r *fieldReader)
}

// fieldWriter appends fields to a record.
type fieldWriter struct {
	record []byte
}

func (w *fieldWriter) number(field protowire.Number, n int64) {
	if n != 0 {
		w.record = protowire.AppendTag(w.record, field, protowire.VarintType)
		w.record = protowire.AppendVarint(w.record, uint64(n))
	}
}

func (w *fieldWriter) flag(field protowire.Number, set bool) {
	if set {
		w.number(field, 1)
	}
}

func (w *fieldWriter) text(field protowire.Number, s string) {
	if s != "" {
		w.element(field, s)
	}
}

// texts writes a list, which may have empty elements.
func (w *fieldWriter) texts(field protowire.Number, list []string) {
	for _, s := range list {
		w.element(field, s)
	}
}

// element writes a text even if it is empty. Invalid UTF-8 is repaired byte by byte, as encoding/json does it, because
// clients see records as JSON.
func (w *fieldWriter) element(field protowire.Number, s string) {
	w.record = protowire.AppendTag(w.record, field, protowire.BytesType)
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	w.record = protowire.AppendString(w.record, s)
}

func (w *fieldWriter) bytes(field protowire.Number, b []byte) {
	w.record = protowire.AppendTag(w.record, field, protowire.BytesType)
	w.record = protowire.AppendBytes(w.record, b)
}

// key writes bytes unless there are none.
func (w *fieldWriter) key(field protowire.Number, b []byte) {
	if len(b) > 0 {
		w.bytes(field, b)
	}
}

// time writes a protobuf Timestamp.
func (w *fieldWriter) time(field protowire.Number, t time.Time) {
	if t.IsZero() {
		return
	}
	at := w.begin(field)
	w.number(1, t.Unix())
	w.number(2, int64(t.Nanosecond()))
	w.end(at)
}

// begin starts an embedded message, which extends until end is called with the returned offset.
func (w *fieldWriter) begin(field protowire.Number) (at int) {
	w.record = append(protowire.AppendTag(w.record, field, protowire.BytesType), 0) // one byte of length suffices for most
	return len(w.record)
}

func (w *fieldWriter) end(at int) {
	length := len(w.record) - at
	if more := protowire.SizeVarint(uint64(length)) - 1; more > 0 {
		w.record = append(w.record, make([]byte, more)...)
		copy(w.record[at+more:], w.record[at:at+length])
	}
	protowire.AppendVarint(w.record[:at-1], uint64(length))
}

// fieldReader iterates over the fields of a record and of embedded messages.
type fieldReader struct {
	record []byte
	text   string // the same bytes: the returned texts stay valid
	at     int
	end    int // of the message
	failed bool

	field       protowire.Number
	kind        protowire.Type
	value       uint64 // of a number
	start, stop int    // of texts, bytes and messages
}

func newFieldReader(record []byte) fieldReader {
	return fieldReader{record: record, text: string(record), end: len(record)}
}

// next advances to the next field; false: there is none, or the record is malformed.
func (r *fieldReader) next() bool {
	if r.failed || r.at == r.end {
		return false
	}
	rest := r.record[r.at:r.end]
	field, kind, n := protowire.ConsumeTag(rest)
	if n < 0 {
		return r.fail()
	}
	r.field, r.kind, rest = field, kind, rest[n:]
	r.at += n
	switch kind {
	case protowire.VarintType:
		r.value, n = protowire.ConsumeVarint(rest)
	case protowire.BytesType:
		var value []byte
		value, n = protowire.ConsumeBytes(rest)
		r.start, r.stop = r.at+n-len(value), r.at+n
	default:
		n = protowire.ConsumeFieldValue(field, kind, rest)
	}
	if n < 0 {
		return r.fail()
	}
	r.at += n
	return true
}

func (r *fieldReader) fail() bool {
	r.failed = true
	return false
}

// is reports whether the field is of a kind; if not, the record is malformed.
func (r *fieldReader) is(kind protowire.Type) bool {
	return r.kind == kind || r.fail()
}

func (r *fieldReader) number() int64 {
	if !r.is(protowire.VarintType) {
		return 0
	}
	return int64(r.value)
}

func (r *fieldReader) flag() bool { return r.number() != 0 }

// string returns a text. It shares its memory with all texts of the record.
func (r *fieldReader) string() string {
	if !r.is(protowire.BytesType) {
		return ""
	}
	s := r.text[r.start:r.stop]
	if !utf8.ValidString(s) {
		r.fail()
	}
	return s
}

func (r *fieldReader) bytes() []byte {
	if !r.is(protowire.BytesType) {
		return nil
	}
	return []byte(r.text[r.start:r.stop])
}

// enter descends into an embedded message, whose fields next returns until leave is called with the result of enter.
func (r *fieldReader) enter() (outer int) {
	outer = r.end
	if r.is(protowire.BytesType) {
		r.at, r.end = r.start, r.stop
	}
	return outer
}

func (r *fieldReader) leave(outer int) { r.end = outer }

// into passes the fields of an embedded message to a target.
func (r *fieldReader) into(t fieldTarget) {
	outer := r.enter()
	for r.next() {
		t.readField(r)
	}
	r.leave(outer)
}

func (r *fieldReader) time() time.Time {
	var seconds, nanos int64
	outer := r.enter()
	for r.next() {
		switch r.field {
		case 1:
			seconds = r.number()
		case 2:
			nanos = r.number()
		}
	}
	r.leave(outer)
	if nanos < 0 || nanos >= int64(time.Second) || seconds < firstSecond || seconds > lastSecond {
		r.fail()
	}
	return time.Unix(seconds, nanos).UTC()
}

// Times are in the years 1 to 9999, as in JSON.
var (
	firstSecond = time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC).Unix()
	lastSecond  = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).Unix() - 1
)

// Encode encodes a record of numbered fields.
func Encode(r Fields) []byte {
	scratch := Append(buffer.Get(4<<10), r)
	record := bytes.Clone(scratch)
	buffer.Put(scratch)
	return record
}

// Append appends the encoding of a record of numbered fields.
func Append(dst []byte, r Fields) []byte {
	w := fieldWriters.Get().(*fieldWriter)
	w.record = append(dst, kv.RecordFields)
	r.writeFields(w)
	dst, w.record = w.record, nil
	fieldWriters.Put(w)
	return dst
}

var fieldWriters = sync.Pool{New: func() any { return new(fieldWriter) }}

// newFieldWriter returns a pooled writer; neither it nor its bytes may be used after release.
func newFieldWriter(size int) *fieldWriter {
	w := fieldWriters.Get().(*fieldWriter)
	w.record = buffer.Get(size)
	return w
}

func (w *fieldWriter) release() {
	buffer.Put(w.record)
	w.record = nil
	fieldWriters.Put(w)
}

// Decode reads a record of either kind.
func Decode(record []byte, v any) error {
	target, ok := v.(fieldTarget)
	if !ok || len(record) == 0 || record[0] > kv.RecordFields {
		return kv.DecodeRecord(record, v)
	}
	if record[0] != kv.RecordFields {
		return kv.ErrRecord
	}
	return decodeFields(record[1:], target)
}

// decodeFields reads numbered fields.
func decodeFields(fields []byte, target fieldTarget) error {
	r := newFieldReader(fields)
	for r.next() {
		target.readField(&r)
	}
	if r.failed {
		return kv.ErrRecord
	}
	return nil
}
