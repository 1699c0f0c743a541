package router

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// BreakerState says whether an endpoint gets calls.
type BreakerState uint8

const (
	BreakerClosed   BreakerState = iota // it gets calls
	BreakerHalfOpen                     // one call tests whether it has recovered
	BreakerOpen                         // it gets none
)

var breakerStateNames = [...]string{"closed", "half_open", "open"}

// String returns the name used in metrics.
func (s BreakerState) String() string { return breakerStateNames[s] }

// Breaker configures when a failing endpoint is taken out. Zero fields take the defaults.
type Breaker struct {
	Failures int           // in a row, of one or several accounts, that open it for them; 10; below 0: never
	Pause    time.Duration // until the first trial; doubles after every failed trial, up to a minute; 5 s
}

const (
	defaultBreakerFailures = 10
	defaultBreakerPause    = 5 * time.Second
	maxBreakerPause        = time.Minute

	breakerWindow = 30 * time.Second // the window for the share of failures
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

// callResult is what a call says about the endpoint's health.
type callResult uint8

const (
	resultNone   callResult = iota // nothing: the caller gave up, or the fault may be the request's
	resultWell                     // it answered
	resultFailed                   // it did not, or is out of service
)

// A breaker keeps calls from a failing endpoint. It has a circuit for each account with failures, and one for all
// accounts. Requests themselves can cause failures, prompts that take too long for instance, and one account's failures
// must not lock out the others. So the circuit for all counts only a part of each account's failures, opens on those of
// at least two accounts, and stays open only while trials of different accounts fail. An account's own circuit counts
// all of its failures, and is the only one if there is one account.
//
// An endpoint without failures costs one atomic load per call.
type breaker struct {
	settings Breaker

	troubled atomic.Bool // there was a failure in the newest window, or a circuit is not closed

	mu     sync.Mutex
	all    circuit
	row    map[string]int // failures counted for all, by account: consecutive ones
	window map[string]int // and those in the window
	tried  string         // the account of the last failed trial for all
	own    map[string]*circuit
}

// maxOwnCircuits bounds the accounts with their own circuit. It is far above the number with failures at the same time.
const maxOwnCircuits = 1024

// trial says for which circuits a call is the trial.
type trial struct{ all, own bool }

// ofAll returns how many consecutive failures open the circuit for all, and how many of one account count.
func (b *breaker) ofAll() (failures, ofOne int) {
	failures = max(b.settings.Failures, 2)
	return failures, (failures + 1) / 2
}

// admit reports whether a call of an account may be made. An admitted call must be reported.
func (b *breaker) admit(now time.Time, account string) (trial, bool) {
	if !b.troubled.Load() {
		return trial{}, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	own := b.own[account]
	if own != nil && !own.admits(now) || !b.all.admits(now) {
		return trial{}, false
	}
	var t trial
	if own != nil {
		t.own = own.begin()
	}
	t.all = b.all.begin()
	return t, true
}

// report records how a call ended. Calls that began before a circuit opened say nothing about the present.
func (b *breaker) report(now time.Time, account string, t trial, r callResult) {
	if b.settings.Failures < 0 || !b.troubled.Load() && r != resultFailed {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.troubled.Store(true)
	b.reportOwn(now, account, t.own, r)
	switch {
	case t.all:
		b.endTrial(now, account, r)
	case b.all.state == BreakerClosed && r != resultNone:
		b.countForAll(now, account, r)
	}
	if len(b.own) == 0 && b.all.well() {
		b.troubled.Store(false)
	}
}

func (b *breaker) reportOwn(now time.Time, account string, tried bool, r callResult) {
	own := b.own[account]
	if own == nil {
		if r != resultFailed {
			return
		}
		if own = b.newOwn(now, account); own == nil {
			return
		}
	}
	switch {
	case tried:
		own.endTrial(now, r)
	case own.state == BreakerClosed && r != resultNone:
		own.count(now, r, b.settings.Failures, b.settings.Pause)
	}
	if own.well() {
		delete(b.own, account)
	}
}

// newOwn makes the circuit of an account; nil if too many have one.
func (b *breaker) newOwn(now time.Time, account string) *circuit {
	if len(b.own) >= maxOwnCircuits {
		maps.DeleteFunc(b.own, func(_ string, c *circuit) bool { return c.over(now) })
	}
	if len(b.own) >= maxOwnCircuits {
		return nil
	}
	if b.own == nil {
		b.own = make(map[string]*circuit)
	}
	b.own[account] = new(circuit)
	return b.own[account]
}

func (b *breaker) countForAll(now time.Time, account string, r callResult) {
	failures, ofOne := b.ofAll()
	if b.all.over(now) {
		clear(b.window)
	}
	if r == resultWell {
		clear(b.row)
	} else {
		if b.row[account] >= ofOne || b.window[account] >= ofOne {
			return
		}
		if b.row == nil {
			b.row, b.window = make(map[string]int), make(map[string]int)
		}
		b.row[account]++
		b.window[account]++
	}
	b.all.count(now, r, failures, b.settings.Pause)
	if b.all.state == BreakerOpen {
		b.forget()
	}
}

// endTrial ends the trial of the circuit for all. One account that keeps failing does not hold it open: another one may
// try at once, without a longer pause.
func (b *breaker) endTrial(now time.Time, account string, r callResult) {
	if r == resultFailed && b.tried == account && account != "" {
		b.all.trying = false
		b.openOwn(now, account)
		return
	}
	b.all.endTrial(now, r)
	switch r {
	case resultWell:
		b.forget()
	case resultFailed:
		b.tried = account
	}
}

// openOwn keeps an account from making the next trial for all.
func (b *breaker) openOwn(now time.Time, account string) {
	own := b.own[account]
	if own == nil {
		own = b.newOwn(now, account)
	}
	if own != nil && own.state != BreakerOpen {
		own.open(now, max(own.pause, b.settings.Pause))
	}
}

// forget restarts the counts for all.
func (b *breaker) forget() {
	clear(b.row)
	clear(b.window)
	b.tried = ""
}

// look returns the state for an account, and how long the endpoint is still out for it.
func (b *breaker) look(now time.Time, account string) (BreakerState, time.Duration) {
	if !b.troubled.Load() {
		return BreakerClosed, 0
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	state, rest := b.all.look(now)
	if own := b.own[account]; own != nil {
		ownState, ownRest := own.look(now)
		state, rest = max(state, ownState), max(rest, ownRest)
	}
	return state, rest
}

// worst returns the worst state for any account.
func (b *breaker) worst() BreakerState {
	if !b.troubled.Load() {
		return BreakerClosed
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	state := b.all.state
	for _, own := range b.own {
		state = max(state, own.state)
	}
	return state
}

// A circuit opens when enough consecutive calls have failed, or half of at least twice as many calls in breakerWindow.
// After its pause it lets one call through, whose result closes it or opens it for longer.
type circuit struct {
	state     BreakerState
	since     time.Time // start of the window, which is a failure
	calls     int       // in the window
	failures  int       // of them
	inARow    int
	openUntil time.Time
	pause     time.Duration
	trying    bool // the one call of the half-open state is in progress
}

// admits reports whether a call may be made.
func (c *circuit) admits(now time.Time) bool {
	if c.state == BreakerOpen && !now.Before(c.openUntil) {
		c.state = BreakerHalfOpen
	}
	return c.state == BreakerClosed || c.state == BreakerHalfOpen && !c.trying
}

// begin starts an admitted call, and reports whether it is a trial.
func (c *circuit) begin() (tries bool) {
	c.trying = c.state == BreakerHalfOpen
	return c.trying
}

func (c *circuit) endTrial(now time.Time, r callResult) {
	c.trying = false
	switch r {
	case resultWell:
		*c = circuit{}
	case resultFailed:
		c.open(now, min(2*c.pause, maxBreakerPause))
	}
}

func (c *circuit) count(now time.Time, r callResult, failures int, pause time.Duration) {
	if c.over(now) {
		c.since, c.calls, c.failures = now, 0, 0
		if r == resultWell {
			*c = circuit{}
			return
		}
	}
	c.calls++
	if r == resultWell {
		c.inARow = 0
		return
	}
	c.failures++
	c.inARow++
	if c.inARow >= failures || c.calls >= 2*failures && 2*c.failures >= c.calls {
		c.open(now, pause)
	}
}

func (c *circuit) open(now time.Time, pause time.Duration) {
	c.state, c.pause, c.openUntil, c.trying = BreakerOpen, pause, now.Add(pause), false
}

// well reports whether the circuit has no failures to remember.
func (c *circuit) well() bool { return *c == circuit{} }

// over reports whether the window has passed.
func (c *circuit) over(now time.Time) bool {
	return c.state == BreakerClosed && now.Sub(c.since) >= breakerWindow
}

func (c *circuit) look(now time.Time) (BreakerState, time.Duration) {
	if c.state != BreakerOpen {
		return c.state, 0
	}
	return c.state, max(c.openUntil.Sub(now), 0)
}
