package feed

import (
	"context"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/record"
)

// waiting counts the exchanges that ended with a change after counted and whose digest the writer does not have yet. It
// is guarded by the feed's mu.
type waiting struct {
	counted uint64
	count   int
	of      map[kv.SessionRef]int
	signal  wake.Signal // there may be work for the digest stage
}

// expect counts an exchange, or with -1 that the writer has its digest.
func (w *waiting) expect(c *Change, exchanges int) {
	if c.Seq <= w.counted {
		return
	}
	if w.of == nil {
		w.of = make(map[kv.SessionRef]int)
	}
	w.count += exchanges
	ref := kv.SessionRef{Account: c.Place.Account, ID: c.In}
	if w.of[ref] += exchanges; w.of[ref] == 0 {
		delete(w.of, ref)
	}
}

// from starts to count after a change.
func (w *waiting) from(change uint64) {
	clear(w.of)
	w.count, w.counted = 0, change
}

// digestStage returns the state of the stage; the caller holds mu.
func (f *Feed) digestStage() *stageState { return &f.stages[0] }

// allCounted reports whether all exchanges waiting for their digest are counted; the caller holds mu.
func (f *Feed) allCounted() bool {
	st := f.digestStage()
	return st.drained && st.position >= f.waiting.counted
}

// Digested reports whether the writer has the digests of all exchanges of the session that ended earlier.
func (f *Feed) Digested(ref kv.SessionRef) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.allCounted() && f.waiting.of[ref] == 0
}

// announceDigests counts what a commit leaves to be digested, and reports whether the digest stage has to look; the
// caller holds mu. If nothing is left, the stage has done the changes of the commit, which follow the number before.
func (f *Feed) announceDigests(before uint64, changes []*Change, whole bool) (look bool) {
	st := f.digestStage()
	for _, c := range changes {
		if c.Undigested {
			look = true
			f.waiting.expect(c, 1)
		}
	}
	if !whole {
		look = true
		f.waiting.from(f.log.last)
	}
	if !look && st.drained && st.position == before {
		st.position = f.log.last
	}
	return look || st.reading && st.position < f.log.last
}

// take hands over the captured exchange for digesting; nil if it is not in memory. The caller holds mu.
func (c *Change) take() (x *record.Exchange) {
	x, c.Captured = c.Captured, nil
	return x
}

// Take hands over the exchange of a change; nil: it has to be read from the store.
func (f *Feed) Take(c *Change) *record.Exchange {
	f.mu.Lock()
	defer f.mu.Unlock()
	return c.take()
}

// Handed notes that the writer has the digest of a change's exchange.
func (f *Feed) Handed(c *Change) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting.expect(c, -1)
}

// Undigested is signaled when exchanges may wait to be digested.
func (f *Feed) Undigested() <-chan struct{} { return f.waiting.signal }

// CountAgain counts the exchanges that wait from now on, after a failure: some may come twice.
func (f *Feed) CountAgain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.waiting.from(f.committed.Load())
}

// FollowDigests opens the feed for the digest stage, once.
func (f *Feed) FollowDigests(ctx context.Context) error {
	f.mu.Lock()
	begun := f.digestStage().reading
	f.mu.Unlock()
	if begun {
		return nil
	}
	if _, err := f.Follow(ctx, StageDigest); err != nil {
		return err
	}
	f.CountAgain()
	return nil
}
