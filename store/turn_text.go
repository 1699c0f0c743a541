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

// What a turn says is said in the request and the answer of its exchange as well, which are kept as they passed. So its text
// is kept as steps over these where that is much shorter: a few bytes for each line.

// textSource says what the text of a turn is kept over: bytes of its exchange, one behind the other.
type textSource byte

const (
	fromRequest textSource = 1 << iota // the request
	fromAnswer                         // the first part of the answer, as blob.AppendStored gives it
)

// mostSource is how many bytes of a request, and of an answer, the text of a turn may be kept over: each reading of the turn
// reads them.
const mostSource = 64 << 10

// turnText is the text of a reading as steps.
type turnText struct {
	source  textSource
	steps   []byte
	offsets []int // in steps: of each of the messages, and of the answer
}

// textOver gives the text of a reading as steps over the bytes of its exchange; nil where that is not much shorter.
func textOver(x *Exchange, r *reading) *turnText {
	t := new(turnText)
	source := buffer.Get(len(x.RawRequest) + len(x.RawResponse))
	defer func() { buffer.Put(source) }()
	if (x.Items == nil || x.Items.From == 0) && len(x.RawRequest) <= mostSource {
		t.source |= fromRequest
		source = append(source, x.RawRequest...)
	}
	answer := x.Stored
	if answer == nil {
		answer = x.RawResponse
	}
	if len(answer) > 0 && len(answer) <= mostSource {
		t.source |= fromAnswer
		source = append(source, answer...)
	}
	if r.textSize() > 2*len(source) { // less than half of it can stand there
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

// textSize is how many bytes the texts of a reading have, about.
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

// appendTurnText appends a turn whose messages are those of the reading from one on. Its text is t.
func appendTurnText(dst []byte, turn *turnRecord, t *turnText, from int) []byte {
	head := *turn
	head.Exchange = "" // the key says it
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

// decodeTurnText reads what appendTurnText gives. Without sources only the head is read. The error is errTurnSource where the
// turn may be sound, and what its text is kept over is not there.
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

// appendSources appends what the text of a turn is kept over.
type appendSources func(dst []byte, of textSource) ([]byte, error)

// textSources reads what the text of a turn is kept over.
func textSources(tx *badger.Txn, account kv.AccountNumber, id kv.ExchangeID) appendSources {
	return func(dst []byte, of textSource) (source []byte, err error) {
		source = dst
		if of&fromRequest != 0 {
			skeleton, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceRequest, account, id))
			if err != nil {
				return nil, fmt.Errorf("skeleton of the request: %w", err)
			}
			r := blob.Reader{From: blob.Stored{Tx: tx}, Account: account, Limit: mostSource}
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

// appendFirstPart appends the first part of an answer, as blob.AppendStored gives it.
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
