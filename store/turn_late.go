package store

import (
	"bytes"
	"slices"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// At a centre a turn may arrive after the one that goes on from it, which then holds its messages as well. They are taken out of
// that one when it comes.

// laterTurn is a turn that goes on from one that arrives after it.
type laterTurn struct {
	id    kv.ExchangeID
	turn  *turnRecord
	known int // messages of its request that the other one has
}

// overtaking gives the turn that goes on from the end of an exchange which had begun before it, and was placed first; nil: none was.
func overtaking(in turns, id kv.ExchangeID, r *reading) *laterTurn {
	if r.failure != nil {
		return nil
	}
	request := r.before + len(r.Messages)
	if later := holding(in, id, r.end, request+len(r.Answer)); later != nil {
		return later
	}
	return holding(in, id, r.history[len(r.Messages)], request)
}

// holding is overtaking for a history of so many messages.
func holding(in turns, id kv.ExchangeID, h historyHash, messages int) *laterTurn {
	note, ok := readHistoryNote(in.history(h))
	if !ok || !note.inside || bytes.Compare(note.id[:], id[:]) <= 0 {
		return nil
	}
	turn, err := in.whole(note.id)
	if err != nil || messages <= turn.Known || messages >= turn.Known+len(turn.Messages) {
		return nil
	}
	return &laterTurn{note.id, turn, messages}
}

// goOnFrom leaves to the turn what it has of the later one, which goes on from it.
func (l *laterTurn) goOnFrom(in turns, turn *turnRecord) {
	turn.Continued = l.turn.Exchange
	l.turn.Messages = l.turn.Messages[l.known-l.turn.Known:]
	l.turn.Known, l.turn.Parent, l.turn.Branch = l.known, turn.Exchange, false
	l.turn.Histories = slices.DeleteFunc(l.turn.Histories, func(h historyHash) bool { return slices.Contains(turn.Histories, h) })
	in.putTurn(l.id, encodeTurn(l.turn, nil, 0))
}

// continueInstead makes turn the one that goes on from parent, in the place of one that goes on from it now.
func continueInstead(in turns, parent kv.ExchangeID, turn *turnRecord, id kv.ExchangeID) {
	value := in.turn(parent)
	switch {
	case len(value) > behindID && value[0] == encodingContinued:
		in.putTurn(parent, continuedBy(id, value[behindID:]))
		return
	case len(value) > 1 && value[0] == encodingTurn: // it was digested again since
		in.putTurn(parent, continuedBy(id, value[1:]))
		return
	}
	before, err := decodeTurn(value, parent, nil) // all others have their text in the record
	if err == nil {
		before.Continued = turn.Exchange
		in.putTurn(parent, encodeTurn(before, nil, 0))
	}
}
