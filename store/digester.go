package store

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// digester is the goroutine of the digest stage: it makes the turns of the exchanges that [Capture.digestAtOnce] has
// left.
type digester struct {
	held atomic.Int64 // bytes of exchanges in memory, see handover.go

	prefixes prefixMemory // of the requests read last

	cancel context.CancelFunc
	done   chan struct{}
}

func (d *digester) start(s *core) {
	if s.opts.Digest == nil {
		return
	}
	d.prefixes.Most = prefixGeneration
	var ctx context.Context
	ctx, d.cancel = context.WithCancel(context.Background())
	d.done = make(chan struct{})
	go func() {
		defer close(d.done)
		for s.digestWaiting(ctx) {
			select {
			case <-s.feed.Undigested():
			case <-ctx.Done():
			}
		}
	}()
}

// stop ends the goroutine after its current step: reading a part of an answer, or digesting what has been read. The
// rest is left for the next start.
func (d *digester) stop() {
	if d.cancel != nil {
		d.cancel()
		<-d.done
	}
}

// Digests are handed to the writer without waiting for each commit, so that they are committed together.
const (
	digestsAhead = 64
	bytesAhead   = 4 << 20 // of the requests and answers digested

	digestBatch = 1024 // changes examined together at most
)

// digestWaiting works until nothing is left; it returns false if the digester has been stopped.
func (s *core) digestWaiting(ctx context.Context) bool {
	err := s.feed.FollowDigests(ctx)
	for more := true; more && err == nil && ctx.Err() == nil; {
		more, err = s.digestNext(ctx)
	}
	if err != nil && ctx.Err() == nil {
		s.feed.CountAgain()
		s.log.Error("exchanges could not be digested; they are tried again when the next one ends", "error", err)
	}
	return ctx.Err() == nil
}

// digestNext digests the ended exchanges in the next batch, if there is one. What cannot be recorded is put aside.
func (s *core) digestNext(ctx context.Context) (more bool, err error) {
	f, ahead := s.feed, digestsUnderWay{}
	b, err := f.Next(StageDigest, math.MaxUint64, digestBatch)
	if b == nil {
		return false, err
	}
	for _, c := range b.Changes {
		if err := s.handDigest(ctx, c, &ahead); err != nil {
			ahead.await(s)
			return false, err
		}
	}
	ahead.await(s)
	if b.Later = ahead.failed; len(b.Later) > 0 || b.WasAside() {
		if err := f.Confirm(ctx, StageDigest, b); err != nil {
			return false, err
		}
	}
	f.Done(StageDigest, b) // last, because other stages confirm what this one has done
	return true, nil
}

// digestsUnderWay are digests handed to the writer.
type digestsUnderWay struct {
	writes  []*commit.Change
	changes []*Change
	bytes   int64
	failed  []*Change
}

// handDigest hands the digest of an exchange to the writer, unless it has a turn.
func (s *core) handDigest(ctx context.Context, c *Change, ahead *digestsUnderWay) error {
	began := time.Now()
	if c.Exchange == "" || !c.Undigested && s.hasTurn(c.Place) {
		return nil
	}
	captured := s.feed.Take(c)
	digest, size := s.digestExchange(ctx, c.Place, captured)
	if err := ctx.Err(); err != nil {
		return err
	}
	turn := kv.ExchangeKey(kv.SpaceTurn, c.Place.Account, c.Place.ID)
	w := s.step(func(g *commitGroup, w *commit.Op) error {
		if g.Has(turn) {
			return nil // a duplicate
		}
		return digest(g, w)
	})
	if err := s.writer.Send(ctx, w); err != nil {
		return err
	}
	s.feed.Handed(c)
	s.feed.Worked(StageDigest, 1, began)
	ahead.writes, ahead.changes = append(ahead.writes, w), append(ahead.changes, c)
	if ahead.bytes += size; len(ahead.writes) >= digestsAhead || ahead.bytes >= bytesAhead {
		ahead.await(s)
	}
	return nil
}

// hasTurn reports whether an exchange has been digested. If that cannot be read, the answer is no.
func (s *core) hasTurn(p kv.ExchangeRef) bool {
	return s.view(func(tx *badger.Txn) error {
		_, err := tx.Get(kv.ExchangeKey(kv.SpaceTurn, p.Account, p.ID))
		return err
	}) == nil
}

// await waits until all are committed.
func (d *digestsUnderWay) await(s *core) {
	for i, w := range d.writes {
		if <-w.Done; w.Err != nil && !errors.Is(w.Err, commit.ErrClosed) {
			s.log.Error("an exchange could not be digested; it will be tried again at the next start", "exchange", d.changes[i].Exchange, "error", w.Err)
			d.failed = append(d.failed, d.changes[i])
		}
	}
	clear(d.writes)
	clear(d.changes)
	d.writes, d.changes, d.bytes = d.writes[:0], d.changes[:0], 0
}
