package store

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/notes"
	"github.com/mnemeproxy/mneme/store/internal/turns"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// clockSlack is how far the clock may have been set back without an exchange escaping a walk that ends early. The next
// walk of retention finds the ones that escape.
const clockSlack = 24 * time.Hour

// followMerges is [record.Selection.Follow] in a view.
func (s *core) followMerges(tx *badger.Txn, account kv.AccountNumber, sel record.Selection) record.Selection {
	return sel.Follow(func(session string) string {
		id, _ := kv.ParseSessionID(session)
		r, err := s.sessions.Get(tx, kv.SessionRef{Account: account, ID: id})
		if err != nil {
			return "" // it is gone, or unreadable
		}
		return r.Merged
	})
}

// followInCommit is [record.Selection.Follow] in a commit: no session is merged before the commit has ended.
func followInCommit(g *writing.Group, account kv.AccountNumber, sel record.Selection) record.Selection {
	return sel.Follow(func(session string) string {
		id, _ := kv.ParseSessionID(session)
		if r := g.Sessions.At(kv.SessionRef{Account: account, ID: id}); r != nil {
			return r.Merged
		}
		return ""
	})
}

// selected is a selected exchange.
type selected struct {
	id      kv.ExchangeID
	info    *record.ExchangeInfo
	damaged error // the record is unreadable, and info holds only what the id says
}

// open reports whether the exchange is still running.
func (x *selected) open(tx *badger.Txn, account kv.AccountNumber) (bool, error) {
	if x.damaged == nil {
		return x.info.Outcome == record.OutcomeOpen, nil
	}
	return journal.NotedOpen(tx, account, x.id)
}

// eachSelected visits the selected exchanges of an account. An exchange named twice may be visited twice. If its record
// is unreadable, its id says when it began, and it matches no key or other filter. With inOrder the visit ends clockSlack
// after Until: ids say, within that, when exchanges began.
func eachSelected(ctx context.Context, tx *badger.Txn, account kv.AccountNumber, sel *record.Selection, inOrder bool, visit func(selected) error) error {
	one := func(id kv.ExchangeID) error {
		info, err := journal.Info(tx, account, id)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			info = &record.ExchangeInfo{ID: id.String(), Started: id.Time()}
		}
		if !sel.Matches(info) {
			return nil
		}
		return visit(selected{id, info, err})
	}
	last := func(item *badger.Item) error {
		return one(kv.ExchangeID(item.Key()[len(item.Key())-len(kv.ExchangeID{}):]))
	}
	for _, text := range sel.Exchanges {
		id, _ := kv.ParseExchangeID(text)
		if err := one(id); err != nil {
			return err
		}
	}
	for _, text := range sel.Sessions {
		id, _ := kv.ParseSessionID(text)
		if err := kv.EachItem(ctx, tx, kv.MemberPrefix(account, id), last); err != nil {
			return err
		}
	}
	if len(sel.Exchanges)+len(sel.Sessions) > 0 {
		return nil
	}
	end := sel.Until.Add(clockSlack)
	var from []byte
	if after, ok := kv.ParseExchangeID(sel.After); ok {
		from = kv.ExchangeKey(kv.SpaceExchange, account, after)
	}
	for item := range kv.Items(tx, kv.SpaceKeyOf(kv.SpaceExchange, account), from) {
		if err := ctx.Err(); err != nil {
			return err
		}
		if _, id, ok := kv.SplitExchangeKey(item.Key()); ok && inOrder && !sel.Until.IsZero() && id.Time().After(end) {
			return nil
		}
		if err := last(item); errors.Is(err, kv.ErrEnough) {
			return nil
		} else if err != nil {
			return err
		}
	}
	return nil
}

const eraseBatch = 50 // exchanges erased in one operation

func erasureKey(account kv.AccountNumber, id kv.TimeID) []byte {
	return append(kv.SpaceKeyOf(kv.SpaceErasure, account), id[:]...)
}

// Erase erases the selected exchanges of an account in the background, and returns a receipt for following it. With
// dryRun it counts at once and erases nothing. A running exchange is left alone and counted. A session that was merged
// into another one stands for that one, which the receipt names too.
//
// The content of an exchange may also be in the requests of later exchanges, which repeat the history; to erase a
// conversation, erase its session.
func (s Archive) Erase(ctx context.Context, account string, sel record.Selection, dryRun bool) (*record.Erasure, error) {
	number, err := s.accounts.Number(account)
	if err != nil {
		return nil, err
	}
	if err := sel.Check(); err != nil {
		return nil, err
	}
	if dryRun {
		return s.eraseDryRun(ctx, number, sel)
	}
	e, id, err := s.newErasure(ctx, number, sel, record.ErasedByRequest)
	if err != nil {
		return nil, err
	}
	s.keeper.add(erasureRef{number, id})
	return e, nil
}

