package router

import (
	"sync"
	"sync/atomic"
	"time"
)

// BreakerState says whether an endpoint is asked.
type BreakerState uint8

const (
	BreakerClosed   BreakerState = iota // it is
	BreakerHalfOpen                     // one call tries whether it is well again
	BreakerOpen                         // it is left alone
)

var breakerStateNames = [...]string{"closed", "half_open", "open"}

// String is the name used in metrics.
func (s BreakerState) String() string { return breakerStateNames[s] }

// Breaker says when an endpoint that fails is left alone. Zero fields take the defaults.
type Breaker struct {
	Failures int           // in a row that open it; 10; below 0: never
	Pause    time.Duration // until the first trial, twice as long after every trial that fails, up to a minute; 5 s
}

const (
	defaultBreakerFailures = 10
	defaultBreakerPause    = 5 * time.Second
	maxBreakerPause        = time.Minute

	breakerWindow = 30 * time.Second // over which the share of failures is looked at
)

func (b Breaker) withDefaults() Breaker {
	if b.Failures == 0 {
		b.Failures = defaultBreakerFailures
	}
	if b.Pause <= 0 {
		b.Pause = defaultBreakerPause
	}
	return b
}

// callResult is what a call says of the endpoint's health.
type callResult uint8

const (
	resultNone   callResult = iota // nothing: the caller gave up, or the fault may be the request's
	resultWell                     // it answered
	resultFailed                   // it did not, or is out of service
)

// A breaker opens when so many calls in a row have failed, or when, of at least twice as many calls in breakerWindow,
// half have. Once its pause is over it lets one call through, whose result closes it or opens it for longer.
//
// An endpoint without a failure costs one atomic load a call.
type breaker struct {
	settings Breaker

	troubled atomic.Bool // there was a failure in the newest window, or it is not closed

	mu        sync.Mutex
	state     BreakerState
	since     time.Time // start of the window, which is a failure
	calls     int       // in the window
	failures  int       // of them
	inARow    int
	openUntil time.Time
	pause     time.Duration
	trying    bool // the one call of the half-open state is under way
}

// admit tells whether a call may be made. What is admitted has to be reported.
func (b *breaker) admit(now time.Time) (trial, admitted bool) {
	if !b.troubled.Load() {
		return false, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state == BreakerOpen && !now.Before(b.openUntil) {
		b.state = BreakerHalfOpen
	}
	if b.state == BreakerClosed {
		return false, true
	}
	if b.state == BreakerOpen || b.trying {
		return false, false
	}
	b.trying = true
	return true, true
}

// report notes how a call ended. Calls that began before the breaker opened say nothing about how things are now.
func (b *breaker) report(now time.Time, trial bool, r callResult) {
	if b.settings.Failures < 0 || !b.troubled.Load() && r != resultFailed {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case trial:
		b.endTrial(now, r)
	case b.state == BreakerClosed && r != resultNone:
		b.count(now, r)
	}
}

func (b *breaker) endTrial(now time.Time, r callResult) {
	b.trying = false
	switch r {
	case resultWell:
		b.close()
	case resultFailed:
		b.open(now, min(2*b.pause, maxBreakerPause))
	}
}

func (b *breaker) count(now time.Time, r callResult) {
	if now.Sub(b.since) >= breakerWindow {
		b.since, b.calls, b.failures = now, 0, 0
		if r == resultWell {
			b.close()
			return
		}
	}
	b.troubled.Store(true)
	b.calls++
	if r == resultWell {
		b.inARow = 0
		return
	}
	b.failures++
	b.inARow++
	if b.inARow >= b.settings.Failures || b.calls >= 2*b.settings.Failures && 2*b.failures >= b.calls {
		b.open(now, b.settings.Pause)
	}
}

func (b *breaker) open(now time.Time, pause time.Duration) {
	b.state, b.pause, b.openUntil = BreakerOpen, pause, now.Add(pause)
}

func (b *breaker) close() {
	b.state, b.calls, b.failures, b.inARow = BreakerClosed, 0, 0, 0
	b.troubled.Store(false)
}

// look gives the state, and how long the endpoint is left alone from now on.
func (b *breaker) look(now time.Time) (BreakerState, time.Duration) {
	if !b.troubled.Load() {
		return BreakerClosed, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.state != BreakerOpen {
		return b.state, 0
	}
	return b.state, max(b.openUntil.Sub(now), 0)
}
