package usage

import (
	"context"
	"errors"
	"testing"
	"time"
)

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
