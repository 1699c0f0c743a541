package search

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/mnemeproxy/mneme/store"
)

// Turns and sessions can be found before they are on disk, and leave the log when they are, also when nothing follows.
func TestWhatIsOnDiskLeavesTheLog(t *testing.T) {
	m := openMemory(t, t.TempDir())
	m.chatter("acme", 5)
	m.search("acme", Request{Query: "topic1"})
	m.search("acme", Request{Query: "topic1", Granularity: Sessions})
	m.untilConfirmed(store.StageWords, store.StageSessions)
}

// untilConfirmed waits until stages have confirmed everything.
func (m *memory) untilConfirmed(stages ...store.Stage) {
	m.t.Helper()
	m.until("everything confirmed", func() bool {
		for _, s := range stages {
			if _, unconfirmed := m.store.Feed().Lag(s); unconfirmed > 0 {
				return false
			}
		}
		return true
	})
}

// A session that was taken up is not read again until it changes, whether it is on disk by then or not.
func TestASessionIsTakenUpOnceForEachChange(t *testing.T) {
	m := openMemory(t, t.TempDir())
	m.chatter("acme", 3)
	m.search("acme", Request{Query: "topic1"})
	number, err := m.store.Accounts().Number("acme")
	m.ok(err)
	take := func() int {
		t.Helper()
		taken, err := m.index.takeUpSessions(t.Context(), func(w *changedSession) bool { return w.account == number })
		m.ok(err)
		return taken
	}
	if first, again := take(), take(); first != 3 || again != 0 {
		t.Errorf("taken up: %d, and then %d; want 3 and 0", first, again)
	}
	m.capture("acme", talk("question 9 about topic9", "answer 9"))
	m.search("acme", Request{Query: "topic9"})
	if taken := take(); taken != 1 {
		t.Errorf("%d sessions are taken up of one that is new", taken)
	}
}

// Several who take up sessions at once do not take up the same: what one of them has read before a change would otherwise come
// into the index behind what another has read after it.
func TestSessionsAreTakenUpByOneAtATime(t *testing.T) {
	m := openMemory(t, t.TempDir())
	m.chatter("acme", 20)
	m.search("acme", Request{Query: "topic1"})
	var taken atomic.Int64
	var taking sync.WaitGroup
	for range 8 {
		taking.Go(func() {
			n, err := m.index.takeUpSessions(t.Context(), m.index.changedBefore())
			if err != nil {
				t.Error(err)
			}
			taken.Add(int64(n))
		})
	}
	taking.Wait()
	if taken.Load() != 20 {
		t.Errorf("%d sessions are taken up of 20", taken.Load())
	}
}

// More than a bound is never in memory alone: what comes waits for the disk.
func TestUnwrittenTextsAreBounded(t *testing.T) {
	var u unwritten
	u.bytes.Add(mostUnwritten - 1)
	if u.full() {
		t.Error("full before the bound")
	}
	u.bytes.Add(1)
	if !u.full() {
		t.Error("not full at the bound")
	}
	u.bytes.Add(-1)
	if u.full() {
		t.Error("what is on disk is counted")
	}
}