func (s *core) newErasure(ctx context.Context, account kv.AccountNumber, sel record.Selection, reason string) (*record.Erasure, kv.TimeID, error) {
	now := time.Now().UTC()
	id := s.ids.Next(now)
	e := &record.Erasure{
		ID: id.Text(record.ErasurePrefix), State: record.ErasureQueued,
		Selection: sel, Reason: reason, Created: now,
	}
	err := s.writer.DoOf(ctx, account, s.writer.Freeing(func(g *writing.Group, w *commit.Op) error {
		e.Selection = followInCommit(g, account, sel)
		return putErasure(g, w, erasureRef{account, id}, e)
	}))
	if err != nil {
		return nil, id, kv.AsStorageError(err, "the erasure could not be put on record")
	}
	return e, id, nil
}

func (s *core) eraseDryRun(ctx context.Context, account kv.AccountNumber, sel record.Selection) (*record.Erasure, error) {
	e := &record.Erasure{State: record.ErasureDone, Selection: sel, Reason: record.ErasedByRequest, DryRun: true, Created: time.Now().UTC()}
	seen, perSession := make(map[kv.ExchangeID]struct{}), make(map[string]int64)
	err := s.db.View(func(tx *badger.Txn) error {
		e.Selection = s.followMerges(tx, account, sel)
		return eachSelected(ctx, tx, account, &e.Selection, false, func(x selected) error {
			if _, twice := seen[x.id]; twice {
				return nil
			}
			seen[x.id] = struct{}{}
			open, err := x.open(tx, account)
			switch {
			case err != nil:
				return err
			case open:
				e.Open++
			default:
				e.Exchanges++
				perSession[x.info.Session]++
			}
			return nil
		})
	})
	if err == nil {
		err = s.db.View(func(tx *badger.Txn) error {
			for text, n := range perSession {
				if id, ok := kv.ParseSessionID(text); ok {
					if r, err := s.sessions.Get(tx, kv.SessionRef{Account: account, ID: id}); err == nil && r.Exchanges <= n {
						e.Sessions++
					}
				}
			}
			return nil
		})
	}
	if err != nil {
		return nil, kv.AsStorageError(err, "the exchanges could not be counted; run mneme check")
	}
	e.Completed = time.Now().UTC()
	return e, nil
}

// Erasure returns the receipt of an erasure of the account.
func (s Archive) Erasure(account, id string) (*record.Erasure, error) {
	key, ok := kv.ParseID(record.ErasurePrefix, id)
	number, known := s.accounts.Find(account)
	if !ok || !known {
		return nil, codec.Errorf(codec.KindNotFound, "no erasure %q", id)
	}
	e := new(record.Erasure)
	err := s.db.View(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, erasureKey(number, key))
		if err != nil {
			return err
		}
		return record.Decode(value, e)
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, codec.Errorf(codec.KindNotFound, "no erasure %q", id)
	}
	if err != nil {
		return nil, kv.StorageError(err, "erasure %s cannot be read; run mneme check", id)
	}
	return e, nil
}

// erasureRef identifies an erasure of an account.
type erasureRef struct {
	account kv.AccountNumber
	id      kv.TimeID
}

func putErasure(g *writing.Group, w *commit.Op, ref erasureRef, e *record.Erasure) error {
	value, err := kv.EncodeRecord(e)
	if err == nil {
		g.Put(w, erasureKey(ref.account, ref.id), value)
	}
	return err
}

// runErasure carries out a receipt, resuming where it stopped. The receipt is written with each batch, so that it
// counts what was erased even if the process ends in between.
func (s *core) runErasure(ctx context.Context, ref erasureRef) error {
	e := new(record.Erasure)
	err := s.db.View(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, erasureKey(ref.account, ref.id))
		if err != nil {
			return err
		}
		return record.Decode(value, e)
	})
	if err != nil || e.State == record.ErasureDone {
		return err
	}
	if s.opts.Accepted != nil && e.State == record.ErasureQueued && e.Reason == record.ErasedByRequest {
		if err := s.opts.Accepted(s.accounts.Name(ref.account), e); err != nil {
			return err
		}
	}
	s.finishMoves(ctx) // what was merged into a session is erased with it
	e.State, e.Open = record.ErasureRunning, 0
	if err := s.writer.MakeRoom(ctx, func(g *writing.Group, w *commit.Op) error { return putErasure(g, w, ref, e) }); err != nil {
		return err
	}
	err = s.eraseSelection(ctx, ref.account, &e.Selection, e, func(g *writing.Group, w *commit.Op) error { return putErasure(g, w, ref, e) })
	if err != nil {
		return err
	}
	freed, err := s.sweep(ctx, ref.account)
	e.Objects += freed.objects
	e.Bytes += freed.bytes
	if err != nil {
		return err
	}
	e.State, e.Completed = record.ErasureDone, time.Now().UTC()
	if e.Reason == record.ErasedByRetention && e.Exchanges > 0 {
		s.log.Info("retention has erased exchanges", "account", s.accounts.Name(ref.account), "exchanges", e.Exchanges,
			"sessions", e.Sessions, "because", ruleOf(&e.Selection), "until", e.Selection.Until, "erasure", e.ID)
	}
	return s.writer.MakeRoom(ctx, func(g *writing.Group, w *commit.Op) error {
		g.Announce(w, record.Event{Kind: record.ErasureCompleted, Erasure: e.ID, Time: e.Completed, Account: ref.account})
		return putErasure(g, w, ref, e)
	})
}

