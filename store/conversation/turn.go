package conversation

import (
	"errors"
	"log/slog"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

// MostDigested is how many bytes of an answer are digested: 110,000 tokens of a stream that sends every token in an
// event of its own, with 300 bytes around it.
const MostDigested = 32 << 20

// Reading is what was read of an exchange.
type Reading struct {
	record.Digest
	Info    *record.ExchangeInfo // nil: it is gone
	Size    int64                // bytes of it that were read
	Fresh   bool                 // just ended, and never digested before
	Failure error                // why it could not be digested
	Unread  int64                // bytes of the answer that were not read: it is longer than mostDigested

	Before  int                  // messages of the request before Messages, which were not read
	History []record.HistoryHash // after the messages before, and after each of Messages
	end     record.HistoryHash   // after the answer

	Text *record.TurnText // of Messages and Answer; nil: stored in the turn itself
}

// Read digests an exchange with run, and leaves out what is private and what redactor masks. known is the part of its
// request before the items that run reads. A panic of run is logged, and is a failure of this exchange alone.
func Read(x *record.Exchange, known record.Prefix, run func(*record.Exchange) (record.Digest, error), redactor *redact.Redactor, log *slog.Logger) (r Reading) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("digesting an exchange panicked", "exchange", x.ID, "panic", p)
			r = Reading{Failure: errors.New("digesting failed")}
		}
	}()
	digest, err := run(x)
	if err != nil {
		r.Failure = errors.New(codec.AsError(err, "digesting failed").Message)
		return r
	}
	Withhold(digest.Messages)
	Withhold(digest.Answer)
	record.RedactDigest(redactor, &digest)
	r.Digest, r.Before = digest, known.Messages
	r.History = append(make([]record.HistoryHash, 0, len(r.Messages)+1), known.History)
	for i := range r.Messages {
		r.History = append(r.History, r.History[i].Then(&r.Messages[i]))
	}
	r.end = r.History[len(r.Messages)]
	for i := range r.Answer[:min(len(r.Answer), 1)] { // the history goes on from one of several answers
		r.end = r.end.Then(&r.Answer[i])
	}
	return r
}

// Place is where a turn continues its session's history.
type Place struct {
	Known  int    // messages of the request whose histories lead to other exchanges
	parent string // as in [record.Turn]
	branch bool
	onward kv.ExchangeID // the parent, if the turn continues from its end; else zero
	later  *laterTurn    // that continues from this one and was placed before it; nil: none
}

// TurnStore are the stored histories and turns of a session. What is put is visible from then on.
type TurnStore interface {
	History(h record.HistoryHash) []byte // a note as [record.HistoryNote.Append] makes it; nil: none
	PutHistory(h record.HistoryHash, note record.HistoryNote)
	Joins() bool                                        // the note of a request may stand for that of its answer
	Turn(id kv.ExchangeID) []byte                       // as [record.EncodeTurn] returns it; nil: none
	Whole(id kv.ExchangeID) (*record.StoredTurn, error) // with its text
	PutTurn(id kv.ExchangeID, value []byte)
}

// PlaceOf finds where an exchange continues the session's history. One that could not be digested continues nothing.
func PlaceOf(in TurnStore, id kv.ExchangeID, r *Reading) Place {
	if r.Failure != nil {
		return Place{} // nothing is known of its messages
	}
	later := overtaking(in, id, r)
	known, from := knownHistory(in, id, r, later)
	switch {
	case known == 0:
		return Place{later: later}
	case from.Inside || known == r.asked(): // inside another request, or the same one again
		return Place{Known: known, parent: from.ID.String(), branch: true, later: later}
	default:
		return Place{Known: known, parent: from.ID.String(), onward: from.ID, later: later}
	}
}

