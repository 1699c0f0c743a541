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
	History(h record.HistoryHash) []byte // a note as [record.HistoryNote.append] makes it; nil: none
	PutHistory(h record.HistoryHash, note record.HistoryNote)
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
	// Most turns note two: after the request, and after its answer.
	turn.Histories = make([]record.HistoryHash, 0, 2)
	for i := max(at.Known-r.Before+1, end-historiesInside); i < end; i++ { // placeOf has found no other exchange there
		if r.History[i] != r.History[i-1] {
			noteHistory(in, turn, r.History[i], record.HistoryNote{ID: id, Inside: true})
		}
	}
	endHistory(in, turn, r.History[end], id, later)
	if len(r.Answer) > 0 {
		endHistory(in, turn, r.end, id, later)
	}
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
	whole := r.History[len(r.Messages)]
	for i := r.spoken(len(r.Messages)); i >= 0 && r.Before+i > 0; i = r.spoken(i - 1) {
		note, ok := record.ReadHistoryNote(in.History(r.History[i]))
		if ok && note.ID != id && !(note.Inside && (r.History[i] == whole || later != nil && note.ID == later.id)) {
			return r.Before + i, note
		}
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

// endHistory notes that a history ends with the turn's exchange, unless it leads to an earlier one.
func endHistory(in TurnStore, t *record.StoredTurn, end record.HistoryHash, id kv.ExchangeID, later *laterTurn) {
	note, there := record.ReadHistoryNote(in.History(end))
	if !there || note.ID == id || later != nil && note.ID == later.id {
		noteHistory(in, t, end, record.HistoryNote{ID: id})
	}
}

func noteHistory(in TurnStore, t *record.StoredTurn, history record.HistoryHash, note record.HistoryNote) {
	in.PutHistory(history, note)
	t.Histories = append(t.Histories, history)
}
