package router

import (
	"context"
	"time"
)

// A Clock is the clock of cool-downs, breakers and pauses before retries. Timeouts of a call do not use it.
type Clock interface {
	Now() time.Time
	// Sleep waits for d. It returns the context's error if that ends first.
	Sleep(ctx context.Context, d time.Duration) error
}

type systemClock struct{}

func (systemClock) Now() time.Time { return time.Now() }

func (systemClock) Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
