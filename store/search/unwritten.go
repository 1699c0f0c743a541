package search

import (
	"context"
	"slices"
	"sync"
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
	mu      sync.Mutex
	bytes   int            // of unwritten texts
	written []*store.Batch // of turns, on disk
}

// grow adds indexed bytes, or subtracts written ones with n < 0.
func (u *unwritten) grow(bytes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes += bytes
}

// full reports whether indexing has to wait for writing.
func (u *unwritten) full() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.bytes >= mostUnwritten
}

// add records that a batch of turns is on disk.
func (u *unwritten) add(b *store.Batch) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.written = append(u.written, b)
}

// confirm confirms the written batches. Those that fail are left for the next call.
func (x *Index) confirm(ctx context.Context) error {
	u := x.unwritten.Load()
	u.mu.Lock()
	written := slices.Clone(u.written)
	u.mu.Unlock()
	if err := x.feed.Confirm(ctx, store.StageWords, written...); err != nil {
		return err
	}
	u.mu.Lock()
	u.written = u.written[len(written):]
	u.mu.Unlock()
	return x.sessions.confirm(ctx, x.feed)
}

// apply adds documents to the lexical index. It calls written when they are on disk.
func (x *Index) apply(ctx context.Context, documents []lexical.Document, gone []lexical.Key, written func()) error {
	u, bytes := x.unwritten.Load(), size(documents)
	u.grow(bytes)
	err := x.lexical.Apply(ctx, documents, gone, func() {
		u.grow(-bytes)
		written()
		select {
		case x.written <- struct{}{}:
		default:
		}
	})
	if err != nil {
		u.grow(-bytes)
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
