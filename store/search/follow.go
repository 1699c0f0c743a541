package search

import (
	"context"
	"math"
	"slices"
	"time"

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
