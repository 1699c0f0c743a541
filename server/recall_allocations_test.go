//go:build !race

package server_test

import (
	"net/http"
	"runtime"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store"
)

// A request for which nothing is to be recalled costs nothing more where recall can be asked for, with its record or without:
// nothing of recall allocates. The profile counts every allocation, so others in this process do not matter.
func TestRecallThatIsOffAllocatesNothing(t *testing.T) {
	defer func(rate int) { runtime.MemProfileRate = rate }(runtime.MemProfileRate)
	runtime.MemProfileRate = 1
	const requests = 50
	for name, change := range map[string]func(*plan){"with a record": func(*plan) {}, "without a record": captureOff} {
		request := startRequests(t, change, func(p *plan) { p.server.Recaller = &talker{} })
		before := allocatedByRecall()
		for range requests {
			request()
		}
		if n := allocatedByRecall() - before; n > 0 {
			t.Errorf("%s: %d allocations in %d requests", name, n, requests)
		}
	}
	h := build(t, func(p *plan) { p.server.Recaller = &talker{} })
	h.key = h.createKey("acme", store.AllScopes)
	before := allocatedByRecall()
	if a := h.post(chat.path, chat.body("", false), "X-Service-Recall", "on"); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	if allocatedByRecall() == before {
		t.Error("recall that is on allocates nothing either: the test cannot fail")
	}
}

// allocatedByRecall counts the allocations of recall in this process.
func allocatedByRecall() (count int64) {
	runtime.GC() // the profile is as of the last but one
	runtime.GC()
	n, _ := runtime.MemProfile(nil, true)
	records := make([]runtime.MemProfileRecord, n+1000)
	n, _ = runtime.MemProfile(records, true)
	for i := range records[:n] {
		frames := runtime.CallersFrames(records[i].Stack())
		for more := true; more; {
			var frame runtime.Frame
			frame, more = frames.Next()
			if strings.HasSuffix(frame.File, "/server/recalling.go") || strings.Contains(frame.File, "/server/recall/") || strings.Contains(frame.File, "/codec/turns/") {
				count += records[i].AllocObjects
				break
			}
		}
	}
	return count
}
