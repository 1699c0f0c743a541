package search

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Documents in the lexical index are found at once, and written to disk a little later, many batches together. Their batches are
// confirmed when they are on disk. So a crash loses nothing: unwritten changes come again.

// mostUnwritten is how many bytes of unwritten text may be in memory before indexing waits.
const mostUnwritten = 32 << 20

// unwrittenWarning is how long turns may wait for the disk before a warning is logged.
const unwrittenWarning = 10 * time.Second

// unwritten tracks the unconfirmed content of a lexical index.
type unwritten struct {
	bytes           atomic.Int64 // of texts that are not on disk
	turns, sessions unconfirmed
}

// full reports whether indexing has to wait for writing.
func (u *unwritten) full() bool { return u.bytes.Load() >= mostUnwritten }

// unconfirmed are batches of a stage, in its order, that are on disk.
type unconfirmed struct {
	mu      sync.Mutex
	batches []*store.Batch
}

func (u *unconfirmed) add(b *store.Batch) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.batches = append(u.batches, b)
}

// confirm confirms the batches. If that fails, they are left for the next call.
func (u *unconfirmed) confirm(ctx context.Context, feed store.Feed, stage store.Stage) error {
	u.mu.Lock()
	done := slices.Clone(u.batches)
	u.mu.Unlock()
	if err := feed.Confirm(ctx, stage, done...); err != nil {
		return err
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.batches = slices.Delete(u.batches, 0, len(done))
	return nil
}

// confirm confirms what is on disk.
func (x *Index) confirm(ctx context.Context) error {
	u := x.unwritten.Load()
	if err := u.turns.confirm(ctx, x.feed, store.StageWords); err != nil {
		return err
	}
	return u.sessions.confirm(ctx, x.feed, store.StageSessions)
}

// apply adds documents to the lexical index. It calls written when they are on disk.
func (x *Index) apply(ctx context.Context, documents []lexical.Document, gone []lexical.Key, written func()) error {
	u, bytes := x.unwritten.Load(), int64(size(documents))
	u.bytes.Add(bytes)
	err := x.lexical.Apply(ctx, documents, gone, func() {
		u.bytes.Add(-bytes)
		written()
		x.written.Notify()
	})
	if err != nil {
		u.bytes.Add(-bytes)
		if ctx.Err() == nil {
			x.suspect()
		}
	}
	return err
}

// awaitRoom waits until indexing may continue.
func (x *Index) awaitRoom(ctx context.Context) {
	for began, warned := time.Now(), false; x.unwritten.Load().full() && ctx.Err() == nil; {
		if waited := time.Since(began); waited > unwrittenWarning && !warned {
			x.log.Error("the search index cannot be written to disk; turns are not indexed until it can", "dir", x.dir)
			warned = true
		}
		x.await(ctx, true)
	}
}
