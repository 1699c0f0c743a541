package commit

import (
	"context"
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Change is an operation that looks up records and replaces them.
type Change struct {
	Op
	group *Group
	do    func(*Group, *Op) error
}

// Change returns an operation for the writer's queue.
func (w *Writer) Change(do func(*Group, *Op) error) *Change {
	return &Change{Op: Op{Done: make(chan struct{})}, group: w.Group, do: do}
}

// Freeing is Change for what erases: it goes on where the volume is too full for anything else.
func (w *Writer) Freeing(do func(*Group, *Op) error) *Change {
	c := w.Change(do)
	c.Frees = true
	return c
}

// Build implements [Step].
func (c *Change) Build() error { return c.do(c.group, &c.Op) }

// Update runs a change on the writer's goroutine and waits until it is committed. What it puts is committed together; it
// puts nothing before it fails.
func (w *Writer) Update(ctx context.Context, do func(*Group, *Op) error) error {
	return w.Do(ctx, w.Change(do))
}

// MakeRoom is Update for what erases.
func (w *Writer) MakeRoom(ctx context.Context, do func(*Group, *Op) error) error {
	return w.Do(ctx, w.Freeing(do))
}

// deletedTogether is how many keys are deleted in one operation.
const deletedTogether = 1000

// DeletePrefix deletes every key with a prefix.
func (w *Writer) DeletePrefix(ctx context.Context, db kv.Reader, prefix []byte) error {
	var keys [][]byte
	flush := func() error {
		if len(keys) == 0 {
			return nil
		}
		err := w.MakeRoom(ctx, func(g *Group, o *Op) error {
			for _, key := range keys {
				g.Put(o, key, nil)
			}
			return nil
		})
		keys = keys[:0]
		return err
	}
	err := db.View(func(tx *badger.Txn) error {
		return kv.EachItem(ctx, tx, prefix, func(item *badger.Item) error {
			if keys = append(keys, item.KeyCopy(nil)); len(keys) < deletedTogether {
				return nil
			}
			return flush()
		})
	})
	return errors.Join(err, flush())
}
