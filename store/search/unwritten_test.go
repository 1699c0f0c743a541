package search

import (
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
