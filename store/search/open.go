package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Open starts to follow a store. It returns at once: a lost, damaged or outdated index is rebuilt while searches use the
// part that is finished.
func Open(st *store.Store, opts Options) *Index {
	x := newIndex(st, opts)
	go x.run(x.life)
	if x.vectors != nil {
		go x.vectors.run(x.life)
	}
	return x
}

// newIndex makes an index without its background work.
func newIndex(st *store.Store, opts Options) *Index {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	x := &Index{
		store: st, feed: st.Feed(), dir: opts.Dir, log: opts.Log, life: ctx, cancel: cancel, done: make(chan struct{}),
		opened: make(chan struct{}), rebuild: make(chan chan error),
		damages: damages{doubt: wake.New()},
		hurry:   wake.New(), written: wake.New(), aboutTurn: semaphore.NewWeighted(1),
		forget: opts.Embedder == nil && !opts.LeaveVectors, writeAfter: opts.WriteAfter, searchTimeout: searchTimeout,
	}
	x.unwritten.Store(new(unwritten))
	if opts.Embedder != nil {
		var err error
		if x.vectors, err = newVectors(x, &opts); err != nil {
			opts.Log.Error("there are no vectors; searches use words alone", "embedder", opts.Embedder.Identity(), "error", err)
		}
	}
	return x
}

// open opens the index, or starts a new one.
func (x *Index) open(ctx context.Context) {
	dir := x.lexicalDir()
	if _, err := os.Stat(filepath.Join(dir, completeMark)); err == nil {
		if err = lexical.Whole(dir); err == nil {
			err = x.openLexical(dir)
		}
		if err == nil {
			x.suspect() // finds what opening does not
			return
		}
		x.noticeUnopened(err)
	}
	_ = x.startAnew(ctx) // run tries it again
}

func (x *Index) openLexical(dir string) (err error) {
	x.lexical, err = lexical.Open(dir, lexical.Options{WriteAfter: x.writeAfter, Failed: x.partFailed})
	return err
}

// Close stops following. What has not been indexed yet is indexed after the next start.
func (x *Index) Close() error {
	x.cancel()
	x.beside.end()
	<-x.done
	if x.vectors != nil {
		<-x.vectors.done
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lexical == nil {
		return nil
	}
	x.lexical.Close()
	x.lexical = nil
	return x.confirm(context.Background())
}

func (x *Index) run(ctx context.Context) {
	defer close(x.done)
	for err := x.follow(ctx); err != nil && ctx.Err() == nil; err = x.follow(ctx) {
		x.log.Error("the index cannot follow the store; it is tried again", "error", err)
		sleep(ctx, retryIndexing)
	}
	x.open(ctx)
	close(x.opened)
	var beside sync.WaitGroup
	beside.Go(func() { x.purgeInTime(ctx) })
	beside.Go(func() { x.verifyInDoubt(ctx) })
	defer beside.Wait()
	if x.forget {
		if err := x.feed.Leave(ctx, store.StageVectors); err != nil && ctx.Err() == nil {
			x.log.Error("the log of changes for the vectors could not be ended", "error", err)
		}
	}
	for ctx.Err() == nil {
		x.awaitRoom(ctx)
		select {
		case asked := <-x.rebuild: // even if the index is never idle
			asked <- x.startAnew(ctx)
		default:
		}
		if x.unbegun {
			if x.startAnew(ctx) != nil {
				sleep(ctx, retryIndexing)
			}
			continue
		}
		taken, full, err := x.takeUp(ctx)
		sessions, failed := x.takeUpSessions(ctx) // after the turns, which a caller may wait for
		err = errors.Join(err, failed, x.confirm(ctx))
		switch {
		case err != nil:
			if ctx.Err() == nil {
				x.log.Error("turns could not be indexed; they are tried again", "error", err)
			}
			x.await(ctx, true)
		case taken+sessions == 0:
			x.await(ctx, false)
		case !full:
			x.gather(ctx)
		}
	}
}

// startAnew discards the index and starts a new one; while that fails, missing says why. Everything in an index can be
// rebuilt from the store.
func (x *Index) startAnew(ctx context.Context) error {
	err := x.begin(ctx)
	if err == nil {
		x.missing.Store(nil)
		return nil
	}
	if before := x.missing.Swap(&err); ctx.Err() == nil && (before == nil || (*before).Error() != err.Error()) {
		x.log.Error("the search index cannot be built; it is tried again", "dir", x.dir, "error", err)
	}
	return err
}

// replace replaces the index with an empty one.
func (x *Index) replace() error {
	x.purging.Lock()
	defer x.purging.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lexical != nil {
		x.lexical.Close()
		x.lexical = nil
		x.unwritten.Store(new(unwritten))
	}
	former, err := filepath.Glob(filepath.Join(x.dir, "lexical-*"))
	if err != nil {
		return err
	}
	for _, dir := range former {
		if err := errors.Join(os.Remove(filepath.Join(dir, completeMark)), os.RemoveAll(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the former index: %w", err)
		}
	}
	if err := os.MkdirAll(x.lexicalDir(), 0o700); err != nil {
		return fmt.Errorf("create the directory of the index: %w", err)
	}
	return x.openLexical(x.lexicalDir())
}
