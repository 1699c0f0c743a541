package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/delta"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// The text of a turn also occurs in the request and the answer of its exchange, which are stored as they passed. So if
// that is much shorter, a few bytes per line, it is stored as steps of a delta against them (package delta).

// textBase is the base of a turn's delta: bytes of its exchange, concatenated.
type textBase struct {
	source textSource
	blocks []kv.Hash
}

// textSource is the kinds of bytes in a base, in this order.
type textSource byte

const (
	fromRequest textSource = 1 << iota // the request
	fromAnswer                         // the first part of the answer, as blob.AppendStored returns it
	fromBlocks                         // blocks of the request, before the answer: it is large, or what it begins with is known
)

// maxSource is how many bytes of a request, and of an answer, may be part of the base: every read of the turn reads
// them.
const maxSource = 64 << 10

// maxBlocks is how many blocks may be part of the base: each takes its hash.
const maxBlocks = 16

// turnText is the text of a reading as steps of a delta.
type turnText struct {
	base    textBase
	first   int // the first message that is in steps
	steps   []byte
	offsets []int // of each message from first on in steps, and of the answer

	room [2]int // for offsets: most turns have one message
}

// textOver returns the text of a reading as a delta against the bytes of its exchange; nil if that is not much shorter.
func textOver(x *Exchange, r *reading) *turnText {
	t := new(turnText)
	source := buffer.Get(len(x.RawRequest) + len(x.RawResponse))
	defer func() { buffer.Put(source) }()
	switch {
	case (x.Items == nil || x.Items.From == 0) && len(x.RawRequest) <= maxSource:
		t.base.source |= fromRequest
		source = append(source, x.RawRequest...)
	case x.Items != nil:
		for hash, at := range x.Items.blocks {
			t.base.source |= fromBlocks
			t.base.blocks = append(t.base.blocks, hash)
			source = append(source, x.RawRequest[at.Start:at.End]...)
		}
		t.first = firstMessage(r, x.Items)
	}
	answer := x.Stored
	if answer == nil {
		answer = x.RawResponse
	}
	if len(answer) > 0 && len(answer) <= maxSource {
		t.base.source |= fromAnswer
		source = append(source, answer...)
	}
	size := textSize(r.Messages[t.first:]) + textSize(r.Answer)
	if size > 2*len(source) { // less than half of it can be in the base
		return nil
	}
	index, steps := delta.NewIndex(source), buffer.Get(1<<10)
	w := newFieldWriter(size + 4<<10)
	t.offsets = slices.Grow(t.room[:0], len(r.Messages)-t.first+1)
	for i := t.first; i < len(r.Messages); i++ {
		from := len(w.record)
		r.Messages[i].write(w, fieldMessage)
		t.offsets = append(t.offsets, len(steps))
		steps = index.Append(steps, w.record[from:])
	}
	from := len(w.record)
	for i := range r.Answer {
		r.Answer[i].write(w, fieldAnswer)
	}
	t.offsets = append(t.offsets, len(steps))
	steps = index.Append(steps, w.record[from:])
	if len(steps) < len(w.record)/2 {
		t.steps = bytes.Clone(steps)
	}
	index.Release()
	buffer.Put(steps)
	w.release()
	if t.steps == nil {
		return nil
	}
	return t
}

// firstMessage returns the index of the first message of a reading that begins in the last items of its request.
func firstMessage(r *reading, items *RequestItems) (i int) {
	if len(r.Starts) == len(r.Messages) {
		for i < len(r.Starts) && r.Starts[i] < items.count-len(items.spans) {
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
func appendTurnText(dst []byte, turn *turnRecord, t *turnText, from int) []byte {
	head := *turn
	head.Exchange = "" // the key contains it
	w := newFieldWriter(1 << 10)
	head.writeHead(w)
	dst = binary.AppendUvarint(dst, uint64(len(w.record)))
	dst = append(dst, w.record...)
	w.release()
	return blob.AppendEncoded(t.base.append(dst), t.steps[t.offsets[from-t.first]:])
}

var (
	errTurnText   = errors.New("malformed turn")
	errTurnSource = errors.New("its text cannot be read from the exchange")
)

// decodeTurnText decodes the output of appendTurnText. Without sources it decodes only the head. The error is
// errTurnSource if the turn may be intact but the base of its text is unavailable.
func decodeTurnText(value []byte, turn *turnRecord, sources appendSources) error {
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
		return fmt.Errorf("%w: %w", errTurnSource, err)
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
func (b *textBase) append(dst []byte) []byte {
	dst = append(dst, byte(b.source))
	if b.source&fromBlocks == 0 {
		return dst
	}
	dst = append(dst, byte(len(b.blocks))) // at most maxBlocks
	for i := range b.blocks {
		dst = append(dst, b.blocks[i][:]...)
	}
	return dst
}

// decodeTextBase decodes the output of append, and returns what follows it.
func decodeTextBase(value []byte) (b textBase, rest []byte, err error) {
	b.source, rest = textSource(value[0]), value[1:]
	switch {
	case b.source&^(fromRequest|fromAnswer|fromBlocks) != 0:
		return b, nil, errTurnText
	case b.source&fromBlocks == 0:
		return b, rest, nil
	case len(rest) == 0 || len(rest)-1 < int(rest[0])*len(kv.Hash{}):
		return b, nil, errTurnText
	}
	b.blocks = make([]kv.Hash, rest[0])
	rest = rest[1:]
	for i := range b.blocks {
		b.blocks[i], rest = kv.Hash(rest[:len(kv.Hash{})]), rest[len(kv.Hash{}):]
	}
	return b, rest, nil
}

// appendSources appends the base of a turn's text.
type appendSources func(dst []byte, of *textBase) ([]byte, error)

// textSources returns a function that reads the base of a turn's text.
func textSources(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) appendSources {
	return func(dst []byte, of *textBase) (source []byte, err error) {
		source = dst
		r := blob.Reader{From: blob.Stored{Tx: tx}, Account: account, Limit: maxSource}
		if of.source&fromRequest != 0 {
			skeleton, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceRequest, account, id))
			if err != nil {
				return nil, fmt.Errorf("skeleton of the request: %w", err)
			}
			if source, err = r.AppendBody(source, skeleton); err != nil {
				return nil, fmt.Errorf("request: %w", err)
			}
		}
		if of.source&fromBlocks != 0 {
			if source, err = r.AppendBlocks(source, of.blocks); err != nil {
				return nil, fmt.Errorf("request: %w", err)
			}
		}
		if of.source&fromAnswer != 0 {
			if source, err = appendFirstPart(source, tx, account, id); err != nil {
				return nil, fmt.Errorf("answer: %w", err)
			}
		}
		return source, nil
	}
}

// appendFirstPart appends the first part of an answer, as blob.AppendStored returns it.
func appendFirstPart(dst []byte, tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) ([]byte, error) {
	item, err := tx.Get(kv.PartKey(kv.SpaceResponse, account, id, 0))
	if err != nil {
		return dst, err
	}
	err = item.Value(func(value []byte) (err error) {
		dst, err = blob.AppendStored(dst, value)
		return err
	})
	return dst, err
}