// PlaceTurn puts a turn in its place, and notes the histories that lead to it.
func PlaceTurn(in TurnStore, id kv.ExchangeID, turn *record.StoredTurn, at Place, r *Reading) {
	turn.Known, turn.Parent, turn.Branch = at.Known, at.parent, at.branch
	later := at.later
	switch {
	case at.onward == (kv.ExchangeID{}):
	case later != nil && later.turn.Parent == at.parent && !later.turn.Branch: // it continued from there because this one was missing
		continueInstead(in, at.onward, turn, id)
	default:
		continueTurn(in, at.onward, turn, id)
	}
	turn.Messages, turn.Answer = r.Messages[at.Known-r.Before:], r.Answer
	end := len(r.Messages)
	turn.Histories = make([]record.HistoryHash, 0, 2)                      // few note more
	for i := max(at.Known-r.Before+1, end-historiesInside); i < end; i++ { // placeOf has found no other exchange there
		if r.History[i] != r.History[i-1] {
			noteHistory(in, turn, r.History[i], record.HistoryNote{ID: id, Inside: true})
		}
	}
	endHistories(in, turn, r, id, later)
	if later != nil {
		later.goOnFrom(in, turn)
	}
}

// historiesInside is how many histories inside one request are noted at most: the last ones.
const historiesInside = 256

// knownHistory finds the longest history of a request that leads to another exchange of the session. It has known
// messages, 0 if none is known; system messages behind it are not among them. Inside another request the whole request
// does not count: a turn has at least its own last message. Inside a later turn's request it does not count at all: that
// turn continues this one.
func knownHistory(in TurnStore, id kv.ExchangeID, r *Reading, later *laterTurn) (known int, from record.HistoryNote) {
	whole, i := r.History[len(r.Messages)], r.spoken(len(r.Messages))
	for value := in.History(r.History[i]); i >= 0 && r.Before+i > 0; { // the note before may stand for a missing one
		note, ok := record.ReadHistoryNote(value)
		before := r.spoken(i - 1)
		if value = nil; before >= 0 {
			value = in.History(r.History[before])
		}
		if !ok {
			note, ok = answered(value, r.History[i])
		}
		if ok && note.ID != id && !(note.Inside && (r.History[i] == whole || later != nil && note.ID == later.id)) {
			return r.Before + i, note
		}
		i = before
	}
	return 0, record.HistoryNote{}
}

// spoken returns how many of the first n messages of r.Messages are left without the system messages at their end.
func (r *Reading) spoken(n int) int {
	for n > 0 && r.Messages[n-1].Role == "system" {
		n--
	}
	return n
}

// asked returns how many messages of the request there are without the system messages at its end, unless these are all
// that follows an answer: then they are what it asks.
func (r *Reading) asked() int {
	n := r.spoken(len(r.Messages))
	if n < len(r.Messages) && (n == 0 || r.Messages[n-1].Role == "assistant") {
		n = len(r.Messages)
	}
	return r.Before + n
}

// answered returns the note of the history h with an answer, if that of its request, in value, stands for it.
func answered(value []byte, h record.HistoryHash) (note record.HistoryNote, ok bool) {
	note, ok = record.ReadHistoryNote(value)
	return record.HistoryNote{ID: note.ID}, ok && note.Answer == h
}

// endHistories notes the histories with which a turn ends, unless they lead to an earlier exchange: after the request,
// and after its answer.
func endHistories(in TurnStore, t *record.StoredTurn, r *Reading, id kv.ExchangeID, later *laterTurn) {
	asked := r.History[len(r.Messages)]
	free := func(value []byte) bool {
		note, there := record.ReadHistoryNote(value)
		return !there || note.ID == id || later != nil && note.ID == later.id
	}
	note, before, answer := record.HistoryNote{ID: id}, in.History(asked), []byte(nil)
	if r.end != asked {
		if answer = in.History(r.end); answer == nil && free(before) && in.Joins() {
			note.Answer = r.end
		}
	}
	if free(before) {
		noteHistory(in, t, asked, note)
	} else if _, joined := answered(before, r.end); joined {
		return
	}
	if r.end != asked && note.Answer != r.end && free(answer) {
		noteHistory(in, t, r.end, record.HistoryNote{ID: id})
	}
}

func noteHistory(in TurnStore, t *record.StoredTurn, history record.HistoryHash, note record.HistoryNote) {
	in.PutHistory(history, note)
	t.Histories = append(t.Histories, history)
}
