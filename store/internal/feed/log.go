package feed

import (
	"encoding/binary"
	"slices"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Log is the log as the writer sees it: it notes what each group changes, and the changes are committed with the group.
type Log struct {
	feed  *Feed
	last  uint64    // highest number assigned
	noted []*Change // of the group that is being built
}

// Note notes that the turn of an exchange has changed or, for the zero exchange, the session.
func (l *Log) Note(ref kv.SessionRef, id kv.ExchangeID) *Change {
	return l.note(NewChange(ref.Account, id, ref.ID))
}

// NoteTurn is Note where the ids are known as text, too.
func (l *Log) NoteTurn(ref kv.SessionRef, id kv.ExchangeID, session, exchange string) *Change {
	return l.note(&Change{Account: ref.Account, Exchange: exchange, Session: session, Place: kv.ExchangeRef{Account: ref.Account, ID: id}, In: ref.ID})
}

// NoteSession notes that a session has changed.
func (l *Log) NoteSession(ref kv.SessionRef) { l.Note(ref, kv.ExchangeID{}) }

// NoteEnded notes that an exchange has ended and has to be digested.
func (l *Log) NoteEnded(ref kv.SessionRef, id kv.ExchangeID) *Change {
	c := l.Note(ref, id)
	c.Undigested = true
	return c
}

func (l *Log) note(c *Change) *Change {
	l.last++
	c.Seq = l.last
	l.noted = append(l.noted, c)
	return c
}

// Noted returns the changes of the group that the writer builds.
func (l *Log) Noted() []*Change { return l.noted }

// Assigned returns the highest number of a change.
func (l *Log) Assigned() uint64 { return l.last }

// Records returns the group's additions to the log. They must be committed before the changes themselves: a crash in
// between leaves a log that reports too much, and what was not committed is done and noted again.
func (l *Log) Records() (records []commit.Entry) {
	l.feed.coming.Store(l.last)
	for rest := l.noted; len(rest) > 0; {
		n := 1
		for n < min(len(rest), changesTogether) && rest[n].Seq == rest[n-1].Seq+1 {
			n++
		}
		value := make([]byte, 0, n*ChangeSize)
		for _, c := range rest[:n] {
			value = append(binary.BigEndian.AppendUint32(value, uint32(c.Account)), c.Place.ID[:]...)
			value = append(value, c.In[:]...)
		}
		records = append(records, commit.Entry{Key: Key(Logged, rest[n-1].Seq), Value: value})
		rest = rest[n:]
	}
	return records
}

// PutAside writes changes to records of a stage, and adds the records with their number of changes to into.
func (l *Log) PutAside(w *commit.Op, s Stage, changes []*Change, into map[uint64]int) {
	for some := range slices.Chunk(changes, asidePerRecord) {
		value := make([]byte, 0, len(some)*AsideSize)
		for _, c := range some {
			id := c.Place.ID
			if s == StageSessions {
				id = kv.ExchangeID(c.In)
			}
			value = append(binary.BigEndian.AppendUint32(value, uint32(c.Account)), id[:]...)
		}
		l.last++
		w.Add(commit.Entry{Key: Key(byte(s), l.last), Value: value})
		into[l.last] = len(some)
	}
}

// Announce reports a commit to the stages. whole is false for a failed one, whose changes may partly exist.
func (l *Log) Announce(whole bool) {
	f, changes := l.feed, l.noted
	if !whole {
		changes = nil
	}
	before := f.committed.Load()
	if before == l.last {
		return
	}
	f.mu.Lock()
	l.feed.coming.Store(l.last)
	f.committed.Store(l.last)
	look := f.announceDigests(before, changes, whole)
	switch {
	case !whole:
		f.logged = l.last
	case len(changes) > 0: // the commit may also have assigned numbers to changes put aside
		f.logged = changes[len(changes)-1].Seq
	}
	f.recent.add(l.last, changes, whole && f.slowest() < l.last) // otherwise nothing reads
	if f.digestStage().position < f.recent.from {                // changes that are not in memory may come twice
		f.waiting.from(l.last)
	}
	f.mu.Unlock()
	if look {
		f.waiting.signal.Notify()
	}
	f.changed.Notify()
}

// Settled begins the changes of the next group.
func (l *Log) Settled() {
	clear(l.noted)
	l.noted = l.noted[:0]
}
