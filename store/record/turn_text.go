package record

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/delta"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// The text of a turn also occurs in the request and the answer of its exchange, which are stored as they passed. So if
// that is much shorter, a few bytes per line, it is stored as steps of a delta against them (package delta).

// TextBase is the base of a turn's delta: bytes of its exchange, concatenated.
type TextBase struct {
	Source textSource
	Blocks []kv.Hash
}

// textSource is the kinds of bytes in a base, in this order.
type textSource byte

const (
	FromRequest textSource = 1 << iota // the request
	FromAnswer                         // the first part of the answer, as blob.AppendStored returns it
	FromBlocks                         // blocks of the request, before the answer: it is large, or what it begins with is known
)

// MaxSource is how many bytes of a request, and of an answer, may be part of the base: every read of the turn reads
// them.
const MaxSource = 64 << 10

// maxBlocks is how many blocks may be part of the base: each takes its hash.
const maxBlocks = 16

// TurnText is the text of a reading as steps of a delta.
type TurnText struct {
	base    TextBase
	first   int // the first message that is in steps
	steps   []byte
	offsets []int // of each message from first on in steps, and of the answer

	room [2]int // for offsets: most turns have one message
}

// TextOver returns the text of a reading as a delta against the bytes of its exchange; nil if that is not much shorter.
func TextOver(x *Exchange, r *Digest) *TurnText {
	t := new(TurnText)
	source := buffer.Get(len(x.RawRequest) + len(x.RawResponse))
	defer func() { buffer.Put(source) }()
	switch {
	case (x.Items == nil || x.Items.From == 0) && len(x.RawRequest) <= MaxSource:
		t.base.Source |= FromRequest
		source = append(source, x.RawRequest...)
	case x.Items != nil:
		for hash, at := range x.Items.blocks {
			t.base.Source |= FromBlocks
			t.base.Blocks = append(t.base.Blocks, hash)
			source = append(source, x.RawRequest[at.Start:at.End]...)
		}
		t.first = firstMessage(r, x.Items)
	}
	answer := x.Stored
	if answer == nil {
		answer = x.RawResponse
	}
	if len(answer) > 0 && len(answer) <= MaxSource {
		t.base.Source |= FromAnswer
		source = append(source, answer...)
	}
	size := textSize(r.Messages[t.first:]) + textSize(r.Answer)
	if size > 2*len(source) { // less than half of it can be in the base
		return nil
	}
	index, steps := delta.NewIndex(source), buffer.Get(1<<10)
	f := writingTo(buffer.Get(size + 4<<10))
	t.offsets = slices.Grow(t.room[:0], len(r.Messages)-t.first+1)
	for i := t.first; i < len(r.Messages); i++ {
		from := len(f.record)
		f.embedded(fieldMessage, &r.Messages[i])
		t.offsets = append(t.offsets, len(steps))
		steps = index.Append(steps, f.record[from:])
	}
	from := len(f.record)
	messages(f, fieldAnswer, &r.Answer)
	t.offsets = append(t.offsets, len(steps))
	steps = index.Append(steps, f.record[from:])
	if len(steps) < len(f.record)/2 {
		t.steps = bytes.Clone(steps)
	}
	index.Release()
	buffer.Put(steps)
	buffer.Put(f.record)
	f.release()
	if t.steps == nil {
		return nil
	}
	return t
}

// firstMessage returns the index of the first message of a reading that begins in the last items of its request.
func firstMessage(r *Digest, items *RequestItems) (i int) {
	if len(r.Starts) == len(r.Messages) {
		for i < len(r.Starts) && r.Starts[i] < items.Count-len(items.Spans) {
			i++
		}
	}
	return i
}

// textSize returns roughly how many bytes the texts of messages have.
func textSize(messages []Message) (size int) {
	for i := range messages {
		for j := range messages[i].Parts {
			size += len(messages[i].Parts[j].Text) + len(messages[i].Parts[j].Arguments)
		}
	}
	return size
}

// appendTurnText appends a turn with text t, whose messages are those of the reading from index from on, which is at
// least t.first.
func appendTurnText(dst []byte, turn *StoredTurn, t *TurnText, from int) []byte {
	head := *turn
	head.Exchange, head.Messages, head.Answer = "", nil, nil // the key contains the id, and the delta the text
	f := writingTo(buffer.Get(1 << 10))
	head.fields(f)
	dst = binary.AppendUvarint(dst, uint64(len(f.record)))
	dst = append(dst, f.record...)
	buffer.Put(f.record)
	f.release()
	return blob.AppendEncoded(t.base.append(dst), t.steps[t.offsets[from-t.first]:])
}

var (
	errTurnText = errors.New("malformed turn")
	// ErrTurnSource means that a turn may be intact, but the exchange that its text refers to cannot be read.
	ErrTurnSource = errors.New("its text cannot be read from the exchange")
)

// decodeTurnText decodes the output of appendTurnText. Without sources it decodes only the head. The error is
// errTurnSource if the turn may be intact but the base of its text is unavailable.
func decodeTurnText(value []byte, turn *StoredTurn, sources AppendSources) error {
	n, size := binary.Uvarint(value)
	if size <= 0 || n >= uint64(len(value)-size) {
		return errTurnText
	}
	head, rest := value[size:size+int(n)], value[size+int(n):]
	if err := decodeFields(head, turn); err != nil || sources == nil {
		return err
	}
	of, rest, err := decodeTextBase(rest)
	if err != nil {
		return err
	}
	source, err := sources(buffer.Get(4<<10), &of)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrTurnSource, err)
	}
	defer buffer.Put(source)
	steps, err := blob.AppendDecoded(buffer.Get(1<<10), rest)
	if err != nil {
		return err
	}
	defer buffer.Put(steps)
	text, err := delta.AppendDecoded(buffer.Get(len(source)), steps, source, blob.MaxDecoded)
	if err != nil {
		return err
	}
	defer buffer.Put(text)
	return decodeFields(text, turn) // copies it
}

// append appends the encoded base.
func (b *TextBase) append(dst []byte) []byte {
	dst = append(dst, byte(b.Source))
	if b.Source&FromBlocks == 0 {
		return dst
	}
	dst = append(dst, byte(len(b.Blocks))) // at most maxBlocks
	for i := range b.Blocks {
		dst = append(dst, b.Blocks[i][:]...)
	}
	return dst
}

// decodeTextBase decodes the output of append, and returns what follows it.
func decodeTextBase(value []byte) (b TextBase, rest []byte, err error) {
	b.Source, rest = textSource(value[0]), value[1:]
	switch {
	case b.Source&^(FromRequest|FromAnswer|FromBlocks) != 0:
		return b, nil, errTurnText
	case b.Source&FromBlocks == 0:
		return b, rest, nil
	case len(rest) == 0 || len(rest)-1 < int(rest[0])*len(kv.Hash{}):
		return b, nil, errTurnText
	}
	b.Blocks = make([]kv.Hash, rest[0])
	rest = rest[1:]
	for i := range b.Blocks {
		b.Blocks[i], rest = kv.Hash(rest[:len(kv.Hash{})]), rest[len(kv.Hash{}):]
	}
	return b, rest, nil
}

// AppendSources appends the base of a turn's text.
type AppendSources func(dst []byte, of *TextBase) ([]byte, error)
