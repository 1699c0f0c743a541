package upkeep

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/turns"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// Where the evidence misleads, a person can merge or split sessions. Exchanges move in batches. The move is on record
// before the first one moves. From then on it runs to its end, whether or not the caller waits, and resumes after a
// restart.

const moveBatch = 50 // exchanges moved in one operation

// Moves moves exchanges between sessions.
type Moves struct {
	db     *files.Database
	writer *writing.Writer
	ids    *kv.IDSource
	log    *slog.Logger
}

// move is the record of exchanges that are being moved to another session.
type move struct {
	Into  string `json:"into"`
	First string `json:"first,omitempty"` // the first exchange to move; "": all
}

func moveKey(ref kv.SessionRef) []byte {
	return append(kv.SpaceKeyOf(kv.SpaceMove, ref.Account), ref.ID[:]...)
}

// Merge moves all exchanges of a session into another one of the same account. Links to the first then lead there.
func (s *Moves) Merge(ctx context.Context, source kv.SessionRef, into kv.SessionID) error {
	err := s.finish(ctx, source) // one that an earlier process has begun
	if err == nil {
		err = s.writer.Update(ctx, func(g *writing.Group, w *commit.Op) error {
			if err := refuseMove(g, source, into); err != nil {
				return err
			}
			return BeginMerge(g, w, source, into)
		})
	}
	if err == nil {
		err = s.finish(context.WithoutCancel(ctx), source)
	}
	if err != nil {
		return kv.AsStorageError(err, "the sessions could not be merged; what has begun goes on at the next start")
	}
	return nil
}

// refuseMove returns why no exchange may move from a session to another one now; nil if they may. Erasures and earlier
// moves are carried out on the sessions as they were.
func refuseMove(g *writing.Group, source kv.SessionRef, into kv.SessionID) error {
	_, target := g.Sessions.Session(kv.SessionRef{Account: source.Account, ID: into})
	if id, found := erasing(g, source.Account, source.ID, target.ID); found {
		return conversation.ErasingSession(id.String())
	}
	if g.Has(moveKey(source)) {
		return codec.Errorf(codec.KindConflict, "exchanges of %s are still being moved to another session; try again later", source.ID)
	}
	return nil
}

// BeginMerge merges a session into another one, and records that its exchanges have to move.
func BeginMerge(g *writing.Group, w *commit.Op, source kv.SessionRef, into kv.SessionID) error {
	target, err := conversation.Merge(g.Sessions.Of(w, source.Account), source.ID, into)
	if err != nil {
		return err
	}
	value, err := kv.EncodeRecord(move{Into: target.String()})
	if err == nil {
		g.Put(w, moveKey(source), value)
		g.Sessions.Changes.NoteSession(source)
		g.Sessions.Changes.NoteSession(kv.SessionRef{Account: source.Account, ID: target}) // it may have got a title
	}
	return err
}

// Split moves an exchange of a session, or of the one that it was merged into, and all that began after it there, into a
// new session and returns its id. Links to the session stay; only the ids of moved responses lead to the new one.
func (s *Moves) Split(ctx context.Context, named kv.SessionRef, first kv.ExchangeID) (kv.SessionID, error) {
	var source kv.SessionRef
	target := kv.SessionRef{Account: named.Account, ID: kv.SessionID(s.ids.Next(time.Now()))}
	err := s.finish(ctx, named) // as above
	if err == nil {
		err = s.writer.Update(ctx, func(g *writing.Group, w *commit.Op) (err error) {
			source, err = beginSplit(g, w, named, target, first)
			return err
		})
	}
	if err == nil {
		err = s.finish(context.WithoutCancel(ctx), source)
	}
	if err != nil {
		return kv.SessionID{}, kv.AsStorageError(err, "the session could not be split; what has begun goes on at the next start")
	}
	return target.ID, nil
}

// beginSplit creates the session target, and records that exchanges of a session have to move there: the given one, and
// all that began after it. source is the session that has them, which is another one if the named one was merged.
func beginSplit(g *writing.Group, w *commit.Op, named, target kv.SessionRef, first kv.ExchangeID) (source kv.SessionRef, err error) {
	r, source := g.Sessions.Session(named)
	if r == nil {
		return source, record.NoSession(named.ID.String())
	}
	if err := refuseMove(g, source, source.ID); err != nil {
		return source, err
	}
	there := g.Has(kv.MemberKey(source.Account, source.ID, first))
	if err := conversation.CheckSplit(source.ID.String(), first.String(), there, firstMember(g, source) == first); err != nil {
		return source, err
	}
	value, err := kv.EncodeRecord(move{Into: target.ID.String(), First: first.String()})
	if err != nil {
		return source, err
	}
	g.Sessions.PutSession(w, target, r.SplitOff(target.ID))
	g.Put(w, moveKey(source), value)
	return source, nil
}

