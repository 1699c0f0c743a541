package store

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

const (
	keepEvery    = 10 * time.Minute // interval of retention and space reclamation
	noteEvery    = 15 * time.Second // a start after a kill reads the tables that were written since the last note
	rewriteAbove = 0.5              // share of a value log file that must be dead for it to be rewritten
	compactAbove = 0.05             // the same on request
	retryErasure = time.Minute      // wait before a failed erasure is retried
)

// keeper is the goroutine that erases, enforces retention, and reclaims space.
type keeper struct {
	mu    sync.Mutex
	queue []erasureRef
	gone  []kv.AccountNumber // deleted accounts whose data is not freed yet

	compacting sync.Mutex // held while value logs are rewritten: Badger merges, and rewrites, for one caller at a time

	signal wake.Signal // a queue is not empty
	cancel context.CancelFunc
	done   chan struct{}
}

func (k *keeper) start(s *core) {
	var ctx context.Context
	ctx, k.cancel = context.WithCancel(context.Background())
	k.done, k.signal = make(chan struct{}), wake.New()
	k.queue, k.gone = s.unfinishedErasures(), s.unfinishedDeletions()
	go func() {
		defer close(k.done)
		s.keep(ctx)
	}()
}

// stop ends the goroutine. A running erasure resumes at the next start.
func (k *keeper) stop() {
	k.cancel()
	<-k.done
}

// add queues an erasure. After the goroutine has ended it does nothing: the erasure resumes at the next start.
func (k *keeper) add(ref erasureRef) {
	k.mu.Lock()
	k.queue = append(k.queue, ref)
	k.mu.Unlock()
	k.signal.Notify()
}

func (k *keeper) take() (ref erasureRef, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.queue) == 0 {
		return ref, false
	}
	ref, k.queue = k.queue[0], k.queue[1:]
	return ref, true
}

// addDeletion is add for the data of a deleted account.
func (k *keeper) addDeletion(account kv.AccountNumber) {
	k.mu.Lock()
	k.gone = append(k.gone, account)
	k.mu.Unlock()
	k.signal.Notify()
}

func (k *keeper) takeDeletion() (account kv.AccountNumber, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.gone) == 0 {
		return 0, false
	}
	account, k.gone = k.gone[0], k.gone[1:]
	return account, true
}

func (s *core) keep(ctx context.Context) {
	s.finishMoves(ctx)
	tick, note := time.NewTicker(keepEvery), time.NewTicker(noteEvery)
	defer tick.Stop()
	defer note.Stop()
	for {
		s.runErasures(ctx)
		s.runDeletions(ctx)
		if ctx.Err() == nil && s.db.ReadNext() {
			select {
			case <-note.C:
				s.noteFiles()
			default:
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-s.keeper.signal:
		case <-note.C:
			s.noteFiles()
		case <-tick.C:
			s.tidy(ctx)
		}
	}
}

func (s *core) tidy(ctx context.Context) {
	if err := s.retain(ctx, time.Now()); err != nil && ctx.Err() == nil {
		s.log.Error("retention failed; it is tried again", "error", err)
	}
	if err := s.audit.Expire(ctx, time.Now()); err != nil && ctx.Err() == nil {
		s.log.Error("old acts of administration could not be forgotten; it is tried again", "error", err)
	}
	s.db.QueueDaily(time.Now())
	if s.keeper.compacting.TryLock() {
		s.giveBack(ctx, rewriteAbove)
		s.keeper.compacting.Unlock()
	}
}

// noteFiles notes which files are settled, for a start after a kill.
func (s *core) noteFiles() {
	if err := s.db.NoteSettled(); err != nil {
		s.log.Error("the files of the store could not be noted; a start after a kill reads all of them", "error", err)
	}
}

// runErasures works off the queue. A failed erasure is retried later, and does not block others.
func (s *core) runErasures(ctx context.Context) {
	for ctx.Err() == nil {
		ref, ok := s.keeper.take()
		if !ok {
			return
		}
		err := s.runErasure(ctx, ref)
		if err == nil || ctx.Err() != nil || errors.Is(err, badger.ErrKeyNotFound) {
			continue
		}
		s.log.Error("an erasure failed; it is tried again", "error", err)
		time.AfterFunc(retryErasure, func() { s.keeper.add(ref) })
	}
}

// unfinishedErasures finds the erasures that an earlier process did not finish.
func (s *core) unfinishedErasures() (refs []erasureRef) {
	err := kv.EachRecord(s.db, []byte{kv.SpaceErasure}, func(key, value []byte) error {
		var e record.Erasure
		account, id, ok := kv.SplitExchangeKey(key)
		if err := record.Decode(value, &e); err != nil {
			s.log.Error("the receipt of an erasure cannot be read", "error", err)
			return nil
		}
		if ok && e.State != record.ErasureDone {
			refs = append(refs, erasureRef{account, kv.TimeID(id)})
		}
		return nil
	})
	if err != nil {
		s.log.Error("the erasures cannot be read", "error", err)
	}
	return refs
}

// giveBack rewrites value log files of which more than a share is dead, so that the volume gets their space back.
func (s *core) giveBack(ctx context.Context, share float64) {
	for ctx.Err() == nil && s.writer.Gate.AllowsFreeing() == nil && s.db.SoundToRewrite(share) {
		if err := s.db.RunValueLogGC(ctx, share, func(keys [][]byte) error { return s.eraseAgain(ctx, keys) }); err != nil {
			if !errors.Is(err, badger.ErrNoRewrite) && !errors.Is(err, badger.ErrRejected) {
				s.log.Error("space could not be given back", "error", err)
			}
			return
		}
	}
}

// eraseAgain deletes keys that do not exist, see [files.Database.RunValueLogGC].
func (s *core) eraseAgain(ctx context.Context, keys [][]byte) error {
	return s.writer.MakeRoom(ctx, func(g *writing.Group, w *commit.Op) error {
		for _, key := range keys {
			if !g.Has(key) {
				g.Put(w, key, nil)
			}
		}
		return nil
	})
}

// Compact reclaims as much space as possible, at the cost of rewriting most of the store. It may run while requests are
// served. If a table is damaged it changes nothing: everything after the damage would be lost.
func (s Upkeep) Compact(ctx context.Context) error {
	s.keeper.compacting.Lock()
	defer s.keeper.compacting.Unlock()
	if err := s.writer.Gate.AllowsFreeing(); err != nil {
		return err
	}
	s.db.QueueAll(time.Now())
	for s.db.ReadNext() {
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	if name := s.db.Damaged(); name != "" {
		return codec.Errorf(codec.KindStorage, "nothing was compacted, because %s is damaged: get out what can be read with mneme recover", name)
	}
	if err := s.mergeTables(ctx); err != nil {
		return kv.StorageError(err, "the store could not be compacted; see the log")
	}
	s.giveBack(ctx, compactAbove)
	return ctx.Err()
}

// mergeTables merges all tables, and what is in memory with them, so that the database knows which values are dead. Most is
// merged while others write; they wait for the rest.
func (s *core) mergeTables(ctx context.Context) error {
	if err := s.db.Flatten(2); err != nil {
		return err
	}
	mark := func(g *writing.Group, w *commit.Op) error {
		g.Put(w, files.MergeMark, []byte{1})
		return nil
	}
	if err := s.writer.MakeRoom(ctx, mark); err != nil {
		return err
	}
	if err := s.writer.MakeRoom(ctx, func(*writing.Group, *commit.Op) error { return s.db.MergeNew() }); err != nil {
		return err
	}
	return s.db.Flatten(2)
}
