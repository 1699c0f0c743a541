package sessions

import (
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Recount stores the records of sessions that an earlier process had only in memory. It runs before anything else
// changes sessions. A new store has no cursor yet.
func Recount(db *files.Database) error {
	b := commit.NewBatch(db)
	defer b.Discard()
	err := db.View(func(tx *badger.Txn) error {
		cursor, known, err := feed.CursorAt(tx, feed.Counted)
		if err != nil || !known {
			return err
		}
		for ref, ended := range Behind(tx, cursor) {
			r, err := Stored(tx, ref)
			if err != nil || r.Exchanges >= MostRecounted {
				continue // a check finds what cannot be read
			}
			// Not all of a session with an open exchange are complete, unless the end of one was lost by damage.
			if !ended && r.Exchanges == membersOf(tx, ref) && r.Completed < r.Exchanges {
				continue
			}
			recountStored(tx, ref, r)
			b.Set(kv.SessionKey(ref.Account, ref.ID), record.Encode(r))
		}
		return b.Err()
	})
	return errors.Join(err, b.Commit())
}

// NoteCounted moves the cursor to the end of the log, once all stored records of sessions have counted it.
func (g *Writing) NoteCounted(db *files.Database) error {
	last := g.Changes.Assigned()
	g.ahead.cursor, g.ahead.next = last, last
	b := commit.NewBatch(db)
	defer b.Discard()
	err := db.View(func(tx *badger.Txn) error {
		if cursor, known, err := feed.CursorAt(tx, feed.Counted); err != nil || known && cursor == last {
			return err
		}
		b.Apply([]commit.Entry{feed.Cursor(feed.Counted, last)})
		return b.Err()
	})
	return errors.Join(err, b.Commit())
}

// Behind returns the sessions whose stored records may lack something of their exchanges: the end of one (true), or
// only that one has begun. What cannot be read is left to a check.
func Behind(tx *badger.Txn, cursor uint64) map[kv.SessionRef]bool {
	ended := make(map[kv.SessionRef]bool)
	for item := range kv.Items(tx, []byte{kv.SpaceOpen}, nil) {
		_ = item.Value(func(value []byte) error {
			account, ids, _ := journal.ReadOpenNote(item.Key(), value)
			for _, id := range ids {
				session, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceBelongs, account, id))
				if err == nil && len(session) == len(kv.SessionID{}) {
					ended[kv.SessionRef{Account: account, ID: kv.SessionID(session)}] = false
				}
			}
			return nil
		})
	}
	feed.EachLogged(tx, cursor, func(ref kv.SessionRef, _ kv.ExchangeID) { ended[ref] = true })
	return ended
}

// membersOf returns how many exchanges a session has.
func membersOf(tx *badger.Txn, ref kv.SessionRef) (n int64) {
	for range kv.Items(tx, kv.MemberPrefix(ref.Account, ref.ID), nil) {
		n++
	}
	return n
}

// recountStored makes what a record has of its exchanges from these, in the order in which they began. One that cannot be read
// counts, without its tokens.
func recountStored(tx *badger.Txn, ref kv.SessionRef, r *record.StoredSession) {
	r.Exchanges, r.Completed, r.Auxiliary = 0, 0, 0
	r.Usage, r.Cost, r.Prompts = record.UsageInfo{Estimated: r.Usage.Estimated}, record.Spending{}, nil
	for member := range kv.Items(tx, kv.MemberPrefix(ref.Account, ref.ID), nil) {
		_, _, id, ok := kv.SplitMemberKey(member.Key())
		if !ok {
			continue // a check finds it
		}
		r.Exchanges++
		var info record.ExchangeInfo
		item, err := tx.Get(kv.ExchangeKey(kv.SpaceExchange, ref.Account, id))
		if err == nil {
			err = item.Value(func(value []byte) error { return record.Decode(value, &info) })
		}
		if err != nil {
			continue
		}
		if info.Started.After(r.Updated) {
			r.Updated = info.Started
		}
		r.AddModel(info.ModelAsked)
		r.NoteOrigin(info.Client(), info.Project)
		if info.Outcome != record.OutcomeOpen {
			r.Count(&info, 1)
			r.Sketch(&info, 1)
		}
		if r.Derived && r.Reply == nil && !r.Replied {
			r.Reply = replyOf(tx, kv.ExchangeRef{Account: ref.Account, ID: id})
		}
	}
}

// replyOf returns the reply key that the turn of an exchange has, if it is the first one of its session.
func replyOf(tx *badger.Txn, of kv.ExchangeRef) []byte {
	value, err := kv.Get(tx, kv.ExchangeKey(kv.SpaceTurn, of.Account, of.ID))
	if err != nil {
		return nil
	}
	turn, err := record.DecodeTurn(value, of.ID, nil)
	if err != nil {
		return nil
	}
	return turn.Reply
}
