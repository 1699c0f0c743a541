// Package chatkey identifies conversations by their opening messages, for clients that send no conversation id.
//
// A conversation has two keys. The opening key covers the instructions and the first user turn, and is known from the
// first request on. The reply key also covers the first answer, to distinguish conversations that open with the same
// words. It is known once a request repeats that answer, or earlier to code that has seen the answer.
//
// The keys do not depend on the surface or on how a client writes the conversation. They cover texts, calls and a trace
// of media, but not white space, ids, reasoning, or how texts are cut into blocks. They also leave out what clients add
// to the opening themselves and change during the conversation: reminders, notes on the environment, dates and times
// (see stable.go).
//
// Keys are independent of accounts: store them per account.
package chatkey

import (
	"encoding/hex"
	"sync"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
)

// Keys are the keys of a conversation, 32 hexadecimal digits each, or "" where there is nothing to derive one from.
type Keys struct {
	Opening string
	Reply   string // "" while the history holds no answer
}

// Derive returns the keys of a request: surface is the format of the body, and e its envelope. What
// has no conversation, embeddings for instance, has no keys.
//
// At most [maxText] bytes each of the instructions, the first turn and its answer count, so that the cost has a bound: about 35 microseconds for the opening of a coding agent (BenchmarkDeriveAgentOpening).
func Derive(surface codec.Format, body []byte, e *codec.Envelope) Keys {
	keys, _ := derive(surface, body, e)
	return keys
}

// derive is Derive, and gives how many items suffice: more than there are where another one could change the keys.
func derive(surface codec.Format, body []byte, e *codec.Envelope) (keys Keys, items int) {
	if !surface.Converses() {
		return Keys{}, 0
	}
	s := speeches.Get().(*speech)
	defer s.release()
	for _, block := range e.Opening {
		s.instructions.block(block.Of(body))
	}
	for i, item := range e.Items {
		if done := s.item(item.Of(body)); done {
			return s.keys(), i + 1
		}
	}
	return s.keys(), len(e.Items) + 1
}

// Reply returns the reply key of the conversation that opens with the key opening and was first answered with a. It is ""
// if there is no opening key or the answer says nothing.
func Reply(opening string, a *codec.Answer) string {
	if opening == "" {
		return ""
	}
	s := speeches.Get().(*speech)
	defer s.release()
	for i := range a.Items {
		s.answer.answerItem(&a.Items[i])
	}
	return s.replyKey(opening)
}

// speech is what has been said of the parts that keys stand for.
type speech struct {
	instructions, first, answer transcript
	answered                    bool
	hashed                      []byte // scratch
}

var speeches = sync.Pool{New: func() any { return new(speech) }}

func (s *speech) release() {
	s.instructions.reset()
	s.first.reset()
	s.answer.reset()
	s.answered = false
	if cap(s.hashed) > 4*maxText {
		s.hashed = nil
	}
	speeches.Put(s)
}

func (s *speech) keys() Keys {
	if len(s.first.stable) == 0 {
		return Keys{}
	}
	k := Keys{Opening: s.hash("opening", s.instructions.stable, s.first.stable)}
	k.Reply = s.replyKey(k.Opening)
	return k
}

func (s *speech) replyKey(opening string) string {
	if opening == "" || len(s.answer.stable) == 0 {
		return ""
	}
	return s.hash("reply", []byte(opening), s.answer.stable)
}

// hash is one key. A zero byte precedes each text; none holds one.
func (s *speech) hash(kind string, texts ...[]byte) string {
	s.hashed = append(s.hashed[:0], kind...)
	for _, text := range texts {
		s.hashed = append(append(s.hashed, 0), text...)
	}
	sum := blake3.Sum256(s.hashed)
	return hex.EncodeToString(sum[:16])
}
