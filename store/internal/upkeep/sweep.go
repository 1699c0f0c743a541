package upkeep

import (
	"context"
	"errors"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
)

// A sweep runs in the background, after exchanges were erased. A request that was planned before a batch of objects is
// freed is in the writer's queue before it ([writing.Writer.Planning]); one planned later no longer finds them known.

// swept is what a sweep has freed.
type swept struct {
	objects int64
	bytes   int64
}

// sweep frees the blocks and nodes of an account that nothing refers to. Only the keeper calls it, one at a time.
func (s *Erasures) sweep(ctx context.Context, account kv.AccountNumber) (freed swept, err error) {
	err = s.writer.MakeRoom(ctx, func(g *writing.Group, _ *commit.Op) error { g.Blobs.Watch(account); return nil })
	if err != nil {
		return freed, err
	}
	defer func() {
		end := s.writer.MakeRoom(context.WithoutCancel(ctx), func(g *writing.Group, _ *commit.Op) error { g.Blobs.Unwatch(); return nil })
		err = errors.Join(err, end)
	}()
	tx := s.db.NewTransaction(false)
	defer tx.Discard()
	live, err := blob.MarkLive(ctx, tx, account)
	if err != nil {
		return freed, err
	}
	err = live.EachDead(ctx, tx, func(batch []kv.ObjectRef, size int64) error {
		n, err := s.free(ctx, batch)
		freed.objects += n
		freed.bytes += size * n / int64(len(batch))
		return err
	})
	return freed, err
}

// free deletes objects that nothing has touched since the sweep began, and tells how many.
func (s *Erasures) free(ctx context.Context, batch []kv.ObjectRef) (n int64, err error) {
	w := s.writer.Freeing(func(g *writing.Group, w *commit.Op) error {
		for _, key := range g.Blobs.Free(batch) {
			w.Add(commit.Entry{Key: key})
			n++
		}
		return nil
	})
	s.writer.Planning.Lock()
	for _, ref := range batch {
		s.planner.Known.Delete(ref)
	}
	err = s.writer.Send(ctx, w)
	s.writer.Planning.Unlock()
	if err != nil {
		return 0, err
	}
	<-w.Done
	return n, w.Err
}
