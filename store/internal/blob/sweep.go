package blob

import (
	"context"
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Blocks and nodes have no reference counts: a sweep marks what the skeletons of an account still reach and frees the
// rest.
//
// While it runs, new exchanges may refer to stored objects. The batch therefore notes those from [Batch.Watch] on, and
// frees none of them.

// sweepBatch is how many objects are freed in one operation.
const sweepBatch = 1000

// sweepWatch is the batch's side of a sweep.
type sweepWatch struct {
	account kv.AccountNumber
	touched map[uint64]struct{} // objects referred to since the sweep began, and what they reach
}

// Watch starts to note which objects of an account are referred to.
func (b *Batch) Watch(account kv.AccountNumber) {
	b.sweep = &sweepWatch{account: account, touched: make(map[uint64]struct{})}
}

// Unwatch ends what [Batch.Watch] began.
func (b *Batch) Unwatch() { b.sweep = nil }

// Free removes objects and returns the keys to delete: of those that nothing has referred to since [Batch.Watch].
func (b *Batch) Free(objects []kv.ObjectRef) (keys [][]byte) {
	for _, ref := range objects {
		if _, touched := b.sweep.touched[ref.Short()]; touched {
			continue
		}
		if _, fresh := b.fresh[ref]; !fresh {
			b.freed[ref] = struct{}{}
			keys = append(keys, ref.Key())
		}
	}
	return keys
}

// touch notes that something new refers to a stored object, and so to everything it reaches.
func (b *Batch) touch(ref kv.ObjectRef) {
	if b.sweep == nil || b.sweep.account != ref.Account {
		return
	}
	for todo := []kv.ObjectRef{ref}; len(todo) > 0; {
		ref, todo = todo[len(todo)-1], todo[:len(todo)-1]
		if _, done := b.sweep.touched[ref.Short()]; done {
			continue
		}
		b.sweep.touched[ref.Short()] = struct{}{}
		reached, err := references(b.read(), ref)
		switch {
		case err == nil, errors.Is(err, badger.ErrKeyNotFound): // not found: it is added by this group
		case errors.Is(err, errPieces): // reported by check
		default:
			b.fail(err)
		}
		todo = append(todo, reached...)
	}
}

// references returns the objects that a stored object refers to.
func references(tx *badger.Txn, ref kv.ObjectRef) (named []kv.ObjectRef, err error) {
	item, err := tx.Get(ref.Key())
	if err != nil || ref.Space == kv.SpaceBlock && item.UserMeta() != markPieces {
		return nil, err
	}
	err = item.Value(func(value []byte) error {
		named, err = References(nil, ref.Account, value)
		return err
	})
	return named, err
}

// Live is the objects of an account that its skeletons reach.
type Live struct {
	account kv.AccountNumber
	nodes   map[uint64]struct{}
	blocks  []uint64 // sorted once complete
}

// MarkLive marks what the account's skeletons reach, and what marked blocks refer to.
func MarkLive(ctx context.Context, tx *badger.Txn, account kv.AccountNumber) (*Live, error) {
	live := &Live{account: account, nodes: make(map[uint64]struct{})}
	var todo []kv.ObjectRef
	err := kv.EachItem(ctx, tx, kv.SpaceKeyOf(kv.SpaceRequest, account), func(item *badger.Item) error {
		return item.Value(func(skeleton []byte) (err error) {
			todo, err = References(todo[:0], account, skeleton)
			if err != nil {
				return err
			}
			return live.markAll(tx, todo)
		})
	})
	if err != nil {
		return nil, err
	}
	live.sort()
	var inside []kv.ObjectRef
	err = kv.EachItem(ctx, tx, kv.SpaceKeyOf(kv.SpaceBlock, account), func(item *badger.Item) error {
		ref, ok := kv.SplitObjectKey(item.Key())
		if !ok || item.UserMeta() != markPieces || !live.has(ref) {
			return nil
		}
		return item.Value(func(value []byte) (err error) {
			inside, err = References(inside, account, value)
			return err
		})
	})
	for _, ref := range inside {
		live.add(ref)
	}
	live.sort()
	return live, err
}

// EachDead visits the objects of the account that are not live, in batches, with the bytes of each batch in the database.
func (l *Live) EachDead(ctx context.Context, tx *badger.Txn, visit func(batch []kv.ObjectRef, size int64) error) error {
	for _, space := range [...]byte{kv.SpaceNode, kv.SpaceBlock} {
		if err := l.eachDead(ctx, tx, space, visit); err != nil {
			return err
		}
	}
	return nil
}

func (l *Live) eachDead(ctx context.Context, tx *badger.Txn, space byte, visit func([]kv.ObjectRef, int64) error) error {
	var (
		batch []kv.ObjectRef
		size  int64
	)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := visit(batch, size)
		batch, size = batch[:0], 0
		return err
	}
	err := kv.EachItem(ctx, tx, kv.SpaceKeyOf(space, l.account), func(item *badger.Item) error {
		ref, ok := kv.SplitObjectKey(item.Key())
		if !ok || l.has(ref) {
			return nil
		}
		batch = append(batch, ref)
		size += item.EstimatedSize()
		if len(batch) < sweepBatch {
			return nil
		}
		return flush()
	})
	if err != nil {
		return err
	}
	return flush()
}

func (l *Live) has(ref kv.ObjectRef) bool {
	if ref.Space == kv.SpaceNode {
		_, ok := l.nodes[ref.Short()]
		return ok
	}
	_, ok := slices.BinarySearch(l.blocks, ref.Short())
	return ok
}

// add marks an object and reports whether it is a node that was not marked before.
func (l *Live) add(ref kv.ObjectRef) (newNode bool) {
	if ref.Space == kv.SpaceNode {
		_, had := l.nodes[ref.Short()]
		l.nodes[ref.Short()] = struct{}{}
		return !had
	}
	if len(l.blocks) == cap(l.blocks) {
		l.sort()
		l.blocks = slices.Grow(l.blocks, max(1024, len(l.blocks)))
	}
	l.blocks = append(l.blocks, ref.Short())
	return false
}

func (l *Live) sort() {
	slices.Sort(l.blocks)
	l.blocks = slices.Compact(l.blocks)
}

// markAll marks objects and everything that nodes among them reach.
func (l *Live) markAll(tx *badger.Txn, todo []kv.ObjectRef) error {
	for len(todo) > 0 {
		ref := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !l.add(ref) {
			continue
		}
		named, err := references(tx, ref)
		if err != nil && !errors.Is(err, badger.ErrKeyNotFound) { // missing objects are reported by check
			return err
		}
		todo = append(todo, named...)
	}
	return nil
}
