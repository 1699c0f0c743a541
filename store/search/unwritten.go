package search

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// What is in the lexical index is found at once and written to disk a little later, many batches together. It
// is confirmed when it is on disk: so a crash loses nothing, and what was not written comes again.

// mostUnwritten is how many bytes of texts may be in memory alone before no more are indexed.
const mostUnwritten = 32 << 20

// unwrittenWarning is how long turns wait for the disk before the log says so.
const unwrittenWarning = 10 * time.Second

// unwritten is what one lexical index holds that has not been confirmed yet.
type unwritten struct {
	mu      sync.Mutex
	bytes   int            // of texts that are in memory alone
	written []*store.Batch // of turns, on disk
}

// grow counts bytes that are indexed, or, below 0, that are on disk.
func (u *unwritten) grow(bytes int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.bytes += bytes
}

// full reports whether something has to be written before more is indexed.
func (u *unwritten) full() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.bytes >= mostUnwritten
}

// add notes that a batch of turns is on disk.
func (u *unwritten) add(b *store.Batch) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.written = append(u.written, b)
}

// confirm confirms what has been written. What cannot be now stays for the next call.
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

// apply adds documents to the lexical index; written is called when they are on disk.
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

// awaitRoom waits until more may be indexed.
func (x *Index) awaitRoom(ctx context.Context) {
	for began, warned := time.Now(), false; x.unwritten.Load().full() && ctx.Err() == nil; {
		if waited := time.Since(began); waited > unwrittenWarning && !warned {
			x.log.Error("the search index cannot be written to disk; turns are not indexed until it can", "dir", x.dir)
			warned = true
		}
		x.await(ctx, true)
	}
}
