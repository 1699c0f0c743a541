package router

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// In these tests time passes only where all wait: the limits are the real ones, and exact.

const (
	testFirstByte = 10 * time.Minute
	testIdle      = time.Minute
)

// watched runs a reader against a watch and returns after what time it was cancelled, and why; nil when it was not.
// Every step is a read that takes wait and brings n bytes; then the reader is busy for a while.
type step struct {
	wait      time.Duration
	n         int
	keepAlive bool
	busy      time.Duration
}

func watched(t *testing.T, steps ...step) (after time.Duration, cause error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		var w watch
		began := time.Now()
		w.begin(t.Context(), testFirstByte, testIdle)
		defer w.end()
		cut := make(chan struct{})
		w.cutoff.Guard(func() { close(cut) })
		for _, s := range steps {
			w.beginRead()
			select {
			case <-time.After(s.wait):
			case <-cut:
				after, cause = time.Since(began), w.cause()
				return
			}
			w.endRead(s.n)
			if s.keepAlive {
				w.keptAlive()
			}
			time.Sleep(s.busy)
		}
		synctest.Wait()
		if w.cause() != nil {
			after, cause = time.Since(began), w.cause()
		}
	})
	return after, cause
}

func TestLimitsHoldToTheMoment(t *testing.T) {
	const long = time.Hour
	comment := func(wait time.Duration) step { return step{wait: wait, n: 9, keepAlive: true} }
	comments := func(n int, wait time.Duration) (s []step) {
		for range n {
			s = append(s, comment(wait))
		}
		return s
	}
	data := func(wait time.Duration) step { return step{wait: wait, n: 9} }
	for name, x := range map[string]struct {
		steps []step
		cause error
		after time.Duration
	}{
		"nothing comes":                              {[]step{data(long)}, errFirstByte, testFirstByte},
		"the first byte comes just in time":          {[]step{data(testFirstByte - 1)}, nil, 0},
		"then nothing":                               {[]step{data(3 * time.Minute), data(long)}, errIdle, 4 * time.Minute},
		"pieces just in time":                        {[]step{data(time.Second), data(testIdle - 1), data(testIdle - 1), data(testIdle - 1)}, nil, 0},
		"one piece too late":                         {[]step{data(time.Second), data(testIdle - 1), data(testIdle + 1)}, errIdle, time.Second + 2*testIdle - 1},
		"a slow client":                              {[]step{{wait: 1, n: 9, busy: long}, {wait: 1, n: 9, busy: long}, data(testIdle - 1)}, nil, 0},
		"a slow client, then silence":                {[]step{{wait: 1, n: 9, busy: long}, data(long)}, errIdle, 1 + long + testIdle},
		"only comments in the queue":                 {comments(1000, 20*time.Second), errFirstByte, testFirstByte},
		"comments, then a slow client":               {[]step{{wait: testFirstByte - time.Second, n: 9, keepAlive: true, busy: 2 * time.Second}, data(long)}, errFirstByte, testFirstByte + time.Second},
		"comments in mid-stream, then a slow client": {[]step{data(1), {wait: 30 * time.Second, n: 9, keepAlive: true, busy: 45 * time.Second}, data(long)}, errIdle, 1 + 45*time.Second + testIdle},
		"comments, then the first byte":              {append(comments(29, 20*time.Second), data(19*time.Second), data(testIdle-1)), nil, 0},
		"comments in mid-stream":                     {append([]step{data(1)}, comments(1000, 7*time.Second)...), errIdle, 1 + testIdle},
		"comments, data, comments":                   {append(append([]step{data(1)}, comments(8, 7*time.Second)...), append([]step{data(3 * time.Second)}, comments(8, 7*time.Second)...)...), nil, 0},
		"comments while the client is slow":          {[]step{data(1), {wait: 30 * time.Second, n: 9, keepAlive: true, busy: long}, data(29 * time.Second)}, nil, 0},
		"comments while the client is slow, silence": {[]step{data(1), {wait: 30 * time.Second, n: 9, keepAlive: true, busy: long}, data(long)}, errIdle, 1 + long + testIdle},
	} {
		t.Run(name, func(t *testing.T) {
			after, cause := watched(t, x.steps...)
			if !errors.Is(cause, x.cause) || cause != nil && after != x.after {
				t.Errorf("cancelled after %v by %v, wanted %v by %v", after, cause, x.after, x.cause)
			}
		})
	}
}

func TestAWatchThatHasEndedDoesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w watch
		w.begin(t.Context(), testFirstByte, testIdle)
		w.end()
		w.end()
		time.Sleep(2 * testFirstByte)
		if cause := w.cause(); !errors.Is(cause, context.Canceled) {
			t.Error(cause)
		}
	})
}
