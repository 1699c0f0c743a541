package search

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store"
)

// logged is how many turns the log of the lexical index holds.
func (m *memory) logged() int {
	m.t.Helper()
	changes, err := m.store.Feed().Changes(store.FollowLexical, 0, 1000)
	m.ok(err)
	return len(changes)
}

// Turns and sessions can be found before they are on disk, and leave the logs when they are, also when nothing follows.
func TestWhatIsOnDiskLeavesTheLogs(t *testing.T) {
	m := openMemory(t, t.TempDir())
	m.chatter("acme", 5)
	m.search("acme", Request{Query: "topic1"})
	m.search("acme", Request{Query: "topic1", Granularity: Sessions})
	m.until("empty logs", func() bool {
		sessions, err := m.store.Feed().SessionChanges(t.Context(), 0, time.Now(), 10, nil)
		m.ok(err)
		return m.logged() == 0 && len(sessions) == 0
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
		taken, err := m.index.takeUpSessions(t.Context(), number, time.Now())
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
			n, err := m.index.takeUpSessions(t.Context(), 0, time.Now())
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
	u := newUnwritten()
	first, second := takenUp{bytes: mostUnwritten - 1}, takenUp{bytes: 1}
	u.add(first)
	if u.full() {
		t.Error("full before the bound")
	}
	u.add(second)
	if !u.full() {
		t.Error("not full at the bound")
	}
	u.drop(second)
	if u.full() {
		t.Error("what could not be taken up is counted")
	}
	u.add(second)
	u.onDisk(first)
	if u.full() {
		t.Error("what is on disk is counted")
	}
}
