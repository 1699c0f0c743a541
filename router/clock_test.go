package router

import (
	"context"
	"sync"
	"testing"
	"time"
)

// handClock is a clock that a test moves. A sleeper moves it, too.
type handClock struct {
	mu    sync.Mutex
	now   time.Time
	slept []time.Duration
}

func newHandClock() *handClock {
	return &handClock{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) Sleep(ctx context.Context, d time.Duration) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now, c.slept = c.now.Add(d), append(c.slept, d)
	return ctx.Err()
}

func (c *handClock) pass(d time.Duration) { _ = c.Sleep(context.Background(), d) }

func TestTheSystemsClockWakesWhoGivesUp(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := (systemClock{}).Sleep(ctx, time.Hour); err == nil {
		t.Error("it slept")
	}
	if err := (systemClock{}).Sleep(t.Context(), time.Nanosecond); err != nil {
		t.Error(err)
	}
}
