package store

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

// mostDigested is how many bytes of an answer are digested: 110,000 tokens of a stream that sends every token in an
// event of its own, with 300 bytes around it.
const mostDigested = 32 << 20

// digestExchange derives the turn of a committed exchange, from memory if it was captured there. Repeating it gives the
// same turn. The result is useless if ctx has ended. size is how many bytes were read.
func (s *core) digestExchange(ctx context.Context, p kv.ExchangeRef, captured *record.Exchange) (_ change, size int64) {
	var items *record.RequestItems
	if captured != nil {
		items = captured.Items.Unread()
		s.digester.prefixes.skipKnown(p.Account, captured)
	}
	read, ok := s.readCaptured(p.Account, captured)
	if !ok {
		read = s.readBack(ctx, p, items)
	}
	whole := func() reading { return s.readBack(context.WithoutCancel(ctx), p, items) }
	return s.digestOf(p, read, whole), read.size
}

// errUnread means that what was read of an exchange does not suffice: more of its request has to be read.
var errUnread = errors.New("more of the request has to be read")

// digestOf returns the change that puts the turn of an exchange. whole reads all of the exchange. It is nil before the
// exchange is committed; if it is needed then, the change fails with errUnread before it has put anything.
func (s *core) digestOf(p kv.ExchangeRef, read reading, whole func() reading) change {
	account, id := p.Account, p.ID
	return func(g *commitGroup, w *operation) error {
		r, ref := g.belongs(account, id)
		if read.info == nil || r == nil || r.Merged != "" || read.info.Outcome == record.OutcomeOpen || read.info.Auxiliary != "" {
			return nil // erased in the meantime, or moving to another session, where it is digested again, or it has no turn
		}
		placed := &storedTurns{g, w, ref, r.Exchanges == 1 && g.recent.whole(ref)}
		at := placeOf(placed, id, &read)
		if at.known < read.before { // the same items were read before, but not in this session, or were erased there
			if whole == nil {
				return errUnread
			}
			if read = whole(); read.info == nil {
				return nil
			}
			at = placeOf(placed, id, &read)
		}
		changed := g.changedTurn(ref, id, r.ID, read.info.ID)
		w.digested = record.Event{
			Kind: record.TurnDigested, Exchange: changed.Exchange, Session: changed.Session, KeyID: read.info.KeyID, Outcome: read.info.Outcome, Time: time.Now().UTC(), Account: account,
		}
		turn := &record.StoredTurn{Turn: record.Turn{Exchange: changed.Exchange, Started: read.info.Started, Outcome: read.info.Outcome, Model: read.info.ModelAsked, AnswerUnread: read.unread}}
		g.sessionGrew(w, ref)
		if read.failure != nil {
			turn.Error = read.failure.Error()
			placed.putTurn(id, record.EncodeTurn(turn))
			return nil //nolint:nilerr // the turn says what failed
		}
		placeTurn(placed, id, turn, at, &read)
		if later, ok := kv.ParseExchangeID(turn.Continued); ok {
			g.changed(ref, later)
		}
		if before := r.Linked(); read.Reply != "" && r.Derived {
			if g.linkReply(w, ref, r, read.Reply); r.Linked() != before {
				g.putSession(w, ref, r)
			}
		}
		changed.Turn, changed.Fresh, changed.size = &record.TimelineEntry{Exchange: *read.info, Turn: &turn.Turn}, read.fresh, read.size
		changed.Turn.Exchange.Session = changed.Session
		encoded := record.AppendTurn(buffer.Get(1<<10), turn, read.text, at.known-read.before)
		placed.putTurn(id, g.keep(encoded))
		buffer.Put(encoded)
		return nil
	}
}

// reading is what was read of an exchange.
type reading struct {
	record.Digest
	info    *record.ExchangeInfo // nil: it is gone
	size    int64                // bytes of it that were read
	fresh   bool                 // just ended, and never digested before
	failure error                // why it could not be digested
	unread  int64                // bytes of the answer that were not read: it is longer than mostDigested

	before  int                  // messages of the request before Messages, which were not read
	history []record.HistoryHash // after the messages before, and after each of Messages
	end     record.HistoryHash   // after the answer

	text *record.TurnText // of Messages and Answer; nil: stored in the turn itself
}

// readCaptured reads the part of a handed-over exchange that is not known from earlier requests, and releases its
// bytes. ok is false if the exchange was not handed over, or not completely when all of it is needed: errors in a
// request are reported for the whole request.
func (s *core) readCaptured(account kv.AccountNumber, x *record.Exchange) (r reading, ok bool) {
	if x == nil {
		return reading{}, false
	}
	defer s.digester.release(x)
	if x.RawRequest == nil {
		return reading{}, false
	}
	var known record.Prefix
	if x.Items != nil {
		known = x.Items.Known
	}
	r = s.runDigest(x, known)
	if r.failure != nil && known.Messages > 0 {
		return reading{}, false
	}
	if r.failure == nil {
		s.digester.prefixes.remember(account, x, &r)
		r.text = record.TextOver(x, &r.Digest)
	}
	r.info = &x.ExchangeInfo
	r.size, r.fresh = int64(len(x.RawRequest)+len(x.RawResponse)), true
	return r, true
}

