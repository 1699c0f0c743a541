package store

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/delta"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// The text of a turn also occurs in the request and the answer of its exchange, which are stored as they passed. So if
// that is much shorter, a few bytes per line, it is stored as steps of a delta against them (package delta).

// textSource is the base of a turn's delta: bytes of its exchange, concatenated.
type textSource byte

const (
	fromRequest textSource = 1 << iota // the request
	fromAnswer                         // the first part of the answer, as blob.AppendStored returns it
)

// maxSource is how many bytes a request, and an answer, may have to be part of the base: every read of the turn reads
// them.
const maxSource = 64 << 10

// turnText is the text of a reading as steps of a delta.
type turnText struct {
	source  textSource
	steps   []byte
	offsets []int // of each message in steps, and of the answer
}

// textOver returns the text of a reading as a delta against the bytes of its exchange; nil if that is not much shorter.
func textOver(x *Exchange, r *reading) *turnText {
	t := new(turnText)
	source := buffer.Get(len(x.RawRequest) + len(x.RawResponse))
	defer func() { buffer.Put(source) }()
	if (x.Items == nil || x.Items.From == 0) && len(x.RawRequest) <= maxSource {
		t.source |= fromRequest
		source = append(source, x.RawRequest...)
	}
	answer := x.Stored
	if answer == nil {
		answer = x.RawResponse
	}
	if len(answer) > 0 && len(answer) <= maxSource {
		t.source |= fromAnswer
		source = append(source, answer...)
	}
	if r.textSize() > 2*len(source) { // less than half of it can be in the base
		return nil
	}
	index, steps := delta.NewIndex(source), buffer.Get(1<<10)
	w := newFieldWriter(4 << 10)
	t.offsets = make([]int, 0, len(r.Messages)+1)
	for i := range r.Messages {
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

// textSize returns roughly how many bytes the texts of a reading have.
func (r *reading) textSize() (size int) {
	for _, list := range [...][]Message{r.Messages, r.Answer} {
		for i := range list {
			for j := range list[i].Parts {
				size += len(list[i].Parts[j].Text) + len(list[i].Parts[j].Arguments)
			}
		}
	}
	return size
}

// appendTurnText appends a turn with text t, whose messages are those of the reading from index from on.
func appendTurnText(dst []byte, turn *turnRecord, t *turnText, from int) []byte {
	head := *turn
	head.Exchange = "" // the key contains it
	w := newFieldWriter(1 << 10)
	head.writeHead(w)
	dst = binary.AppendUvarint(dst, uint64(len(w.record)))
	dst = append(dst, w.record...)
	w.release()
	return blob.AppendEncoded(append(dst, byte(t.source)), t.steps[t.offsets[from]:])
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
	of := textSource(rest[0])
	if of&^(fromRequest|fromAnswer) != 0 {
		return errTurnText
	}
	source, err := sources(buffer.Get(4<<10), of)
	if err != nil {
		return fmt.Errorf("%w: %w", errTurnSource, err)
	}
	defer buffer.Put(source)
	steps, err := blob.AppendDecoded(buffer.Get(1<<10), rest[1:])
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

// appendSources appends the base of a turn's text.
type appendSources func(dst []byte, of textSource) ([]byte, error)

// textSources returns a function that reads the base of a turn's text.
func textSources(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) appendSources {
	return func(dst []byte, of textSource) (source []byte, err error) {
		source = dst
		if of&fromRequest != 0 {
			skeleton, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceRequest, account, id))
			if err != nil {
				return nil, fmt.Errorf("skeleton of the request: %w", err)
			}
			r := blob.Reader{From: blob.Stored{Tx: tx}, Account: account, Limit: maxSource}
			if source, err = r.AppendBody(source, skeleton); err != nil {
				return nil, fmt.Errorf("request: %w", err)
			}
		}
		if of&fromAnswer != 0 {
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
