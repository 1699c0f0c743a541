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
// added: a new one takes the next number. A number is never reused for another field.

// Fields is a record of numbered fields. Its one method both writes and reads it: it passes each field with its number to
// f, which writes the value of the field, or sets it to the value in the record.
type Fields interface {
	fields(f *fieldCodec)
}

// fieldCodec writes the fields of a record, or reads them.
type fieldCodec struct {
	record  []byte // written so far, or to be read
	reading bool

	// Of a record that is read:
	text        string           // the same bytes: the returned texts stay valid
	end         int              // of the message
	at          int              // behind the current field
	field       protowire.Number // the current field; 0: there is no more
	kind        protowire.Type
	value       uint64 // of a number
	start, stop int    // of texts, bytes and messages
	failed      bool   // the record is malformed
	stamp       timestamp
}

// read reads a message. Fields in the order in which they are written take one pass, others more.
func (f *fieldCodec) read(r Fields) {
	f.next()
	for f.field != 0 {
		before := f.at
		r.fields(f)
		if f.at == before && f.field != 0 { // unknown
			f.next()
		}
	}
}

// next advances to the next field.
func (f *fieldCodec) next() {
	f.field = 0
	if f.failed || f.at == f.end {
		return
	}
	rest := f.record[f.at:f.end]
	field, kind, n := protowire.ConsumeTag(rest)
	if n < 0 {
		f.failed = true
		return
	}
	rest = rest[n:]
	f.at += n
	switch kind {
	case protowire.VarintType:
		f.value, n = protowire.ConsumeVarint(rest)
	case protowire.BytesType:
		var value []byte
		value, n = protowire.ConsumeBytes(rest)
		f.start, f.stop = f.at+n-len(value), f.at+n
	default:
		n = protowire.ConsumeFieldValue(field, kind, rest)
	}
	if n < 0 {
		f.failed = true
		return
	}
	f.at += n
	f.field, f.kind = field, kind
}

// reads reports whether the current field is the one asked for. If that is of another kind, the record is malformed.
func (f *fieldCodec) reads(field protowire.Number, kind protowire.Type) bool {
	if f.field != field {
		return false
	}
	if f.kind != kind {
		f.fail()
	}
	return !f.failed
}

func (f *fieldCodec) fail() { f.failed, f.field = true, 0 }

func number[N ~int | ~int64 | ~uint8](f *fieldCodec, field protowire.Number, n *N) {
	switch {
	case !f.reading:
		f.putNumber(field, int64(*n))
	case f.reads(field, protowire.VarintType):
		*n = N(f.value)
		f.next()
	}
}

func (f *fieldCodec) putNumber(field protowire.Number, n int64) {
	if n != 0 {
		f.record = protowire.AppendTag(f.record, field, protowire.VarintType)
		f.record = protowire.AppendVarint(f.record, uint64(n))
	}
}

func (f *fieldCodec) numbers(field protowire.Number, list *[]int64) {
	if !f.reading {
		for _, n := range *list {
			f.putNumber(field, n)
		}
		return
	}
	for f.reads(field, protowire.VarintType) {
		*list = append(*list, int64(f.value))
		f.next()
	}
}

func (f *fieldCodec) flag(field protowire.Number, set *bool) {
	switch {
	case f.reading && f.reads(field, protowire.VarintType):
		*set = f.value != 0
		f.next()
	case !f.reading && *set:
		f.putNumber(field, 1)
	}
}

func (f *fieldCodec) outcome(field protowire.Number, o *Outcome) {
	if f.field == field && f.value >= uint64(len(outcomeNames)) {
		f.fail()
	}
	number(f, field, o)
}

// string writes or reads a text. Those of a record share their memory.
func (f *fieldCodec) string(field protowire.Number, s *string) {
	switch {
	case !f.reading:
		if *s != "" {
			f.putString(field, *s)
		}
	case f.reads(field, protowire.BytesType):
		*s = f.takeString()
	}
}

// strings writes or reads a list, which may have empty elements.
func (f *fieldCodec) strings(field protowire.Number, list *[]string) {
	if !f.reading {
		for _, s := range *list {
			f.putString(field, s)
		}
		return
	}
	for f.reads(field, protowire.BytesType) {
		*list = append(*list, f.takeString())
	}
}

// putString writes a text even if it is empty. Invalid UTF-8 is repaired byte by byte, as encoding/json does it, because
// clients see records as JSON.
func (f *fieldCodec) putString(field protowire.Number, s string) {
	f.record = protowire.AppendTag(f.record, field, protowire.BytesType)
	if !utf8.ValidString(s) {
		s = string([]rune(s))
	}
	f.record = protowire.AppendString(f.record, s)
}

func (f *fieldCodec) takeString() string {
	s := f.text[f.start:f.stop]
	f.next()
	if !utf8.ValidString(s) {
		f.fail()
	}
	return s
}

func (f *fieldCodec) bytes(field protowire.Number, b *[]byte) {
	switch {
	case !f.reading:
		if len(*b) > 0 {
			f.putBytes(field, *b)
		}
	case f.reads(field, protowire.BytesType):
		*b = []byte(f.text[f.start:f.stop])
		f.next()
	}
}

