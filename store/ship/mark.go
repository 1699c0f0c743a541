package ship

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Question asks how far a log has been taken.
type Question struct {
	Node  uint16
	Log   LogID
	Nonce [16]byte // repeated in the answer, so that an old answer is not accepted
}

// Mark says how far a log has been taken. The answering node has stored all entries up to it, so the sender need not
// keep them.
type Mark struct {
	Log   LogID
	Mark  uint64   // number of the last entry; 0: none
	Tail  Tail     // exchange of that entry
	Nonce [16]byte // of the question; zero: sent unasked
	Idle  bool     // everything at the brokers has been handled
	Time  time.Time

	// Messages of the brokers' stream, by their numbers there; 0 if the brokers could not be asked.
	Handled uint64 // all up to this one have been handled
	Newest  uint64 // the stream ends with this one
}

// Fields of questions and marks.
const (
	askNode    = 1
	askLog     = 2
	askNonce   = 3
	askMark    = 4
	askIdle    = 5
	askMillis  = 6 // milliseconds since 1970
	askTail    = 7
	askHandled = 8
	askNewest  = 9
)

// Seal encodes and signs a question.
func (q *Question) Seal(k *Key) []byte {
	body := appendNumber(nil, askNode, uint64(q.Node))
	body = appendBytes(body, askLog, q.Log[:])
	return k.Seal(KindQuestion, appendBytes(body, askNonce, q.Nonce[:]))
}

// OpenQuestion verifies and decodes a message of [Question.Seal].
func OpenQuestion(k *Key, message []byte) (q Question, err error) {
	err = k.eachField(KindQuestion, message, func(field protowire.Number, number uint64, value []byte) error {
		switch field {
		case askNode:
			q.Node = uint16(number)
		case askLog:
			return fixed(q.Log[:], value)
		case askNonce:
			return fixed(q.Nonce[:], value)
		}
		return nil
	})
	return q, err
}

// Seal encodes and signs a mark.
func (m *Mark) Seal(k *Key) []byte {
	body := appendBytes(nil, askLog, m.Log[:])
	body = appendBytes(body, askNonce, m.Nonce[:])
	body = appendNumber(body, askMark, m.Mark)
	body = appendBytes(body, askTail, m.Tail[:])
	body = appendNumber(body, askIdle, protowire.EncodeBool(m.Idle))
	body = appendNumber(body, askHandled, m.Handled)
	body = appendNumber(body, askNewest, m.Newest)
	return k.Seal(KindMark, appendNumber(body, askMillis, uint64(m.Time.UnixMilli())))
}

// OpenMark verifies and decodes a message of [Mark.Seal].
func OpenMark(k *Key, message []byte) (m Mark, err error) {
	err = k.eachField(KindMark, message, func(field protowire.Number, number uint64, value []byte) error {
		switch field {
		case askLog:
			return fixed(m.Log[:], value)
		case askNonce:
			return fixed(m.Nonce[:], value)
		case askMark:
			m.Mark = number
		case askTail:
			return fixed(m.Tail[:], value)
		case askIdle:
			m.Idle = protowire.DecodeBool(number)
		case askMillis:
			m.Time = time.UnixMilli(int64(number))
		case askHandled:
			m.Handled = number
		case askNewest:
			m.Newest = number
		}
		return nil
	})
	return m, err
}

// fixed copies a value, which must have the length of dst.
func fixed(dst, value []byte) error {
	if copy(dst, value) != len(dst) || len(value) != len(dst) {
		return errMalformed
	}
	return nil
}
