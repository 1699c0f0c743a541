package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/notes"
	"github.com/mnemeproxy/mneme/store/internal/sessions"
	"github.com/mnemeproxy/mneme/store/internal/turns"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

const eraseBatch = 50 // exchanges erased in one operation

// Erasures erases exchanges.
type Erasures struct {
	db       *files.Database
	writer   *writing.Writer
	accounts *identity.AccountTable
	sessions *sessions.Records
	planner  *blob.Planner
	ids      *kv.IDSource
	moves    *Moves
	accepted func(account string, e *record.Erasure) error
	log      *slog.Logger

	queue queue[Ref]
}

// retryErasure is the wait before a failed erasure is retried.
const retryErasure = time.Minute

// Begin puts an erasure on record and queues it.
func (s *Erasures) Begin(ctx context.Context, account kv.AccountNumber, sel record.Selection, reason string) (*record.Erasure, error) {
	e, ref, err := s.Note(ctx, account, sel, reason)
	if err == nil {
		s.queue.add(ref)
	}
	return e, err
}

// Note puts an erasure on record that its caller carries out.
func (s *Erasures) Note(ctx context.Context, account kv.AccountNumber, sel record.Selection, reason string) (*record.Erasure, Ref, error) {
	now := time.Now().UTC()
	ref := Ref{account, s.ids.Next(now)}
	e := &record.Erasure{
		ID: ref.ID.Text(record.ErasurePrefix), State: record.ErasureQueued,
		Selection: sel, Reason: reason, Created: now,
	}
	err := s.writer.DoOf(ctx, account, s.writer.Freeing(func(g *writing.Group, w *commit.Op) error {
		e.Selection = g.Sessions.FollowMerged(account, sel)
		return putReceipt(g, w, ref, e)
	}))
	if err != nil {
		return nil, ref, kv.AsStorageError(err, "the erasure could not be put on record")
	}
	return e, ref, nil
}

// Count is a dry run: it counts what an erasure would erase.
func (s *Erasures) Count(ctx context.Context, account kv.AccountNumber, sel record.Selection) (*record.Erasure, error) {
	e := &record.Erasure{State: record.ErasureDone, Selection: sel, Reason: record.ErasedByRequest, DryRun: true, Created: time.Now().UTC()}
	seen, perSession := make(map[kv.ExchangeID]struct{}), make(map[string]int64)
	err := s.db.View(func(tx *badger.Txn) error {
		e.Selection = s.sessions.FollowMerged(tx, account, sel)
		return journal.EachSelected(ctx, tx, account, &e.Selection, false, func(x journal.Selected) error {
			if _, twice := seen[x.ID]; twice {
				return nil
			}
			seen[x.ID] = struct{}{}
			open, err := x.Open(tx, account)
			switch {
			case err != nil:
				return err
			case open:
				e.Open++
			default:
				e.Exchanges++
				perSession[x.Info.Session]++
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

// runQueued works off the queue. A failed erasure is retried later, and does not block others.
func (s *Erasures) runQueued(ctx context.Context) {
	for ctx.Err() == nil {
		ref, ok := s.queue.take()
		if !ok {
			return
		}
		err := s.Run(ctx, ref)
		if err == nil || ctx.Err() != nil || errors.Is(err, badger.ErrKeyNotFound) {
			continue
		}
		s.log.Error("an erasure failed; it is tried again", "error", err)
		time.AfterFunc(retryErasure, func() { s.queue.add(ref) })
	}
}

// Run carries out a receipt, resuming where it stopped. The receipt is written with each batch, so that it
// counts what was erased even if the process ends in between.
func (s *Erasures) Run(ctx context.Context, ref Ref) error {
	e, err := receipt(s.db, ref)
	if err != nil || e.State == record.ErasureDone {
		return err
	}
	if s.accepted != nil && e.State == record.ErasureQueued && e.Reason == record.ErasedByRequest {
		if err := s.accepted(s.accounts.Name(ref.Account), e); err != nil {
			return err
		}
	}
	s.moves.finishAll(ctx) // what was merged into a session is erased with it
	e.State, e.Open = record.ErasureRunning, 0
	if err := s.writer.MakeRoom(ctx, func(g *writing.Group, w *commit.Op) error { return putReceipt(g, w, ref, e) }); err != nil {
		return err
	}
	err = s.erase(ctx, ref.Account, &e.Selection, e, func(g *writing.Group, w *commit.Op) error { return putReceipt(g, w, ref, e) })
	if err != nil {
		return err
	}
	freed, err := s.sweep(ctx, ref.Account)
	e.Objects += freed.objects
	e.Bytes += freed.bytes
	if err != nil {
		return err
	}
	e.State, e.Completed = record.ErasureDone, time.Now().UTC()
	if e.Reason == record.ErasedByRetention && e.Exchanges > 0 {
		s.log.Info("retention has erased exchanges", "account", s.accounts.Name(ref.Account), "exchanges", e.Exchanges,
			"sessions", e.Sessions, "because", ruleOf(&e.Selection), "until", e.Selection.Until, "erasure", e.ID)
	}
	return s.writer.MakeRoom(ctx, func(g *writing.Group, w *commit.Op) error {
		g.Announce(w, record.Event{Kind: record.ErasureCompleted, Erasure: e.ID, Time: e.Completed, Account: ref.Account})
		return putReceipt(g, w, ref, e)
	})
}

// Expire carries out an erasure by retention at once.
func (s *Erasures) Expire(ctx context.Context, account kv.AccountNumber, sel record.Selection) error {
	_, ref, err := s.Note(ctx, account, sel, record.ErasedByRetention)
	if err != nil {
		return err
	}
	return s.Run(ctx, ref)
}

// ruleOf names the setting behind an erasure by retention.
func ruleOf(sel *record.Selection) string {
	if sel.ByAge {
		return "retention.max_age"
	}
	return "retention.max_bytes"
}

// erase erases the selected exchanges and counts them in e, which note records with each batch.
func (s *Erasures) erase(ctx context.Context, account kv.AccountNumber, sel *record.Selection, e *record.Erasure, note writing.Change) error {
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
		return journal.EachSelected(ctx, tx, account, sel, e.Reason == record.ErasedByRetention, func(x journal.Selected) error {
			if batch = append(batch, x.ID); len(batch) < eraseBatch {
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
	e.Bytes += eraseResponse(g, w, account, id) + int64(len(info.Part))
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
		turns.Erase(g, w, ref, id)
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