// readBack reads an exchange from the store: its whole request, and mostDigested bytes of its answer. Items are those of
// the whole request; nil: they are unknown.
func (s *core) readBack(ctx context.Context, p kv.ExchangeRef, items *record.RequestItems) (r reading) {
	var info *record.ExchangeInfo
	var x *record.Exchange
	err := s.view(func(tx *badger.Txn) (err error) {
		if info, err = getInfo(tx, p.Account, p.ID); err != nil {
			return err
		}
		if x, err = getExchange(ctx, tx, p.Account, p.ID, info, mostDigested); err == nil && len(x.RawResponse) > 0 {
			x.Stored, err = appendFirstPart(nil, tx, p.Account, p.ID)
		}
		return err
	})
	switch {
	case errors.Is(err, badger.ErrKeyNotFound) && info == nil || ctx.Err() != nil:
		return r
	case err != nil:
		s.log.Error("an exchange cannot be read to be digested", "exchange", p.ID.String(), "error", err)
		r.failure = errors.New("the exchange cannot be read")
	default:
		x.Items = items
		r = s.runDigest(x, record.Prefix{})
		r.unread = max(info.ResponseSize-mostDigested, 0)
		if r.failure == nil {
			s.digester.prefixes.remember(p.Account, x, &r)
			r.text = record.TextOver(x, &r.Digest)
		}
	}
	if r.info = info; info != nil {
		r.size = info.RequestSize + info.ResponseSize - r.unread
	}
	return r
}

// runDigest calls [Options.Digest]; known is the part before the items that it has to read.
func (s *core) runDigest(x *record.Exchange, known record.Prefix) reading {
	return runDigest(x, known, s.opts.Digest, s.credentials.Redactor(x.Account), s.log)
}

func runDigest(x *record.Exchange, known record.Prefix, run func(*record.Exchange) (record.Digest, error), redactor *redact.Redactor, log *slog.Logger) (r reading) {
	defer func() {
		if p := recover(); p != nil {
			log.Error("digesting an exchange panicked", "exchange", x.ID, "panic", p)
			r = reading{failure: errors.New("digesting failed")}
		}
	}()
	digest, err := run(x)
	if err != nil {
		r.failure = errors.New(codec.AsError(err, "digesting failed").Message)
		return r
	}
	withhold(digest.Messages)
	withhold(digest.Answer)
	record.RedactDigest(redactor, &digest)
	r.Digest, r.before = digest, known.Messages
	r.history = append(make([]record.HistoryHash, 0, len(r.Messages)+1), known.History)
	for i := range r.Messages {
		r.history = append(r.history, r.history[i].Then(&r.Messages[i]))
	}
	r.end = r.history[len(r.Messages)]
	for i := range r.Answer[:min(len(r.Answer), 1)] { // the history goes on from one of several answers
		r.end = r.end.Then(&r.Answer[i])
	}
	return r
}

// turnPlace is where a turn continues its session's history.
type turnPlace struct {
	known  int    // messages of the request whose histories lead to other exchanges
	parent string // as in [record.Turn]
	branch bool
	onward kv.ExchangeID // the parent, if the turn continues from its end; else zero
	later  *laterTurn    // that continues from this one and was placed before it; nil: none
}

// turns are the stored histories and turns of a session. What is put is visible from then on.
type turns interface {
	history(h record.HistoryHash) []byte // a note as [record.HistoryNote.append] makes it; nil: none
	putHistory(h record.HistoryHash, note record.HistoryNote)
	turn(id kv.ExchangeID) []byte                       // as [record.EncodeTurn] returns it; nil: none
	whole(id kv.ExchangeID) (*record.StoredTurn, error) // with its text
	putTurn(id kv.ExchangeID, value []byte)
}

// storedTurns are those of a session in the store.
type storedTurns struct {
	g     *commitGroup
	w     *operation
	ref   kv.SessionRef
	alone bool // the session is new and has no other exchange, so that no history leads to one
}

func (s *storedTurns) history(h record.HistoryHash) []byte {
	if s.alone {
		return nil
	}
	return s.g.getOf(s.ref, kv.AppendHistoryKey(s.g.sought[:0], s.ref.Account, s.ref.ID, h))
}

func (s *storedTurns) putHistory(h record.HistoryHash, note record.HistoryNote) {
	s.g.put(s.w, kv.AppendHistoryKey(s.g.room(), s.ref.Account, s.ref.ID, h), note.Append(s.g.roomOf(len(note.ID)+1)))
}

func (s *storedTurns) turn(id kv.ExchangeID) []byte {
	return s.g.get(kv.AppendExchangeKey(s.g.sought[:0], kv.SpaceTurn, s.ref.Account, id))
}

