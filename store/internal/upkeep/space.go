package upkeep

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
)

const (
	rewriteAbove = 0.5  // share of a value log file that must be dead for it to be rewritten
	compactAbove = 0.05 // the same on request
)

// Space gives the volume back what the store no longer needs.
type Space struct {
	db     *files.Database
	writer *writing.Writer
	log    *slog.Logger

	turn sync.Mutex // held while value logs are rewritten: Badger merges, and rewrites, for one caller at a time
}

// GiveBack gives back what is worth a rewrite, unless the space is being compacted.
func (s *Space) GiveBack(ctx context.Context) {
	if s.turn.TryLock() {
		s.giveBack(ctx, rewriteAbove)
		s.turn.Unlock()
	}
}

// giveBack rewrites value log files of which more than a share is dead, so that the volume gets their space back.
func (s *Space) giveBack(ctx context.Context, share float64) (logs int) {
	for ctx.Err() == nil && s.writer.Gate.AllowsFreeing() == nil && s.db.SoundToRewrite(share) {
		if err := s.db.RunValueLogGC(ctx, share, func(keys [][]byte) error { return s.eraseAgain(ctx, keys) }); err != nil {
			if !errors.Is(err, badger.ErrNoRewrite) && !errors.Is(err, badger.ErrRejected) {
				s.log.Error("space could not be given back", "error", err)
			}
			return logs
		}
		logs++
	}
	return logs
}

// eraseAgain deletes keys that do not exist, see [files.Database.RunValueLogGC].
func (s *Space) eraseAgain(ctx context.Context, keys [][]byte) error {
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
func (s *Space) Compact(ctx context.Context) error {
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
	if _, err := s.Rewrite(ctx, compactAbove); err != nil {
		return kv.StorageError(err, "the store could not be compacted; see the log")
	}
	return ctx.Err()
}

// Rewrite merges all tables, and rewrites the value log files of which more than a share is dead. logs counts them.
func (s *Space) Rewrite(ctx context.Context, share float64) (logs int, err error) {
	s.turn.Lock()
	defer s.turn.Unlock()
	if err := s.mergeTables(ctx); err != nil {
		return 0, err
	}
	return s.giveBack(ctx, share), nil
}

// mergeTables merges all tables, and what is in memory with them, so that the database knows which values are dead. Most is
// merged while others write; they wait for the rest.
func (s *Space) mergeTables(ctx context.Context) error {
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
