package usage

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
)

func TestAResultThatTookLongIsReused(t *testing.T) {
	now := time.Date(2026, 11, 20, 12, 0, 30, 0, time.UTC)
	table := NewTable(nil, func() time.Time { return now }) // there is nothing to read
	last := table.latest(1)
	last.usage, last.until = record.Usage{AsOf: now, Exchanges: 100}, now.Add(time.Hour)
	if got, err := table.Of(t.Context(), 1); err != nil || got.Exchanges != 100 {
		t.Errorf("counted %d exchanges (%v), want the 100 of before", got.Exchanges, err)
	}
}

func TestACallerThatGivesUpDoesNotWaitForItsTurn(t *testing.T) {
	table := NewTable(nil, time.Now)
	if err := table.latest(1).turn.Acquire(t.Context(), 1); err != nil { // another caller counts
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := table.Of(canceled, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
