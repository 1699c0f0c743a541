package store

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
)

// A count that took long is reused for a while, so that however often it is requested, it takes a twentieth of a core.
func TestUsageThatTakesLongIsNotComputedEachTime(t *testing.T) {
	var now atomic.Int64 // in seconds
	var slow atomic.Bool // a second passes whenever the clock is read
	s := openStore(t, Options{Clock: func() time.Time {
		if slow.Load() {
			now.Add(1)
		}
		return time.Unix(now.Load(), 0)
	}})
	mustAccount(t, s, "acme")
	usage := func() record.Usage {
		t.Helper()
		u, err := s.Archive().Usage(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		return u
	}
	for want := range int64(3) {
		if got := usage(); got.Exchanges != want || !got.AsOf.IsZero() {
			t.Fatalf("counted %d exchanges as of %v, want %d as of now", got.Exchanges, got.AsOf, want)
		}
		capture(t, s, "acme", "request", "answer")
	}
	slow.Store(true)
	if got := usage(); got.Exchanges != 3 {
		t.Fatalf("counted %d exchanges, want 3", got.Exchanges)
	}
	slow.Store(false)
	capture(t, s, "acme", "request", "answer")
	if got := usage(); got.Exchanges != 3 || got.AsOf.IsZero() {
		t.Errorf("counted %d exchanges as of %v, want the 3 of before", got.Exchanges, got.AsOf)
	}
	now.Add(3600)
	if got := usage(); got.Exchanges != 4 || !got.AsOf.IsZero() {
		t.Errorf("counted %d exchanges as of %v, want 4 as of now", got.Exchanges, got.AsOf)
	}
}
