package router

import (
	"context"
	"time"
)

// A Clock is the time that cool-downs, breakers and the pauses before retries use. Timeouts of a call do not use it.
type Clock interface {
	Now() time.Time
	// Sleep waits for d. It fails with the context's error when that ends first.
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
