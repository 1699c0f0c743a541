package sessions

import (
	"math"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// An exchange changes the record of its session when it begins and when it ends. What it changes there can be counted
// again from the exchanges, so the record is not stored with each change: it stays in memory, ahead of the one in the
// store, until it has to be stored for another reason, or one of the bounds below is exceeded. After a crash the records
// that were ahead are made again from their exchanges. The log of changes leads to those whose exchanges have ended, and
// the notes of open exchanges to the others: see recount.go.

// Bounds on the records that are ahead: they bound the memory that they take, and the time of a start after a crash.
const (
	mostAhead     = 2 << 10 // records
	mostBehind    = 8 << 10 // changes in the log since the first that a stored record lacks
	MostRecounted = 500     // exchanges of a session; the record of a larger one is always stored
	storedAtOnce  = 32      // records stored together, because each time costs a cursor
)

// ahead are the records that the store does not have yet.
type ahead struct {
	most    int // mostAhead, but in tests
	records map[kv.SessionRef]*aheadSession
	first   []*aheadSession // of records, by since; also some that are in it no more
	changed []kv.SessionRef // in the present group: they are ahead, or no longer
	cursor  uint64          // the stored records have all changes up to this number of the log
	next    uint64          // cursor once the group is committed
}

// aheadSession is a session whose record is ahead.
type aheadSession struct {
	ref     kv.SessionRef
	record  *record.StoredSession
	since   uint64 // last number of the log before the first change that is not stored
	changed bool   // in the present group
	stored  bool   // it is ahead no more
}

// atKey is at for the key of a record.
func (a *ahead) atKey(key []byte) *record.StoredSession {
	account, id, _ := kv.SplitSessionKey(key)
	return a.at(kv.SessionRef{Account: account, ID: id})
}

// at returns the record of a session that is ahead; nil: none. A caller that changes it must put it.
func (a *ahead) at(ref kv.SessionRef) *record.StoredSession {
	if s := a.records[ref]; s != nil {
		return s.record
	}
	return nil
}

// put notes that a record is ahead; last is the last number of the log before the change.
func (a *ahead) put(ref kv.SessionRef, r *record.StoredSession, last uint64) {
	s := a.records[ref]
	if s == nil {
		s = &aheadSession{ref: ref, since: last}
		a.records[ref] = s
		a.first = append(a.first, s)
	}
	s.record = r
	if !s.changed {
		s.changed = true
		a.changed = append(a.changed, ref)
	}
}

// leave notes that a session's record is stored, or deleted, with the present group.
func (a *ahead) leave(key []byte) {
	account, id, _ := kv.SplitSessionKey(key)
	ref := kv.SessionRef{Account: account, ID: id}
	s := a.records[ref]
	if s == nil {
		return
	}
	delete(a.records, ref)
	s.stored, s.record = true, nil
	if !s.changed {
		a.changed = append(a.changed, ref)
	}
}

// oldest returns the record that has been ahead for longest; nil: none is.
func (a *ahead) oldest() *aheadSession {
	for len(a.first) > 0 && a.first[0].stored {
		a.first[0] = nil
		a.first = a.first[1:]
	}
	if len(a.first) == 0 {
		return nil
	}
	return a.first[0]
}

// settle forgets what the group has changed, which is committed.
func (a *ahead) settle() {
	for _, ref := range a.changed {
		if s := a.records[ref]; s != nil {
			s.changed = false
		}
	}
	a.changed = a.changed[:0]
}

// Count puts a session's record after a change that can be counted again from an exchange that is in the log of
// changes, or among the open ones.
func (g *Writing) Count(w *commit.Op, ref kv.SessionRef, r *record.StoredSession) {
	a, last := &g.ahead, g.Changes.Assigned()
	if g.Starting || r.Exchanges >= MostRecounted {
		g.PutSession(w, ref, r)
		return
	}
	a.put(ref, r, last)
	if len(a.records) > a.most || a.oldest().since+mostBehind < last {
		g.storeSessions(w, storedAtOnce, 0)
	}
}

// storeSessions stores the records that have been ahead for longest: up to a number of them, and all that lack changes up
// to a number of the log.
func (g *Writing) storeSessions(w *commit.Op, many int, upTo uint64) {
	a := &g.ahead
	for s := a.oldest(); s != nil && (many > 0 || s.since < upTo); s = a.oldest() {
		g.PutSession(w, s.ref, s.record)
		many--
	}
	a.next = g.Changes.Assigned()
	if s := a.oldest(); s != nil {
		a.next = s.since
	}
	w.Add(feed.Cursor(feed.Counted, a.next))
}

// StoreCounted stores the records that lack changes up to a number of the log, which is removed.
func (g *Writing) StoreCounted(_ *commit.Group, w *commit.Op, upTo uint64) {
	if s := g.ahead.oldest(); s != nil && s.since < upTo {
		g.storeSessions(w, 0, upTo)
	}
}

// StoreAll stores every record that is ahead.
func (g *Writing) StoreAll(w *commit.Op) error {
	if g.ahead.oldest() != nil || g.ahead.cursor < g.Changes.Assigned() {
		g.storeSessions(w, 0, 1<<64-1)
	}
	return g.group.Err()
}

// recount makes the records that a failed group has changed, and all that are ahead, from the store.
func (g *Writing) recount() {
	a := &g.ahead
	refs := a.changed
	for ref := range a.records {
		refs = append(refs, ref)
	}
	clear(a.records)
	a.first, a.changed, a.next = nil, nil, a.cursor
	tx := g.db.NewTransaction(false)
	defer tx.Discard()
	for _, ref := range refs {
		r, err := Stored(tx, ref)
		if err != nil || r.Exchanges >= MostRecounted { // gone, as damaged as it was, or as it should be
			a.changed = append(a.changed, ref)
			continue
		}
		recountStored(tx, ref, r)
		a.put(ref, r, a.cursor)
	}
	g.show(tx.ReadTs())
}

// show makes the changes of a committed group visible to readers.
func (g *Writing) show(version uint64) {
	g.ahead.cursor = g.ahead.next
	g.records.follow(&g.ahead, version)
	g.ahead.settle()
}

// Stored returns the record of a session in the store.
func Stored(tx *badger.Txn, ref kv.SessionRef) (*record.StoredSession, error) {
	item, err := tx.Get(kv.SessionKey(ref.Account, ref.ID))
	if err != nil {
		return nil, err
	}
	return decode(item)
}

func decode(item *badger.Item) (*record.StoredSession, error) {
	r := new(record.StoredSession)
	return r, item.Value(func(value []byte) error { return record.Decode(value, r) })
}

// Lose forgets what is ahead, as a crash does: for tests.
func (g *Writing) Lose() {
	a := &g.ahead
	clear(a.records)
	a.first, a.cursor, a.next = nil, math.MaxUint64, math.MaxUint64 // so that nothing is stored on closing
}

// StoreEarly makes the writer store records of sessions as soon as more than that many are ahead: for tests.
func (g *Writing) StoreEarly(most int) { g.ahead.most = most }
