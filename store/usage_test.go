package store

import (
	"context"
	"testing"
	"time"
)

// That of a large account is reused for a while, see package usage.
func TestTheUsageOfASmallAccountIsCurrent(t *testing.T) {
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
}