func (f *fieldCodec) putBytes(field protowire.Number, b []byte) {
	f.record = protowire.AppendTag(f.record, field, protowire.BytesType)
	f.record = protowire.AppendBytes(f.record, b)
}

// keys writes or reads a list of bytes.
func (f *fieldCodec) keys(field protowire.Number, list *[][]byte) {
	if !f.reading {
		for _, b := range *list {
			f.putBytes(field, b)
		}
		return
	}
	for f.reads(field, protowire.BytesType) {
		*list = append(*list, []byte(f.text[f.start:f.stop]))
		f.next()
	}
}

func (f *fieldCodec) hashes(field protowire.Number, list *[]HistoryHash) {
	if !f.reading {
		for i := range *list {
			f.putBytes(field, (*list)[i][:])
		}
		return
	}
	for f.reads(field, protowire.BytesType) {
		if f.stop-f.start != len(HistoryHash{}) {
			f.fail()
			return
		}
		*list = append(*list, HistoryHash(f.record[f.start:f.stop]))
		f.next()
	}
}

// pointerTo is the pointer to a message.
type pointerTo[M any] interface {
	*M
	Fields
}

// message writes or reads an embedded message.
func message[M comparable, P pointerTo[M]](f *fieldCodec, field protowire.Number, m P) {
	var zero M
	if f.reading && f.field == field || !f.reading && *m != zero {
		f.embedded(field, m)
	}
}

// optional writes or reads an embedded message that may be absent.
func optional[M any, P pointerTo[M]](f *fieldCodec, field protowire.Number, m **M) {
	if f.reading && f.field == field {
		*m = new(M)
	} else if f.reading || *m == nil {
		return
	}
	f.embedded(field, P(*m))
}

// messages writes or reads a list of embedded messages.
func messages[M any, P pointerTo[M]](f *fieldCodec, field protowire.Number, list *[]M) {
	if !f.reading {
		for i := range *list {
			f.embedded(field, P(&(*list)[i]))
		}
		return
	}
	for f.field == field {
		*list = append(*list, *new(M))
		f.embedded(field, P(&(*list)[len(*list)-1]))
	}
}

// embedded writes an embedded message, or reads the current field as one.
func (f *fieldCodec) embedded(field protowire.Number, m Fields) {
	if !f.reading {
		f.record = append(protowire.AppendTag(f.record, field, protowire.BytesType), 0) // one byte of length suffices for most
		at := len(f.record)
		m.fields(f)
		length := len(f.record) - at
		if more := protowire.SizeVarint(uint64(length)) - 1; more > 0 {
			f.record = append(f.record, make([]byte, more)...)
			copy(f.record[at+more:], f.record[at:at+length])
		}
		protowire.AppendVarint(f.record[:at-1], uint64(length))
		return
	}
	if f.reads(field, protowire.BytesType) {
		end, at := f.end, f.at
		f.at, f.end = f.start, f.stop
		f.read(m)
		f.at, f.end = at, end
		f.next()
	}
}

// timestamp is that of Protocol Buffers.
type timestamp struct{ seconds, nanos int64 }

func (t *timestamp) fields(f *fieldCodec) {
	number(f, 1, &t.seconds)
	number(f, 2, &t.nanos)
}

func (f *fieldCodec) time(field protowire.Number, t *time.Time) {
	switch stamp := &f.stamp; {
	case !f.reading && !t.IsZero():
		*stamp = timestamp{t.Unix(), int64(t.Nanosecond())}
		f.embedded(field, stamp)
	case f.reading && f.field == field:
		*stamp = timestamp{}
		f.embedded(field, stamp)
		if stamp.nanos < 0 || stamp.nanos >= int64(time.Second) || stamp.seconds < firstSecond || stamp.seconds > lastSecond {
			f.fail()
		}
		*t = time.Unix(stamp.seconds, stamp.nanos).UTC()
	}
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
	f := writingTo(append(dst, kv.RecordFields))
	r.fields(f)
	dst = f.record
	f.release()
	return dst
}

var fieldCodecs = sync.Pool{New: func() any { return new(fieldCodec) }}

// writingTo returns a pooled codec, which appends to record until it is released.
func writingTo(record []byte) *fieldCodec {
	f := fieldCodecs.Get().(*fieldCodec)
	f.record = record
	return f
}

func (f *fieldCodec) release() {
	*f = fieldCodec{}
	fieldCodecs.Put(f)
}

// Decode reads a record of either kind.
func Decode(record []byte, v any) error {
	target, ok := v.(Fields)
	if !ok || len(record) == 0 || record[0] > kv.RecordFields {
		return kv.DecodeRecord(record, v)
	}
	if record[0] != kv.RecordFields {
		return kv.ErrRecord
	}
	return decodeFields(record[1:], target)
}

// decodeFields reads numbered fields.
func decodeFields(record []byte, r Fields) error {
	f := fieldCodecs.Get().(*fieldCodec)
	defer f.release()
	f.record, f.text, f.end, f.reading = record, string(record), len(record), true
	f.read(r)
	if f.failed {
		return kv.ErrRecord
	}
	return nil
}
