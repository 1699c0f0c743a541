package search

import (
	"context"
	"maps"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// What the lexical index has taken up is found at once and written to disk a little later, many batches together. It
// leaves the logs of the store when it is on disk: so a crash loses nothing, and what was not written comes again.

// mostUnwritten is how many bytes of texts may be in memory alone before no more are taken up.
const mostUnwritten = 32 << 20

// unwrittenWarning is how long turns wait for the disk before the log says so.
const unwrittenWarning = 10 * time.Second

// takenUp is what the logs of the store hold of one batch of the lexical index.
type takenUp struct {
	turns    []store.Change
	sessions []store.SessionChange
	bytes    int // of texts
}

// unwritten is what one lexical index has taken up that has not been confirmed yet.
type unwritten struct {
	mu       sync.Mutex
	bytes    int // that are in memory alone
	sessions map[store.SessionChange]struct{}
	unread   map[sessionRef]store.SessionChange // of sessions that are damaged; it stays in the log of the store
	written  takenUp
}

type sessionRef struct {
	account store.AccountNumber
	session string
}

func newUnwritten() *unwritten {
	return &unwritten{sessions: make(map[store.SessionChange]struct{}), unread: make(map[sessionRef]store.SessionChange)}
}

func (u *unwritten) add(t takenUp) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes += t.bytes
	for _, c := range t.sessions {
		u.sessions[c] = struct{}{}
	}
}

// drop forgets what could not be taken up.
func (u *unwritten) drop(t takenUp) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes -= t.bytes
	u.forget(t.sessions)
}

func (u *unwritten) forget(sessions []store.SessionChange) {
	for _, c := range sessions {
		delete(u.sessions, c)
	}
}

// onDisk notes that a batch has been written.
func (u *unwritten) onDisk(t takenUp) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes -= t.bytes
	u.written.turns = append(u.written.turns, t.turns...)
	u.written.sessions = append(u.written.sessions, t.sessions...)
}

// leave notes that a session could not be read, so that it is not read again before it changes.
func (u *unwritten) leave(c store.SessionChange) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.unread[sessionRef{c.Account, c.Session}] = c
}

// known returns a function that reports whether a session is as it was when the index took it up, or could not. It goes by what was taken up
// before it was asked for, so that a session which is confirmed while its mark is read is not taken for one that has changed.
func (u *unwritten) known() func(store.SessionChange) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	taken := maps.Clone(u.sessions)
	return func(c store.SessionChange) bool {
		if _, known := taken[c]; known {
			return true
		}
		u.mu.Lock()
		defer u.mu.Unlock()
		unread, left := u.unread[sessionRef{c.Account, c.Session}]
		return left && unread == c
	}
}

// full tells that no more may be taken up before something is written.
func (u *unwritten) full() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.bytes >= mostUnwritten
}

// confirm takes what has been written out of the logs of the store. What cannot be now stays for the next call.
func (u *unwritten) confirm(ctx context.Context, st *store.Store) error {
	u.mu.Lock()
	written := u.written
	u.mu.Unlock()
	if len(written.turns) > 0 {
		if err := st.Feed().ConfirmChanges(ctx, store.FollowLexical, written.turns); err != nil {
			return err
		}
	}
	if len(written.sessions) > 0 {
		if err := st.Feed().ConfirmSessionChanges(ctx, written.sessions); err != nil {
			return err
		}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forget(written.sessions)
	u.written.turns = u.written.turns[len(written.turns):]
	u.written.sessions = u.written.sessions[len(written.sessions):]
	return nil
}

// apply has the lexical index take up a batch.
func (x *Index) apply(ctx context.Context, documents []lexical.Document, gone []lexical.Key, t takenUp) error {
	u := x.unwritten.Load()
	u.add(t)
	err := x.lexical.Apply(ctx, documents, gone, func() {
		u.onDisk(t)
		select {
		case x.written <- struct{}{}:
		default:
		}
	})
	if err != nil {
		u.drop(t)
		if ctx.Err() == nil {
			x.suspect()
		}
	}
	return err
}

// awaitRoom waits until more may be taken up.
func (x *Index) awaitRoom(ctx context.Context) {
	for began, warned := time.Now(), false; x.unwritten.Load().full() && ctx.Err() == nil; {
		if waited := time.Since(began); waited > unwrittenWarning && !warned {
			x.log.Error("the search index cannot be written to disk; turns are not taken up until it can", "dir", x.dir)
			warned = true
		}
		x.await(ctx, true)
	}
}
