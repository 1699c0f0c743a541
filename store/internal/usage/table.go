// Package usage counts what accounts take on disk.
package usage

import (
	"context"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"
	"golang.org/x/sync/semaphore"

	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Reading an account's records takes seconds if there are millions. A result that took longer than quick is reused
// for rest times as long as it took, so that however often it is requested, it takes a twentieth of a core.
const (
	quick = 100 * time.Millisecond
	rest  = 20
)

// Table has the latest result of each account.
type Table struct {
	db    *files.Database
	clock func() time.Time

	mu sync.Mutex
	of map[kv.AccountNumber]*latest
}

// NewTable returns a table without results.
func NewTable(db *files.Database, clock func() time.Time) *Table {
	return &Table{db: db, clock: clock, of: make(map[kv.AccountNumber]*latest)}
}

// latest is the latest result. Hold turn to read the other fields, and to compute it again.
type latest struct {
	turn  *semaphore.Weighted // of 1
	usage record.Usage
	until time.Time // usage is reused until then
}

func (t *Table) latest(account kv.AccountNumber) *latest {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.of[account]
	if last == nil {
		last = &latest{turn: semaphore.NewWeighted(1)}
		t.of[account] = last
	}
	return last
}

// Of returns the disk usage of an account. For a large account it may be an earlier result: see [record.Usage.AsOf].
func (t *Table) Of(ctx context.Context, account kv.AccountNumber) (record.Usage, error) {
	last := t.latest(account)
	if err := last.turn.Acquire(ctx, 1); err != nil {
		return record.Usage{}, err
	}
	defer last.turn.Release(1)
	began := t.clock()
	if began.Before(last.until) {
		return last.usage, nil
	}
	u, err := t.compute(ctx, account)
	if err != nil {
		return u, kv.AsStorageError(err, "the account's usage could not be computed; run mneme check")
	}
	ended := t.clock()
	if took := ended.Sub(began); took > quick {
		u.AsOf = began.UTC()
		last.usage, last.until = u, ended.Add(rest*took)
	}
	return u, nil
}

// compute reads all records of the account.
func (t *Table) compute(ctx context.Context, account kv.AccountNumber) (u record.Usage, err error) {
	err = t.db.View(func(tx *badger.Txn) error {
		for _, space := range spaces {
			if err := kv.EachItem(ctx, tx, kv.SpaceKeyOf(space, account), func(item *badger.Item) error { return add(&u, space, item) }); err != nil {
				return err
			}
		}
		return kv.EachItem(ctx, tx, kv.SpaceKeyOf(kv.SpaceErasure, account), func(item *badger.Item) error { return addErasure(&u, item) })
	})
	return u, err
}

// addErasure counts the receipt of an erasure.
func addErasure(u *record.Usage, item *badger.Item) error {
	return item.Value(func(value []byte) error {
		var e record.Erasure
		if record.Decode(value, &e) == nil && e.Reason == record.ErasedByRetention {
			u.ErasedByRetention += e.Exchanges
		}
		return nil
	})
}

// add counts a record of a space.
func add(u *record.Usage, space byte, item *badger.Item) error {
	size := item.EstimatedSize()
	switch space {
	case kv.SpaceBlock, kv.SpaceNode:
		u.StoredBlocks += size
	case kv.SpaceResponse:
		u.StoredResponses += size
	case kv.SpaceTurn:
		u.StoredTurns += size
	case kv.SpaceRequest:
		u.StoredRecords += size
	case kv.SpaceExchange:
		u.StoredRecords += size
		u.Exchanges++
		return item.Value(func(value []byte) error {
			var size record.ExchangeSizes
			if record.Decode(value, &size) == nil { // a damaged record is left to the check; its size still counts
				u.RequestBytes += size.Request
				u.ResponseBytes += size.Response
				u.StoredResponses += int64(len(size.Part))
				u.StoredRecords -= int64(len(size.Part))
			}
			return nil
		})
	case kv.SpaceSession:
		u.Sessions++
		u.StoredSessions += size
	default:
		u.StoredSessions += size
	}
	return nil
}

// SizeOf returns the bytes that an account's exchanges take in the database, and their number.
func (t *Table) SizeOf(ctx context.Context, account kv.AccountNumber) (bytes, exchanges int64, err error) {
	err = t.db.View(func(tx *badger.Txn) error {
		for _, space := range spaces {
			err := kv.EachItem(ctx, tx, kv.SpaceKeyOf(space, account), func(item *badger.Item) error {
				bytes += item.EstimatedSize()
				if space == kv.SpaceExchange {
					exchanges++
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	return bytes, exchanges, err
}

// spaces are the kinds of records that belong to exchanges.
var spaces = [...]byte{
	kv.SpaceExchange, kv.SpaceRequest, kv.SpaceResponse, kv.SpaceBlock, kv.SpaceNode, kv.SpaceSession, kv.SpaceMember, kv.SpaceBelongs,
	kv.SpaceLink, kv.SpaceTurn, kv.SpaceHistory,
}
