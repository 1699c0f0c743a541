package conversation

import (
	"bytes"
	"slices"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// At a centre, a turn may arrive after the turn that continues it, which then contains its messages as well. They are
// removed from that one when the earlier turn arrives.

// laterTurn is a turn that continues one that arrives after it.
type laterTurn struct {
	id    kv.ExchangeID
	turn  *record.StoredTurn
	known int // messages of its request that the earlier turn has
}

// overtaking returns the turn that continues the end of an exchange although it was placed before that; nil if there is
// none. The exchange began earlier.
func overtaking(in TurnStore, id kv.ExchangeID, r *Reading) *laterTurn {
	if later := holding(in, id, r.end, r); later != nil {
		return later
	}
	return holding(in, id, r.History[len(r.Messages)], r)
}

// holding is overtaking for one of the histories of r with which its turn ends.
func holding(in TurnStore, id kv.ExchangeID, h record.HistoryHash, r *Reading) *laterTurn {
	note, ok := record.ReadHistoryNote(in.History(h))
	if !ok || !note.Inside || bytes.Compare(note.ID[:], id[:]) <= 0 {
		return nil
	}
	turn, err := in.Whole(note.ID)
	if err != nil {
		return nil
	}
	held := messagesTo(h, turn, r)
	if held == 0 || held == len(turn.Messages) {
		return nil
	}
	return &laterTurn{note.ID, turn, turn.Known + held}
}

// messagesTo returns with how many messages of a turn its history is h, 0 if it never is. The turn's own beginning is a
// history of r; the two requests may differ in their system messages, so it need not be the one with as many messages.
func messagesTo(h record.HistoryHash, turn *record.StoredTurn, r *Reading) int {
	reach := func(from record.HistoryHash) int {
		for i := range turn.Messages {
			if from = from.Then(&turn.Messages[i]); from == h {
				return i + 1
			}
		}
		return 0
	}
	likely := turn.Known - r.Before
	if likely >= 0 && likely < len(r.History) {
		if held := reach(r.History[likely]); held > 0 {
			return held
		}
	}
	for i := range r.History {
		if held := reach(r.History[i]); i != likely && held > 0 {
			return held
		}
	}
	return 0
}

// goOnFrom makes the later turn continue turn, and removes from it what turn has.
func (l *laterTurn) goOnFrom(in TurnStore, turn *record.StoredTurn) {
	turn.Continued = l.turn.Exchange
	l.turn.Messages = l.turn.Messages[l.known-l.turn.Known:]
	l.turn.Known, l.turn.Parent, l.turn.Branch = l.known, turn.Exchange, false
	l.turn.Histories = slices.DeleteFunc(l.turn.Histories, func(h record.HistoryHash) bool { return slices.Contains(turn.Histories, h) })
	in.PutTurn(l.id, record.EncodeTurn(l.turn))
}

// continueInstead makes turn the one that continues parent, replacing the present one.
func continueInstead(in TurnStore, parent kv.ExchangeID, turn *record.StoredTurn, id kv.ExchangeID) {
	value := in.Turn(parent)
	switch {
	case len(value) > record.BehindID && value[0] == record.EncodingContinued:
		in.PutTurn(parent, record.ContinuedBy(id, value[record.BehindID:]))
		return
	case len(value) > 1 && value[0] == record.EncodingTurn: // it has been digested again since
		in.PutTurn(parent, record.ContinuedBy(id, value[1:]))
		return
	}
	before, err := record.DecodeTurn(value, parent, nil) // all others have their text in the record
	if err == nil {
		before.Continued = turn.Exchange
		in.PutTurn(parent, record.EncodeTurn(before))
	}
}

// continueTurn makes turn the one that continues parent, or a branch if there is one already.
func continueTurn(in TurnStore, parent kv.ExchangeID, turn *record.StoredTurn, id kv.ExchangeID) {
	switch before := in.Turn(parent); {
	case len(before) == 0:
	case before[0] == record.EncodingTurn:
		in.PutTurn(parent, record.ContinuedBy(id, before[1:]))
	default: // it has a continuation; a turn that has to be written again has its text in the record
		if r, err := record.DecodeTurn(before, parent, nil); err == nil && r.Continued != turn.Exchange {
			turn.Branch = true
		}
	}
}
