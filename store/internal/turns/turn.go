package turns

import (
	"context"
	"errors"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// Digest derives the turn of a committed exchange, from memory if it was captured there. Repeating it gives the
// same turn. The result is useless if ctx has ended. size is how many bytes were read.
func (d *Digester) Digest(ctx context.Context, p kv.ExchangeRef, captured *record.Exchange) (_ writing.Change, size int64) {
	var items *record.RequestItems
	if captured != nil {
		items = captured.Items.Unread()
		d.prefixes.skipKnown(p.Account, captured)
	}
	read, ok := d.readCaptured(p.Account, captured)
	if !ok {
		read = d.readBack(ctx, p, items)
	}
	whole := func() conversation.Reading { return d.readBack(context.WithoutCancel(ctx), p, items) }
	return d.digestOf(p, read, whole), read.Size
}

// errUnread means that what was read of an exchange does not suffice: more of its request has to be read.
var errUnread = errors.New("more of the request has to be read")

// digestOf returns the change that puts the turn of an exchange. whole reads all of the exchange. It is nil before the
// exchange is committed; if it is needed then, the change fails with errUnread before it has put anything.
func (d *Digester) digestOf(p kv.ExchangeRef, read conversation.Reading, whole func() conversation.Reading) writing.Change {
	account, id := p.Account, p.ID
	return func(g *writing.Group, w *commit.Op) error {
		r, ref := g.Sessions.Belongs(account, id)
		if read.Info == nil || r == nil || r.Merged != "" || read.Info.Outcome == record.OutcomeOpen || read.Info.Auxiliary != "" {
			return nil // erased in the meantime, or moving to another session, where it is digested again, or it has no turn
		}
		placed := &storedTurns{g, w, ref, r.Exchanges == 1 && g.Whole(ref)}
		at := conversation.PlaceOf(placed, id, &read)
		if at.Known < read.Before { // the same items were read before, but not in this session, or were erased there
			if whole == nil {
				return errUnread
			}
			if read = whole(); read.Info == nil {
				return nil
			}
			at = conversation.PlaceOf(placed, id, &read)
		}
		changed := g.Sessions.Changes.NoteTurn(ref, id, r.ID, read.Info.ID)
		g.Announce(w, record.Event{
			Kind: record.TurnDigested, Exchange: changed.Exchange, Session: changed.Session, KeyID: read.Info.KeyID, Outcome: read.Info.Outcome, Time: time.Now().UTC(), Account: account,
		})
		turn := &record.StoredTurn{Turn: record.Turn{Exchange: changed.Exchange, Started: read.Info.Started, Outcome: read.Info.Outcome, Model: read.Info.ModelAsked, AnswerUnread: read.Unread}}
		g.Sessions.Grew(w, ref)
		if read.Failure != nil {
			turn.Error = read.Failure.Error()
			placed.PutTurn(id, record.EncodeTurn(turn))
			return nil //nolint:nilerr // the turn says what failed
		}
		conversation.PlaceTurn(placed, id, turn, at, &read)
		if later, ok := kv.ParseExchangeID(turn.Continued); ok {
			g.Sessions.Changes.Note(ref, later)
		}
		if before := r.Linked(); read.Reply != "" && r.Derived {
			if g.Sessions.LinkReply(w, ref, r, read.Reply); r.Linked() != before {
				g.Sessions.PutSession(w, ref, r)
			}
			if turn.Parent == "" {
				turn.Reply = r.Reply
			}
		}
		changed.Turn, changed.Fresh, changed.Size = &record.TimelineEntry{Exchange: *read.Info, Turn: &turn.Turn}, read.Fresh, read.Size
		changed.Turn.Exchange.Session = changed.Session
		encoded := record.AppendTurn(buffer.Get(1<<10), turn, read.Text, at.Known-read.Before)
		placed.PutTurn(id, g.Keep(encoded))
		buffer.Put(encoded)
		return nil
	}
}

// readCaptured reads the part of a handed-over exchange that is not known from earlier requests, and releases its
// bytes. ok is false if the exchange was not handed over, or not completely when all of it is needed: errors in a
// request are reported for the whole request.
func (d *Digester) readCaptured(account kv.AccountNumber, x *record.Exchange) (r conversation.Reading, ok bool) {
	if x == nil {
		return conversation.Reading{}, false
	}
	defer d.Release(x)
	if x.RawRequest == nil {
		return conversation.Reading{}, false
	}
	var known record.Prefix
	if x.Items != nil {
		known = x.Items.Known
	}
	r = d.runDigest(x, known)
	if r.Failure != nil && known.Messages > 0 {
		return conversation.Reading{}, false
	}
	if r.Failure == nil {
		d.prefixes.remember(account, x, &r)
		r.Text = record.TextOver(x, &r.Digest)
	}
	r.Info = &x.ExchangeInfo
	r.Size, r.Fresh = int64(len(x.RawRequest)+len(x.RawResponse)), true
	return r, true
}

// readBack reads an exchange from the store: its whole request, and mostDigested bytes of its answer. Items are those of
// the whole request; nil: they are unknown.
func (d *Digester) readBack(ctx context.Context, p kv.ExchangeRef, items *record.RequestItems) (r conversation.Reading) {
	var info *record.ExchangeInfo
	var x *record.Exchange
	err := d.db.View(func(tx *badger.Txn) (err error) {
		if info, err = journal.Info(tx, p.Account, p.ID); err != nil {
			return err
		}
		if x, err = journal.Exchange(ctx, tx, p.Account, p.ID, info, conversation.MostDigested); err == nil && len(x.RawResponse) > 0 {
			x.Stored, err = journal.AppendFirstPart(nil, tx, p.Account, p.ID)
		}
		return err
	})
	switch {
	case errors.Is(err, badger.ErrKeyNotFound) && info == nil || ctx.Err() != nil:
		return r
	case err != nil:
		d.log.Error("an exchange cannot be read to be digested", "exchange", p.ID.String(), "error", err)
		r.Failure = errors.New("the exchange cannot be read")
	default:
		x.Items = items
		r = d.runDigest(x, record.Prefix{})
		r.Unread = max(info.ResponseSize-conversation.MostDigested, 0)
		if r.Failure == nil {
			d.prefixes.remember(p.Account, x, &r)
			r.Text = record.TextOver(x, &r.Digest)
		}
	}
	if r.Info = info; info != nil {
		r.Size = info.RequestSize + info.ResponseSize - r.Unread
	}
	return r
}

// runDigest digests an exchange; known is the part before the items that it has to read.
func (d *Digester) runDigest(x *record.Exchange, known record.Prefix) conversation.Reading {
	return conversation.Read(x, known, d.contentOf, d.Credentials.Redactor(x.Account), d.log)
}

// storedTurns are those of a session in the store.
type storedTurns struct {
	g     *writing.Group
	w     *commit.Op
	ref   kv.SessionRef
	alone bool // the session is new and has no other exchange, so that no history leads to one
}

func (s *storedTurns) History(h record.HistoryHash) []byte {
	if s.alone {
		return nil
	}
	return s.g.GetOf(s.ref, kv.AppendHistoryKey(s.g.Key(), s.ref.Account, s.ref.ID, h))
}

func (s *storedTurns) PutHistory(h record.HistoryHash, note record.HistoryNote) {
	s.g.Put(s.w, kv.AppendHistoryKey(s.g.Room(), s.ref.Account, s.ref.ID, h), note.Append(s.g.RoomOf(len(note.ID)+len(note.Answer))))
}

func (s *storedTurns) Joins() bool { return true }

func (s *storedTurns) Turn(id kv.ExchangeID) []byte {
	return s.g.Get(kv.AppendExchangeKey(s.g.Key(), kv.SpaceTurn, s.ref.Account, id))
}

// Whole takes the text of a turn from its change if its exchange, which the text is stored relative to, is committed
// only with the group.
func (s *storedTurns) Whole(id kv.ExchangeID) (*record.StoredTurn, error) {
	value, account := s.Turn(id), s.ref.Account
	turn, err := record.DecodeTurn(value, id, journal.TextSources(s.g.Committed(), account, id))
	if err == nil {
		return turn, nil
	}
	for _, c := range s.g.Sessions.Changes.Noted() {
		if c.Place != (kv.ExchangeRef{Account: account, ID: id}) || c.Turn == nil {
			continue
		}
		if turn, err = record.DecodeTurn(value, id, nil); err == nil {
			turn.Messages, turn.Answer = c.Turn.Turn.Messages, c.Turn.Turn.Answer
		}
		return turn, err
	}
	return nil, err
}

func (s *storedTurns) PutTurn(id kv.ExchangeID, value []byte) {
	s.g.Put(s.w, kv.AppendExchangeKey(s.g.Room(), kv.SpaceTurn, s.ref.Account, id), value)
}

// At returns a digested turn, perhaps without its text; nil if there is none that can be read.
func At(g *writing.Group, account kv.AccountNumber, id kv.ExchangeID) *record.StoredTurn {
	t, err := record.DecodeTurn(g.Get(kv.ExchangeKey(kv.SpaceTurn, account, id)), id, nil)
	if err != nil {
		return nil
	}
	return t
}

// Erase removes the turn of an exchange, with its vectors and the histories that lead to it.
func Erase(g *writing.Group, w *commit.Op, ref kv.SessionRef, id kv.ExchangeID) {
	if turn := At(g, ref.Account, id); turn != nil {
		for _, history := range turn.Histories {
			g.Put(w, kv.HistoryKey(ref.Account, ref.ID, history), nil)
		}
	}
	EraseVectors(g, w, ref.Account, id)
	g.Put(w, kv.ExchangeKey(kv.SpaceTurn, ref.Account, id), nil)
}
