package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
)

// The usage of a small account is always current; that of a large one is reused for a while, and says when it was
// computed.
func TestUsageThatTakesLongIsNotComputedEachTime(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 30, 0, time.UTC) // nothing takes long by it
	s := openStore(t, Options{Clock: func() time.Time { return now }})
	mustAccount(t, s, "acme")
	ctx := context.Background()
	exchanges := func() int64 {
		t.Helper()
		u, err := s.Archive().Usage(ctx, "acme")
		if err != nil {
			t.Fatal(err)
		}
		return u.Exchanges
	}
	for want := range int64(3) {
		if got := exchanges(); got != want {
			t.Fatalf("counted %d exchanges, want %d", got, want)
		}
		capture(t, s, "acme", "request", "answer")
	}
	number, _ := s.accounts.Find("acme")
	last := s.usages.last(number)
	last.usage, last.until = record.Usage{AsOf: now, Exchanges: 100}, now.Add(time.Hour)
	if got := exchanges(); got != 100 {
		t.Errorf("counted %d exchanges before the time, want the 100 of before", got)
	}
	now = now.Add(time.Hour)
	if got := exchanges(); got != 3 {
		t.Errorf("counted %d exchanges, want 3", got)
	}
	_ = last.turn.Acquire(ctx, 1) // somebody is at it
	canceled, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := s.Archive().Usage(canceled, "acme"); !errors.Is(err, context.Canceled) {
		t.Errorf("who has gone still waits: %v", err)
	}
	last.turn.Release(1)
}
