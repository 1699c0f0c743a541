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
	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/record"
)

// digester is the goroutine of the digest stage: it makes the turns of the exchanges that [Capture.digestAtOnce] has
// left.
type digester struct {
	// Exchanges that ended with a change after counted and whose digest the writer does not have yet; guarded by the
	// feed's mu.
	counted uint64
	ahead   map[kv.SessionRef]int
	count   int

	held atomic.Int64 // bytes of exchanges in memory, see handover.go

	prefixes prefixMemory // of the requests read last

	signal wake.Signal // there may be work
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
			case <-d.signal:
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

// expect counts an exchange, or with -1 that the writer has its digest; the caller holds the feed's mu.
func (d *digester) expect(c *Change, exchanges int) {
	if c.Seq <= d.counted {
		return
	}
	if d.ahead == nil {
		d.ahead = make(map[kv.SessionRef]int)
	}
	d.count += exchanges
	ref := kv.SessionRef{Account: c.place.Account, ID: c.session}
	if d.ahead[ref] += exchanges; d.ahead[ref] == 0 {
		delete(d.ahead, ref)
	}
}

// countFrom starts to count after a change; the caller holds the feed's mu.
func (d *digester) countFrom(change uint64) {
	clear(d.ahead)
	d.count, d.counted = 0, change
}

// digests returns the state of the stage; the caller holds mu.
func (f Feed) digests() *stageState { return &f.feed.stages[0] }

// digestsCounted reports whether all exchanges waiting for their digest are counted; the caller holds mu.
func (f Feed) digestsCounted() bool {
	st := f.digests()
	return st.drained && st.position >= f.digester.counted
}

// digested reports whether the writer has the digests of all exchanges of the session that ended earlier.
func (f Feed) digested(ref kv.SessionRef) bool {
	f.feed.mu.Lock()
	defer f.feed.mu.Unlock()
	return f.digestsCounted() && f.digester.ahead[ref] == 0
}

// announceDigests counts what a commit leaves to be digested, and reports whether the digester has to look; the caller
// holds mu. If nothing is left, the stage has done the changes of the commit, which follow the number before.
func (f Feed) announceDigests(before uint64, changes []*Change, whole bool) (look bool) {
	st := f.digests()
	for _, c := range changes {
		if c.undigested {
			look = true
			f.digester.expect(c, 1)
		}
	}
	if !whole {
		look = true
		f.digester.countFrom(f.feed.last)
	}
	if !look && st.drained && st.position == before {
		st.position = f.feed.last
	}
	return look || st.reading && st.position < f.feed.last
}

// take hands over the captured exchange for digesting; nil if it is not in memory. The caller holds the feed's mu.
func (c *Change) take() (x *record.Exchange) {
	x, c.captured = c.captured, nil
	return x
}

// Digests are handed to the writer without waiting for each commit, so that they are committed together.
const (
	digestsAhead = 64
	bytesAhead   = 4 << 20 // of the requests and answers digested

	digestBatch = 1024 // changes examined together at most
)

// digestWaiting works until nothing is left; it returns false if the digester has been stopped.
func (s *core) digestWaiting(ctx context.Context) bool {
	err := s.beginDigests(ctx)
	for more := true; more && err == nil && ctx.Err() == nil; {
		more, err = s.digestNext(ctx)
	}
	if err != nil && ctx.Err() == nil {
		s.feed.mu.Lock()
		s.digester.countFrom(s.feed.committed.Load()) // some come twice
		s.feed.mu.Unlock()
		s.log.Error("exchanges could not be digested; they are tried again when the next one ends", "error", err)
	}
	return ctx.Err() == nil
}

// beginDigests opens the feed, once.
func (s *core) beginDigests(ctx context.Context) error {
	f := Feed{s}
	f.feed.mu.Lock()
	begun := f.digests().reading
	f.feed.mu.Unlock()
	if begun {
		return nil
	}
	_, err := f.Follow(ctx, StageDigest)
	f.feed.mu.Lock()
	defer f.feed.mu.Unlock()
	if err == nil {
		f.digester.countFrom(f.feed.committed.Load())
	}
	return err
}

// digestNext digests the ended exchanges in the next batch, if there is one. What cannot be recorded is put aside.
func (s *core) digestNext(ctx context.Context) (more bool, err error) {
	f, ahead := Feed{s}, digestsUnderWay{}
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
	if b.Later = ahead.failed; len(b.Later) > 0 || len(b.records) > 0 {
		if err := f.Confirm(ctx, StageDigest, b); err != nil {
			return false, err
		}
	}
	f.Done(StageDigest, b) // last, because other stages confirm what this one has done
	return true, nil
}

// digestsUnderWay are digests handed to the writer.
type digestsUnderWay struct {
	writes  []*changeStep
	changes []*Change
	bytes   int64
	failed  []*Change
}

// handDigest hands the digest of an exchange to the writer, unless it has a turn.
func (s *core) handDigest(ctx context.Context, c *Change, ahead *digestsUnderWay) error {
	f, began := Feed{s}, time.Now()
	if c.Exchange == "" || !c.undigested && s.hasTurn(c.place) {
		return nil
	}
	f.feed.mu.Lock()
	captured := c.take()
	f.feed.mu.Unlock()
	digest, size := s.digestExchange(ctx, c.place, captured)
	if err := ctx.Err(); err != nil {
		return err
	}
	turn := kv.ExchangeKey(kv.SpaceTurn, c.place.Account, c.place.ID)
	w := s.step(func(g *commitGroup, w *commit.Op) error {
		if g.Has(turn) {
			return nil // a duplicate
		}
		return digest(g, w)
	})
	if err := s.writer.Send(ctx, w); err != nil {
		return err
	}
	f.feed.mu.Lock()
	f.digester.expect(c, -1)
	f.feed.mu.Unlock()
	f.Worked(StageDigest, 1, began)
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
