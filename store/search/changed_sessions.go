package search

import (
	"context"
	"math"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// A changed session is indexed sessionDelay later, so that a busy one is read once for many turns, or earlier before
// the next search for sessions of the account.
const (
	sessionDelay = 30 * time.Second
	sessionLook  = 5 * time.Second
	sessionBatch = 128
	// mostBefore is how many batches a search indexes itself before it runs.
	mostBefore = 2
	// mostChanged bounds the sessions waiting in memory. Others are found in the log of changes when these are done.
	mostChanged = 32 << 10
)

// changedSessions are changed sessions that the lexical index has yet to index, or to write to disk.
type changedSessions struct {
	turn    *semaphore.Weighted // held to use the fields up to mu
	waiting []*changedSession   // earliest change first
	known   map[sessionRef]struct{}

	unconfirmed
}

type sessionRef struct {
	account store.AccountNumber
	session string
}

// changedSession is a session with its first change that is not indexed yet.
type changedSession struct {
	sessionRef
	change *store.Change
	since  time.Time // when it was seen; zero if it had been put aside
	batch  *pendingBatch
}

// look finds the sessions that have changed since the last call.
func (s *changedSessions) look(feed store.Feed) error {
	for len(s.waiting) < mostChanged {
		b, err := feed.Next(store.StageSessions, math.MaxUint64, batchSize)
		if err != nil || b == nil {
			return err
		}
		s.add(b)
		feed.Done(store.StageSessions, b)
		clear(b.Changes) // waiting has what is needed of them: a busy store makes 100,000 within sessionDelay, 230 bytes each
	}
	return nil
}

func (s *changedSessions) add(b *store.Batch) {
	now, had := time.Now(), len(s.waiting)
	for _, c := range b.Changes {
		ref := sessionRef{c.Account, c.Session}
		if _, waits := s.known[ref]; waits || c.Session == "" {
			continue
		}
		w := &changedSession{sessionRef: ref, change: c}
		if c.Seq > 0 {
			w.since = now
		}
		s.waiting = append(s.waiting, w)
		if s.known == nil {
			s.known = make(map[sessionRef]struct{})
		}
		s.known[ref] = struct{}{}
	}
	batch := s.unconfirmed.add(b, len(s.waiting)-had)
	for _, w := range s.waiting[had:] {
		w.batch = batch
	}
}

// forget starts over with nothing.
func (s *changedSessions) forget() {
	s.waiting, s.known = nil, nil
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batches = nil
}

// remove removes indexed sessions from the list.
func (s *changedSessions) remove(taken []*changedSession) {
	for _, w := range taken {
		delete(s.known, w.sessionRef)
	}
	s.waiting = slices.DeleteFunc(s.waiting, func(w *changedSession) bool {
		_, waits := s.known[w.sessionRef]
		return !waits
	})
}

// done notes that sessions are on disk, or left for later.
func (s *changedSessions) done(taken []*changedSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range taken {
		w.batch.left--
	}
}

// followSessions maintains the documents of sessions until ctx is done.
func (x *Index) followSessions(ctx context.Context) {
	tick := time.NewTicker(sessionLook)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		for x.unavailable() == nil {
			before := time.Now().Add(-sessionDelay)
			taken, err := x.takeUpSessions(ctx, func(w *changedSession) bool { return w.since.Before(before) })
			if err != nil && ctx.Err() == nil {
				x.log.Error("sessions could not be indexed; they are tried again", "error", err)
			}
			if err != nil || taken < sessionBatch {
				break
			}
		}
	}
}

// takeUpSessions indexes changed sessions that are due, at most sessionBatch. One caller at a time does so, so that an
// older state never overwrites a newer one. A damaged session does not block others; it is tried again at the next
// start, or when it changes.
func (x *Index) takeUpSessions(ctx context.Context, due func(*changedSession) bool) (taken int, err error) {
	select {
	case <-x.opened: // those who start an index wait for their turn
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	if err := x.sessions.turn.Acquire(ctx, 1); err != nil {
		return 0, err
	}
	defer x.sessions.turn.Release(1)
	if x.unwritten.Load().full() {
		return 0, errFull
	}
	if err := x.sessions.look(x.feed); err != nil {
		return 0, err
	}
	began := time.Now()
	var read, damaged []*changedSession
	var documents []lexical.Document
	var gone []lexical.Key
	for _, w := range x.sessions.waiting {
		if len(read)+len(damaged) == sessionBatch {
			break
		}
		if !due(w) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		d, err := readSession(x.store, w.account, w.session)
		if err != nil {
			x.log.Error("a session cannot be read, and is not found by searches; run mneme check", "session", w.session, "error", err)
			damaged = append(damaged, w)
			continue
		}
		read = append(read, w)
		if d == nil {
			gone = append(gone, lexical.Key{Account: uint32(w.account) | sessionSpace, ID: w.session})
			continue
		}
		documents = append(documents, d.lexical(w.account))
	}
	if len(read) > 0 {
		release, err := x.acquire(ctx)
		if err != nil {
			return 0, err
		}
		defer release()
		if err := x.apply(ctx, documents, gone, func() { x.sessions.done(read) }); err != nil {
			return 0, err
		}
	}
	for _, w := range damaged {
		w.batch.Later = append(w.batch.Later, w.change)
	}
	x.sessions.done(damaged)
	x.feed.Worked(store.StageSessions, len(read)+len(damaged), began)
	x.sessions.remove(append(damaged, read...))
	return len(read) + len(damaged), nil
}

// changedBefore returns a function that reports whether a session had changed before this call: a caller that indexes
// only these comes to an end.
func (x *Index) changedBefore() func(*changedSession) bool {
	last := x.feed.Last()
	return func(w *changedSession) bool { return w.change.Seq <= last }
}

// errFull is the error of indexing sessions while too many wait for the disk.
var errFull = codec.Errorf(codec.KindStorage, "the search index cannot be written to disk at present; see the log of the proxy")
