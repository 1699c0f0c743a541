package store

import (
	"bytes"
	"slices"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// At a centre, a turn may arrive after the turn that continues it, which then contains its messages as well. They are
// removed from that one when the earlier turn arrives.

// laterTurn is a turn that continues one that arrives after it.
type laterTurn struct {
	id    kv.ExchangeID
	turn  *turnRecord
	known int // messages of its request that the earlier turn has
}

// overtaking returns the turn that continues the end of an exchange although it was placed before that; nil if there is
// none. The exchange began earlier.
func overtaking(in turns, id kv.ExchangeID, r *reading) *laterTurn {
	if later := holding(in, id, r.end, r); later != nil {
		return later
	}
	return holding(in, id, r.history[len(r.Messages)], r)
}

// holding is overtaking for one of the histories of r with which its turn ends.
func holding(in turns, id kv.ExchangeID, h historyHash, r *reading) *laterTurn {
	note, ok := readHistoryNote(in.history(h))
	if !ok || !note.inside || bytes.Compare(note.id[:], id[:]) <= 0 {
		return nil
	}
	turn, err := in.whole(note.id)
	if err != nil {
		return nil
	}
	held := messagesTo(h, turn, r)
	if held == 0 || held == len(turn.Messages) {
		return nil
	}
	return &laterTurn{note.id, turn, turn.Known + held}
}

// messagesTo returns with how many messages of a turn its history is h, 0 if it never is. The turn's own beginning is a
// history of r; the two requests may differ in their system messages, so it need not be the one with as many messages.
func messagesTo(h historyHash, turn *turnRecord, r *reading) int {
	reach := func(from historyHash) int {
		for i := range turn.Messages {
			if from = from.then(&turn.Messages[i]); from == h {
				return i + 1
			}
		}
		return 0
	}
	likely := turn.Known - r.before
	if likely >= 0 && likely < len(r.history) {
		if held := reach(r.history[likely]); held > 0 {
			return held
		}
	}
	for i := range r.history {
		if held := reach(r.history[i]); i != likely && held > 0 {
			return held
		}
	}
	return 0
}

// goOnFrom makes the later turn continue turn, and removes from it what turn has.
func (l *laterTurn) goOnFrom(in turns, turn *turnRecord) {
	turn.Continued = l.turn.Exchange
	l.turn.Messages = l.turn.Messages[l.known-l.turn.Known:]
	l.turn.Known, l.turn.Parent, l.turn.Branch = l.known, turn.Exchange, false
	l.turn.Histories = slices.DeleteFunc(l.turn.Histories, func(h historyHash) bool { return slices.Contains(turn.Histories, h) })
	in.putTurn(l.id, encodeTurn(l.turn))
}

// continueInstead makes turn the one that continues parent, replacing the present one.
func continueInstead(in turns, parent kv.ExchangeID, turn *turnRecord, id kv.ExchangeID) {
	value := in.turn(parent)
	switch {
	case len(value) > behindID && value[0] == encodingContinued:
		in.putTurn(parent, continuedBy(id, value[behindID:]))
		return
	case len(value) > 1 && value[0] == encodingTurn: // it has been digested again since
		in.putTurn(parent, continuedBy(id, value[1:]))
		return
	}
	before, err := decodeTurn(value, parent, nil) // all others have their text in the record
	if err == nil {
		before.Continued = turn.Exchange
		in.putTurn(parent, encodeTurn(before))
	}
}
