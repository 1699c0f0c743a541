package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Large batches are cheaper; small ones are searchable sooner and take less memory.
const (
	batchSize  = 1024    // changes indexed together at most
	batchBytes = 4 << 20 // bytes of text indexed together at most
)

// gatherTime is how long turns collect after a batch, because each batch scans the log of changes once. An idle index
// takes each turn at once.
const gatherTime = 10 * time.Millisecond

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

// follow opens the feed of changes.
func (x *Index) follow(ctx context.Context) error {
	_, err := x.feed.Follow(ctx, store.StageWords)
	if err == nil {
		_, err = x.feed.Follow(ctx, store.StageSessions)
	}
	return err
}

// gather lets turns collect for the next batch, unless a caller waits.
func (x *Index) gather(ctx context.Context) {
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-x.hurry:
	}
}

// retryIndexing is the pause after an index could not be written, because the disk is full for instance.
const retryIndexing = 2 * time.Second

// await waits for something to do.
func (x *Index) await(ctx context.Context, failed bool) {
	var retry <-chan time.Time
	if failed {
		retry = time.After(retryIndexing)
	}
	select {
	case <-ctx.Done():
	case <-retry:
	case <-x.feed.Changed():
	case <-x.written:
	case asked := <-x.rebuild:
		asked <- x.startAnew(ctx)
	}
}

func lexicalDir(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("lexical-%d", lexical.Version))
}

// takeUp indexes the next changes, so that they can be found; full reports that there may be more of them.
func (x *Index) takeUp(ctx context.Context) (taken int, full bool, err error) {
	b, err := x.feed.Next(store.StageWords, math.MaxUint64, batchSize)
	if err != nil {
		return 0, false, err
	}
	if b == nil {
		x.building.Store(false)
		x.progress.signal()
		return 0, false, nil
	}
	u, began := x.unwritten.Load(), time.Now()
	for turns := latest(b.Changes); ; {
		documents, gone, read, err := x.read(ctx, b, turns)
		if err != nil {
			return 0, false, err
		}
		onDisk := func() {}
		if turns = turns[read:]; len(turns) == 0 {
			onDisk = func() { u.turns.add(b) }
		}
		if err := x.apply(ctx, documents, gone, onDisk); err != nil {
			return 0, false, err
		}
		if len(turns) == 0 {
			break
		}
	}
	x.feed.Done(store.StageWords, b)
	x.feed.Worked(store.StageWords, len(b.Changes), began)
	x.progress.signal()
	return len(b.Changes), len(b.Changes) >= batchSize, nil
}

// size returns the bytes of text in documents.
func size(documents []lexical.Document) (bytes int) {
	for i := range documents {
		bytes += len(documents[i].Text) + len(documents[i].Names)
	}
	return bytes
}

// turnRef identifies a turn.
type turnRef struct {
	account  record.AccountNumber
	exchange string
}

// latest returns the last change of each turn.
func latest(changes []*store.Change) []*store.Change {
	last := make(map[turnRef]*store.Change, len(changes))
	for _, c := range changes {
		last[turnRef{c.Account, c.Exchange}] = c
	}
	return slices.DeleteFunc(slices.Clone(changes), func(c *store.Change) bool {
		return c.Exchange == "" || last[turnRef{c.Account, c.Exchange}] != c
	})
}

// read returns the documents for as many turns as a batch has room for. Damaged turns do not block others, and are
// tried again at the next start. The only error is the end of ctx.
func (x *Index) read(ctx context.Context, b *store.Batch, turns []*store.Change) (documents []lexical.Document, gone []lexical.Key, read int, err error) {
	size := 0
	for i, c := range turns {
		if err := ctx.Err(); err != nil {
			return nil, nil, 0, err
		}
		if size >= batchBytes {
			return documents, gone, i, nil
		}
		entry := c.Turn
		if entry == nil {
			stored, err := x.feed.TurnAt(c.Account, c.Exchange)
			if err != nil && !isNotFound(err) {
				x.log.Error("a turn cannot be read, and is not found by searches", "exchange", c.Exchange, "error", err)
				b.Later = append(b.Later, c)
				continue
			}
			entry = &stored
		}
		d := newDocument(entry)
		if c.Turn != nil && x.vectors != nil { // its content is enough for the vectors
			c.Derived = textOf(entry, d)
		}
		c.Turn = nil
		if d != nil {
			document := d.lexical(c.Account)
			documents = append(documents, document)
			size += len(document.Text) + len(document.Names)
		} else {
			gone = append(gone, lexical.Key{Account: uint32(c.Account), ID: c.Exchange})
		}
	}
	return documents, gone, len(turns), nil
}

func isNotFound(err error) bool {
	var e *codec.Error
	return errors.As(err, &e) && e.Kind == codec.KindNotFound
}

// Status returns the state of the index for an account.
func (x *Index) Status(ctx context.Context, account string) (Status, error) {
	number, err := x.store.Accounts().Number(account)
	if err != nil {
		return Status{}, err
	}
	release, err := x.acquire(ctx)
	if errors.Is(err, errMissing) {
		return Status{Lag: x.lag(), Error: errMissing.Message, Stages: x.feed.Stats()}, nil
	}
	if err != nil {
		return Status{}, err
	}
	defer release()
	totals, err := x.lexical.Totals(uint32(number))
	if err != nil {
		return Status{}, unreadable(err)
	}
	status := Status{Lag: x.lag(), Building: x.building.Load(), Documents: totals.Documents, Bytes: lexical.Bytes(x.dir), Stages: x.feed.Stats()}
	if x.vectors != nil {
		status.Vectors, err = x.vectors.statusOf(ctx, number)
	}
	return status, err
}