func firstMember(g *writing.Group, ref kv.SessionRef) (id kv.ExchangeID) {
	it := g.Committed().NewIterator(badger.IteratorOptions{Prefix: kv.MemberPrefix(ref.Account, ref.ID)})
	defer it.Close()
	if it.Rewind(); it.Valid() {
		id = kv.ExchangeID(it.Item().Key()[5+len(kv.SessionID{}):])
	}
	return id
}

// finish carries out a move's record, batch by batch, and then deletes the record.
func (s *Moves) finish(ctx context.Context, source kv.SessionRef) error {
	for {
		m, members, err := s.movable(source)
		if err != nil || m == nil {
			return err
		}
		into, _ := kv.ParseSessionID(m.Into)
		err = s.writer.Update(ctx, func(g *writing.Group, w *commit.Op) error {
			target := kv.SessionRef{Account: source.Account, ID: into}
			if r, now := g.Sessions.Session(target); r != nil { // it was merged in turn
				target = now
			}
			for _, id := range members {
				moveExchange(g, w, id, source, target)
			}
			if len(members) == 0 {
				g.Put(w, moveKey(source), nil)
			}
			return nil
		})
		if err != nil || len(members) == 0 {
			return err
		}
	}
}

// movable returns a session's move and the next exchanges of it; nil if there is no move.
func (s *Moves) movable(source kv.SessionRef) (m *move, members []kv.ExchangeID, err error) {
	err = s.db.View(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, moveKey(source))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err != nil {
			return err
		}
		m = new(move)
		if err := record.Decode(value, m); err != nil {
			return err
		}
		prefix := kv.MemberPrefix(source.Account, source.ID)
		from := prefix
		if first, ok := kv.ParseExchangeID(m.First); ok {
			from = append(bytes.Clone(prefix), first[:]...)
		}
		for item := range kv.Items(tx, prefix, from) {
			if members = append(members, kv.ExchangeID(item.Key()[len(prefix):])); len(members) == moveBatch {
				break
			}
		}
		return nil
	})
	return m, members, err
}

// moveExchange moves an exchange from one session to another. Its turn is digested again, because it depends on the
// session's earlier messages.
func moveExchange(g *writing.Group, w *commit.Op, id kv.ExchangeID, from, to kv.SessionRef) {
	account := from.Account
	g.Put(w, kv.MemberKey(account, from.ID, id), nil)
	info, _ := journal.Latest(g.Group, account, id) // for an unreadable one, only its membership moves
	if info == nil || !bytes.Equal(g.Get(kv.ExchangeKey(kv.SpaceBelongs, account, id)), from.ID[:]) {
		return
	}
	turns.Erase(g, w, from, id)
	g.Sessions.Changes.NoteSession(from)
	g.Sessions.DropSummary(w, from)
	g.Put(w, kv.MemberKey(account, to.ID, id), []byte{})
	g.Put(w, kv.ExchangeKey(kv.SpaceBelongs, account, id), bytes.Clone(to.ID[:]))
	g.Sessions.LinkResponse(w, to, info)
	in := g.Sessions.Of(w, account)
	conversation.Recount(in, from.ID, info, -1)
	conversation.Recount(in, to.ID, info, 1)
	if g.Sessions.Digests && info.Outcome != record.OutcomeOpen && info.Auxiliary == "" {
		g.Sessions.Changes.NoteEnded(to, id)
	}
}

// finishAll carries out the moves that an earlier process, or others at the moment, have begun.
func (s *Moves) finishAll(ctx context.Context) {
	for _, source := range s.unfinished() {
		if err := s.finish(ctx, source); err != nil && ctx.Err() == nil {
			s.log.Error("a move between sessions could not be finished; it goes on at the next start", "error", err)
		}
	}
}

// unfinished finds the moves that are not finished.
func (s *Moves) unfinished() (sources []kv.SessionRef) {
	err := kv.EachRecord(s.db, []byte{kv.SpaceMove}, func(key, _ []byte) error {
		if account, id, ok := kv.SplitSessionKey(key); ok {
			sources = append(sources, kv.SessionRef{Account: account, ID: id})
		}
		return nil
	})
	if err != nil {
		s.log.Error("unfinished moves of sessions cannot be read", "error", err)
	}
	return sources
}
