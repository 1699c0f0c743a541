package router

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/router/http1"
)

// Limits of a watch that a call can exceed.
var (
	errFirstByte = errors.New("no first byte in time")
	errIdle      = errors.New("idle for too long")
)

// A watch cuts a call that takes too long: to the first byte of its body, counted from the start of the call, and then
// between two pieces, counted only while a read waits, so that the provider is not blamed for a slow client.
//
// A read costs one clock reading, two atomic stores and a load. Reads do not reset the one timer: when it fires, it
// checks how long the current read has been waiting and sleeps for the rest. If there is no current read, the next one
// sets it.
type watch struct {
	ctx       context.Context // the caller's, which also ends the call
	cutoff    http1.Cutoff
	timer     *time.Timer
	firstByte time.Duration
	idle      time.Duration
	start     int64 // on the clock of now

	waiting   atomic.Int64 // since when a read waits, on the clock of now; nobody if none does
	streaming atomic.Bool  // the first byte has arrived, the idle limit applies
	stopped   atomic.Bool  // the timer has fired while no read was waiting
	ended     atomic.Bool
	exceeded  atomic.Pointer[error] // the limit that cut the call; nil: none

	// Owned by the reading goroutine.
	since   int64 // start of the newest read, minus what is carried over
	carried int64 // nanoseconds waited so far for real progress
	counts  bool  // the newest read brought real progress
}

const nobody = math.MinInt64

var clockStart = time.Now()

// now is a monotonic clock in nanoseconds.
func now() int64 { return int64(time.Since(clockStart)) }

func (w *watch) begin(ctx context.Context, firstByte, idle time.Duration) {
	w.ctx, w.firstByte, w.idle, w.start = ctx, firstByte, idle, now()
	w.waiting.Store(w.start)
	w.timer = time.AfterFunc(firstByte, w.check)
}

func (w *watch) check() {
	since := w.waiting.Load()
	if since == nobody {
		w.stopped.Store(true)
		if since = w.waiting.Load(); since == nobody || !w.stopped.CompareAndSwap(true, false) {
			return // the next read sets the timer
		}
	}
	limit, name := w.limit()
	if w.waiting.Load() != since { // that read is over, and the limit may differ
		w.set(0)
		return
	}
	rest := limit - time.Duration(now()-since)
	if rest <= 0 {
		w.exceeded.Store(name)
		w.cutoff.Cut()
		return
	}
	w.set(rest)
}

// limit returns the limit for the current read, and its error.
func (w *watch) limit() (time.Duration, *error) {
	if w.streaming.Load() {
		return w.idle, &errIdle
	}
	return w.firstByte, &errFirstByte
}

// set makes the timer fire after d.
func (w *watch) set(d time.Duration) {
	w.timer.Reset(d)
	if w.ended.Load() {
		w.timer.Stop() // end ran before the Reset
	}
}

// beginRead is called before a read that may block.
func (w *watch) beginRead() {
	switch {
	case w.streaming.Load():
		w.since = now() - w.carried
	case w.counts:
		w.since = now()
		w.streaming.Store(true)
		w.timer.Reset(w.idle)
	default:
		w.since = w.start
	}
	w.carried, w.counts = 0, false
	w.waiting.Store(w.since)
	if w.stopped.Load() && w.stopped.CompareAndSwap(true, false) {
		limit, _ := w.limit()
		w.set(limit - time.Duration(now()-w.since))
	}
}

// endRead is called after it, with the number of bytes read.
func (w *watch) endRead(n int) {
	w.waiting.Store(nobody)
	w.counts = n > 0
}

// keptAlive says that the newest read was no progress: its waiting time still counts.
func (w *watch) keptAlive() {
	w.counts = false
	w.carried = now() - w.since
}

// cause returns why the call was ended before its answer; nil: it was not.
func (w *watch) cause() error {
	if limit := w.exceeded.Load(); limit != nil {
		return *limit
	}
	if cause := context.Cause(w.ctx); cause != nil || !w.ended.Load() {
		return cause
	}
	return context.Canceled
}

// end stops the watch, and ends the call if it is still running.
func (w *watch) end() {
	if w.ended.Swap(true) {
		return
	}
	w.timer.Stop()
	w.cutoff.Cut()
}
