package sessions

import (
	"bytes"
	"iter"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// mostShown is how many records that were ahead are kept for readers whose view is from before they were stored.
const mostShown = 1 << 10

// Records are the sessions as readers see them: the newest record of a session may be ahead of the stored one. Its methods
// may be called from any goroutine.
type Records struct {
	mu    sync.RWMutex
	shown map[kv.SessionRef]*shownSession
	past  []*shownSession // those of shown that are stored
}

// shownSession is the record of a session as of the last commit that changed it.
type shownSession struct {
	ref     kv.SessionRef
	record  record.StoredSession
	version uint64 // of that commit
	stored  bool   // the store has this record or a newer one
}

// NewRecords returns the records of a store that is opened.
func NewRecords() *Records { return &Records{shown: make(map[kv.SessionRef]*shownSession)} }

// follow takes over what a group has changed.
func (a *Records) follow(writer *ahead, version uint64) {
	if len(writer.changed) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ref := range writer.changed {
		s, shown := writer.records[ref], a.shown[ref]
		switch {
		case s == nil && shown != nil && !shown.stored:
			shown.stored = true
			a.past = append(a.past, shown)
		case s == nil:
		default:
			if shown == nil || shown.stored {
				shown = &shownSession{ref: ref}
				a.shown[ref] = shown
			}
			shown.record, shown.version = *s.record, version
		}
	}
	for len(a.past) > mostShown {
		if past := a.past[0]; a.shown[past.ref] == past {
			delete(a.shown, past.ref)
		}
		a.past[0] = nil
		a.past = a.past[1:]
	}
}

// show returns a copy of a record that is newer than the stored one of a version; nil: there is none.
func (a *Records) show(ref kv.SessionRef, version uint64) *record.StoredSession {
	a.mu.RLock()
	defer a.mu.RUnlock()
	shown := a.shown[ref]
	if shown == nil || shown.version < version {
		return nil
	}
	r := shown.record
	return &r
}

// Get returns the newest record of a session that exists in a view. A view that may be open for longer than a
// second needs another one for that: see mostShown.
func (a *Records) Get(tx *badger.Txn, ref kv.SessionRef) (*record.StoredSession, error) {
	item, err := tx.Get(kv.SessionKey(ref.Account, ref.ID))
	if err != nil {
		return nil, err
	}
	return a.Newest(ref, item)
}

// Newest returns the newest record of a session; item is its stored record.
func (a *Records) Newest(ref kv.SessionRef, item *badger.Item) (*record.StoredSession, error) {
	if r := a.show(ref, item.Version()); r != nil {
		return r, nil
	}
	return decode(item)
}

// Place returns the cursor of a session in the order of all; any other text is returned unchanged.
func (a *Records) Place(tx *badger.Txn, account kv.AccountNumber, text string) (string, error) {
	id, ok := kv.ParseSessionID(text)
	if !ok || !id.IsNamed() {
		return text, nil
	}
	r, err := a.Get(tx, kv.SessionRef{Account: account, ID: id})
	if err != nil {
		return "", err
	}
	for _, link := range r.Links {
		if record.IsBeginLink(link) {
			return kv.TimeID(link[len(link)-len(kv.TimeID{}):]).Text(kv.SessionPrefix), nil
		}
	}
	return id.Position(r.Created).Text(kv.SessionPrefix), nil
}

// named returns the sessions whose ids have no time, within a window.
func (a *Records) named(tx *badger.Txn, w *kv.Window, account kv.AccountNumber) iter.Seq2[kv.TimeID, kv.SessionID] {
	return func(yield func(kv.TimeID, kv.SessionID) bool) {
		w.Walk(tx, append(kv.SpaceKeyOf(kv.SpaceLink, account), record.ByBegin), func(position kv.TimeID, item *badger.Item) bool {
			value, err := item.ValueCopy(nil)
			if err != nil || len(value) != len(kv.SessionID{}) {
				return true // a check finds it
			}
			return yield(position, kv.SessionID(value))
		})
	}
}

// Each visits the sessions within a window in the order in which they began, until visit returns false. The item
// is valid only during the call.
func (a *Records) Each(tx *badger.Txn, w *kv.Window, account kv.AccountNumber, visit func(kv.SessionID, *badger.Item) bool) {
	next, stop := iter.Pull2(a.named(tx, w, account))
	defer stop()
	position, name, some := next()
	going := true
	visitNamed := func() {
		if item, err := tx.Get(kv.SessionKey(account, name)); err == nil {
			going = visit(name, item)
		}
		position, name, some = next()
	}
	timed := w.Below(kv.FirstNamed)
	timed.Walk(tx, kv.SpaceKeyOf(kv.SpaceSession, account), func(id kv.TimeID, item *badger.Item) bool {
		for going && some && bytes.Compare(position[:], id[:]) < 0 != w.Backwards {
			visitNamed()
		}
		going = going && visit(kv.SessionID(id), item)
		return going
	})
	for going && some {
		visitNamed()
	}
}

// FollowMerged is [record.Selection.Follow] in a view.
func (a *Records) FollowMerged(tx *badger.Txn, account kv.AccountNumber, sel record.Selection) record.Selection {
	return sel.Follow(func(session string) string {
		id, _ := kv.ParseSessionID(session)
		r, err := a.Get(tx, kv.SessionRef{Account: account, ID: id})
		if err != nil {
			return "" // it does not exist, or is unreadable
		}
		return r.Merged
	})
}