// eraseSelection erases the selected exchanges and counts them in e, which note records with each batch.
func (s *core) eraseSelection(ctx context.Context, account kv.AccountNumber, sel *record.Selection, e *record.Erasure, note writing.Change) error {
	var batch []kv.ExchangeID
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := s.writer.MakeRoom(ctx, func(g *writing.Group, w *commit.Op) error {
			for _, id := range batch {
				eraseExchange(g, w, account, id, e)
			}
			return note(g, w)
		})
		batch = batch[:0]
		return err
	}
	err := s.db.View(func(tx *badger.Txn) error {
		return eachSelected(ctx, tx, account, sel, e.Reason == record.ErasedByRetention, func(x selected) error {
			if batch = append(batch, x.id); len(batch) < eraseBatch {
				return nil
			}
			return flush()
		})
	})
	return errors.Join(err, flush())
}

// eraseExchange removes an exchange and everything that belongs to it from the store, and counts it in e. Blocks are
// left to the sweep. An open or missing exchange is left alone. If the record is unreadable, the session keeps its
// counts.
func eraseExchange(g *writing.Group, w *commit.Op, account kv.AccountNumber, id kv.ExchangeID, e *record.Erasure) {
	info, readable := journal.Latest(g.Group, account, id)
	if info == nil {
		return
	}
	if readable && info.Outcome == record.OutcomeOpen || !readable && g.NotedOpen(account, id) {
		e.Open++
		return
	}
	for _, space := range [...]byte{kv.SpaceExchange, kv.SpaceRequest} {
		g.Put(w, kv.ExchangeKey(space, account, id), nil)
	}
	e.Bytes += eraseResponse(g, w, account, id)
	if key := conversation.AnswerLink(account, info); key != nil {
		g.Put(w, key, nil)
	}
	g.Erases = true // readers forget what they have read
	notes.Erase(g.Txn(w), account, id)
	e.Exchanges++
	if readable {
		g.RollUpErased(w, account, info)
	}
	if r, ref := g.Sessions.Belongs(account, id); r != nil {
		eraseTurn(g, w, ref, id)
		g.Sessions.Changes.Note(ref, id)
		g.Sessions.DropSummary(w, ref)
		g.Put(w, kv.ExchangeKey(kv.SpaceBelongs, account, id), nil)
		g.Put(w, kv.MemberKey(account, ref.ID, id), nil)
		if leaveSession(g, w, ref, r, info) {
			e.Sessions++
		}
	}
}

func eraseResponse(g *writing.Group, w *commit.Op, account kv.AccountNumber, id kv.ExchangeID) (size int64) {
	for item := range kv.Items(g.Committed(), kv.ExchangeKey(kv.SpaceResponse, account, id), nil) {
		size += item.EstimatedSize()
		g.Put(w, item.KeyCopy(nil), nil)
	}
	return size
}

// eraseTurn removes the turn of an exchange, with its vectors and the histories that lead to it.
func eraseTurn(g *writing.Group, w *commit.Op, ref kv.SessionRef, id kv.ExchangeID) {
	if turn := turns.At(g, ref.Account, id); turn != nil {
		for _, history := range turn.Histories {
			g.Put(w, kv.HistoryKey(ref.Account, ref.ID, history), nil)
		}
	}
	turns.EraseVectors(g, w, ref.Account, id)
	g.Put(w, kv.ExchangeKey(kv.SpaceTurn, ref.Account, id), nil)
}

// leaveSession subtracts an exchange from its session's counts; gone reports that it was the last one, and that the
// session went with it.
func leaveSession(g *writing.Group, w *commit.Op, ref kv.SessionRef, r *record.StoredSession, info *record.ExchangeInfo) (gone bool) {
	r.Exchanges--
	r.Count(info, -1)
	r.Sketch(info, -1)
	if r.Exchanges > 0 {
		g.Sessions.PutSession(w, ref, r)
		return false
	}
	g.Put(w, kv.SessionKey(ref.Account, ref.ID), nil)
	g.Sessions.Changes.NoteSession(ref)
	for _, link := range r.Links {
		if slices.Equal(g.Get(link), ref.ID[:]) {
			g.Put(w, link, nil)
		}
	}
	return true
}
