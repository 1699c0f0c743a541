package store

import (
	"context"
	"errors"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Blocks and nodes are not counted: a sweep marks what the skeletons of an account still reach and frees the rest. It
// runs behind the requests, after exchanges were erased.
//
// While it runs, new exchanges go on referring to what is stored. The writer therefore notes whatever they touch from
// the moment the sweep begins, and frees nothing that was touched. A request that was planned before a batch of objects
// is freed is in the writer's queue before it ([core.planning]); one planned later no longer finds them known.

const sweepBatch = 1000 // objects freed in one operation

// sweepWatch is the writer's side of a sweep.
type sweepWatch struct {
	account kv.AccountNumber
	touched map[uint64]struct{} // objects referred to since the sweep began, and what they reach
}

// touch notes that something new refers to a stored object, and so to all it reaches.
func (g *gathering) touch(ref kv.ObjectRef) {
	if g.sweep == nil || g.sweep.account != ref.Account {
		return
	}
	for todo := []kv.ObjectRef{ref}; len(todo) > 0; {
		ref, todo = todo[len(todo)-1], todo[:len(todo)-1]
		if _, done := g.sweep.touched[ref.Short()]; done {
			continue
		}
		g.sweep.touched[ref.Short()] = struct{}{}
		reached, err := references(g.read(), ref)
		switch {
		case err == nil, errors.Is(err, badger.ErrKeyNotFound): // not found: it comes with this group
		case errors.Is(err, errPieces): // for check to say
		case g.err == nil:
			g.err = err
		}
		todo = append(todo, reached...)
	}
}

// references gives the objects that a stored object names.
func references(tx *badger.Txn, ref kv.ObjectRef) (named []kv.ObjectRef, err error) {
	item, err := tx.Get(ref.Key())
	if err != nil || ref.Space == kv.SpaceBlock && item.UserMeta() != markPieces {
		return nil, err
	}
	err = item.Value(func(value []byte) error {
		named, err = referencesIn(nil, ref.Account, value)
		return err
	})
	return named, err
}

// referencesIn appends the objects that a skeleton, a node, or a block of pieces names: a list of pieces behind one byte.
func referencesIn(dst []kv.ObjectRef, account kv.AccountNumber, value []byte) ([]kv.ObjectRef, error) {
	if len(value) == 0 {
		return dst, errPieces
	}
	p := pieces{rest: value[1:]}
	for p.next() {
		switch {
		case p.err != nil:
			return dst, p.err
		case p.kind == pieceNode:
			dst = append(dst, kv.Node(account, p.hash))
		case p.kind != pieceLiteral:
			dst = append(dst, kv.Block(account, p.hash))
		}
	}
	return dst, nil
}

// swept is what a sweep has freed.
type swept struct {
	objects int64
	bytes   int64
}

// sweep frees the blocks and nodes of an account that nothing refers to. Only the keeper calls it, one at a time.
func (s *core) sweep(ctx context.Context, account kv.AccountNumber) (freed swept, err error) {
	err = s.makeRoom(ctx, func(g *gathering, _ *write) error {
		g.sweep = &sweepWatch{account: account, touched: make(map[uint64]struct{})}
		return nil
	})
	if err != nil {
		return freed, err
	}
	defer func() {
		end := s.makeRoom(context.WithoutCancel(ctx), func(g *gathering, _ *write) error { g.sweep = nil; return nil })
		err = errors.Join(err, end)
	}()
	tx := s.db.NewTransaction(false)
	defer tx.Discard()
	live, err := markLive(ctx, tx, account)
	if err != nil {
		return freed, err
	}
	for _, space := range [...]byte{kv.SpaceNode, kv.SpaceBlock} {
		err := eachDead(ctx, tx, space, account, live, func(batch []kv.ObjectRef, size int64) error {
			n, err := s.free(ctx, batch)
			freed.objects += n
			freed.bytes += size * n / int64(len(batch))
			return err
		})
		if err != nil {
			return freed, err
		}
	}
	return freed, nil
}

// liveSet is the objects that skeletons reach.
type liveSet struct {
	nodes  map[uint64]struct{}
	blocks []uint64 // sorted once complete
}

func (l *liveSet) has(ref kv.ObjectRef) bool {
	if ref.Space == kv.SpaceNode {
		_, ok := l.nodes[ref.Short()]
		return ok
	}
	_, ok := slices.BinarySearch(l.blocks, ref.Short())
	return ok
}

// add marks an object and reports whether it is a node that was not marked before.
func (l *liveSet) add(ref kv.ObjectRef) (newNode bool) {
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

func (l *liveSet) sort() {
	slices.Sort(l.blocks)
	l.blocks = slices.Compact(l.blocks)
}

// markLive marks what the account's skeletons reach, and what blocks that are marked name.
func markLive(ctx context.Context, tx *badger.Txn, account kv.AccountNumber) (*liveSet, error) {
	live := &liveSet{nodes: make(map[uint64]struct{})}
	var todo []kv.ObjectRef
	err := kv.EachItem(ctx, tx, kv.SpaceKeyOf(kv.SpaceRequest, account), func(item *badger.Item) error {
		return item.Value(func(skeleton []byte) (err error) {
			todo, err = referencesIn(todo[:0], account, skeleton)
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
			inside, err = referencesIn(inside, account, value)
			return err
		})
	})
	for _, ref := range inside {
		live.add(ref)
	}
	live.sort()
	return live, err
}

// markAll marks objects and everything that nodes among them reach.
func (l *liveSet) markAll(tx *badger.Txn, todo []kv.ObjectRef) error {
	for len(todo) > 0 {
		ref := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		if !l.add(ref) {
			continue
		}
		named, err := references(tx, ref)
		if err != nil && !errors.Is(err, badger.ErrKeyNotFound) { // what is missing is for check to say
			return err
		}
		todo = append(todo, named...)
	}
	return nil
}

// eachDead visits the objects of a space that are not live, in batches, with the size of each batch.
func eachDead(ctx context.Context, tx *badger.Txn, space byte, account kv.AccountNumber, live *liveSet, visit func([]kv.ObjectRef, int64) error) error {
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
	err := kv.EachItem(ctx, tx, kv.SpaceKeyOf(space, account), func(item *badger.Item) error {
		ref, ok := kv.SplitObjectKey(item.Key())
		if !ok || live.has(ref) {
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

// free deletes objects that nothing has touched since the sweep began, and tells how many.
func (s *core) free(ctx context.Context, batch []kv.ObjectRef) (n int64, err error) {
	w := &write{frees: true, done: make(chan struct{}), change: func(g *gathering, w *write) error {
		for _, ref := range batch {
			if _, touched := g.sweep.touched[ref.Short()]; touched {
				continue
			}
			if _, fresh := g.fresh[ref]; !fresh {
				g.put(w, ref.Key(), nil)
				n++
			}
		}
		return nil
	}}
	s.planning.Lock()
	for _, ref := range batch {
		s.known.remove(ref)
	}
	err = s.queue.send(ctx, w)
	s.planning.Unlock()
	if err != nil {
		return 0, err
	}
	<-w.done
	return n, w.err
}