// whole takes the text of a turn from its change if its exchange, which the text is stored relative to, is committed
// only with the group.
func (s *storedTurns) whole(id kv.ExchangeID) (*record.StoredTurn, error) {
	value, account := s.turn(id), s.ref.Account
	turn, err := record.DecodeTurn(value, id, textSources(s.g.read(), account, id))
	if err == nil {
		return turn, nil
	}
	for _, c := range s.g.changes {
		if c.place != (kv.ExchangeRef{Account: account, ID: id}) || c.Turn == nil {
			continue
		}
		if turn, err = record.DecodeTurn(value, id, nil); err == nil {
			turn.Messages, turn.Answer = c.Turn.Turn.Messages, c.Turn.Turn.Answer
		}
		return turn, err
	}
	return nil, err
}

func (s *storedTurns) putTurn(id kv.ExchangeID, value []byte) {
	s.g.put(s.w, kv.AppendExchangeKey(s.g.room(), kv.SpaceTurn, s.ref.Account, id), value)
}

// placeOf finds where an exchange continues the session's history. One that could not be digested continues nothing.
func placeOf(in turns, id kv.ExchangeID, r *reading) turnPlace {
	if r.failure != nil {
		return turnPlace{} // nothing is known of its messages
	}
	later := overtaking(in, id, r)
	known, from := knownHistory(in, id, r, later)
	switch {
	case known == 0:
		return turnPlace{later: later}
	case from.Inside || known == r.asked(): // inside another request, or the same one again
		return turnPlace{known: known, parent: from.ID.String(), branch: true, later: later}
	default:
		return turnPlace{known: known, parent: from.ID.String(), onward: from.ID, later: later}
	}
}

// placeTurn puts a turn in its place, and notes the histories that lead to it.
func placeTurn(in turns, id kv.ExchangeID, turn *record.StoredTurn, at turnPlace, r *reading) {
	turn.Known, turn.Parent, turn.Branch = at.known, at.parent, at.branch
	later := at.later
	switch {
	case at.onward == (kv.ExchangeID{}):
	case later != nil && later.turn.Parent == at.parent && !later.turn.Branch: // it continued from there because this one was missing
		continueInstead(in, at.onward, turn, id)
	default:
		continueTurn(in, at.onward, turn, id)
	}
	turn.Messages, turn.Answer = r.Messages[at.known-r.before:], r.Answer
	end := len(r.Messages)
	// Most turns note two: after the request, and after its answer.
	turn.Histories = make([]record.HistoryHash, 0, 2)
	for i := max(at.known-r.before+1, end-historiesInside); i < end; i++ { // placeOf has found no other exchange there
		if r.history[i] != r.history[i-1] {
			noteHistory(in, turn, r.history[i], record.HistoryNote{ID: id, Inside: true})
		}
	}
	endHistory(in, turn, r.history[end], id, later)
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
func knownHistory(in turns, id kv.ExchangeID, r *reading, later *laterTurn) (known int, from record.HistoryNote) {
	whole := r.history[len(r.Messages)]
	for i := r.spoken(len(r.Messages)); i >= 0 && r.before+i > 0; i = r.spoken(i - 1) {
		note, ok := record.ReadHistoryNote(in.history(r.history[i]))
		if ok && note.ID != id && !(note.Inside && (r.history[i] == whole || later != nil && note.ID == later.id)) {
			return r.before + i, note
		}
	}
	return 0, record.HistoryNote{}
}

// spoken returns how many of the first n messages of r.Messages are left without the system messages at their end.
func (r *reading) spoken(n int) int {
	for n > 0 && r.Messages[n-1].Role == "system" {
		n--
	}
	return n
}

// asked returns how many messages of the request there are without the system messages at its end, unless these are all
// that follows an answer: then they are what it asks.
func (r *reading) asked() int {
	n := r.spoken(len(r.Messages))
	if n < len(r.Messages) && (n == 0 || r.Messages[n-1].Role == "assistant") {
		n = len(r.Messages)
	}
	return r.before + n
}

// endHistory notes that a history ends with the turn's exchange, unless it leads to an earlier one.
func endHistory(in turns, t *record.StoredTurn, end record.HistoryHash, id kv.ExchangeID, later *laterTurn) {
	note, there := record.ReadHistoryNote(in.history(end))
	if !there || note.ID == id || later != nil && note.ID == later.id {
		noteHistory(in, t, end, record.HistoryNote{ID: id})
	}
}

func noteHistory(in turns, t *record.StoredTurn, history record.HistoryHash, note record.HistoryNote) {
	in.putHistory(history, note)
	t.Histories = append(t.Histories, history)
}

// turn returns a digested turn, perhaps without its text; nil if there is none that can be read.
func (g *commitGroup) turn(account kv.AccountNumber, id kv.ExchangeID) *record.StoredTurn {
	t, err := record.DecodeTurn(g.get(kv.ExchangeKey(kv.SpaceTurn, account, id)), id, nil)
	if err != nil {
		return nil
	}
	return t
}
