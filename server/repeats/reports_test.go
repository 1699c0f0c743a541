package repeats_test

import (
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/repeats"
)

func TestARetriedRefusalIsReportedOnceAMinute(t *testing.T) {
	var (
		r   repeats.Reports
		now = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
		one = repeats.Report{Key: "key_1", Session: "s"}
	)
	for i, want := range []bool{true, false, false, true, false} {
		if got := r.Due(now, one); got != want {
			t.Errorf("retry %d after %d s is reported: %t", i, i*25, got)
		}
		now = now.Add(25 * time.Second)
	}
	for _, other := range []repeats.Report{{Key: "key_2", Session: "s"}, {Key: "key_1", Session: "s2"}, {Key: "key_1", Session: "s", Times: 5}} {
		if !r.Due(now, other) {
			t.Errorf("%+v is taken for another", other)
		}
	}
}

// A conversation's id has the length that its client gives it.
func TestLongIDsOfSessionsAreNotKept(t *testing.T) {
	var (
		r             repeats.Reports
		now           = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
		before, after runtime.MemStats
		padding       = strings.Repeat("x", 64<<10)
	)
	runtime.GC()
	runtime.ReadMemStats(&before)
	for i := range 1000 {
		r.Due(now, repeats.Report{Session: strconv.Itoa(i) + padding})
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if kept := int64(after.HeapAlloc) - int64(before.HeapAlloc); kept > 16<<20 {
		t.Errorf("1000 reports keep %d bytes", kept)
	}
	if r.Due(now, repeats.Report{Session: "7" + padding}) {
		t.Error("a session with a long id is reported again")
	}
}

func TestReportsOfEndlesslyManySessionsKeepNoMemory(t *testing.T) {
	var r repeats.Reports
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	for i := range 20_000 {
		if !r.Due(now, repeats.Report{Session: strconv.Itoa(i)}) {
			t.Fatalf("session %d is not reported", i)
		}
	}
	if kept := r.Kept(); kept > 4096 {
		t.Errorf("%d reports are kept", kept)
	}
	if r.Due(now, repeats.Report{Session: "0"}) {
		t.Error("the first session is reported again")
	}
	if now = now.Add(time.Minute); !r.Due(now, repeats.Report{Session: "20000"}) || r.Kept() != 1 {
		t.Errorf("%d reports are kept a minute later", r.Kept())
	}
}
