package router

import (
	"sync/atomic"
	"time"
)

// Cool-downs for which the provider gives no time: the first lasts shortCoolDown, each following one twice as long,
// until a call succeeds.
const (
	shortCoolDown   = time.Second
	longestDoubling = time.Minute
	refusedCoolDown = time.Minute // of a refused credential: an operator has to replace it
	longestCoolDown = time.Hour   // longer waits are ignored
)

// A coolDown is the time for which something is skipped because the provider asked for it. It never keeps a request
// from being sent: if everything is cooling down, the first to be ready is used.
type coolDown struct {
	until   atomic.Int64 // Unix nanoseconds; 0: none
	doubled atomic.Int32 // cool-downs without a given time since the last success
}

// begin starts a cool-down; a wait of 0 means unknown. It never shortens a running one.
func (c *coolDown) begin(now time.Time, wait time.Duration) {
	if wait <= 0 {
		wait = min(shortCoolDown<<min(c.doubled.Add(1)-1, 6), longestDoubling)
	}
	until := now.Add(min(wait, longestCoolDown)).UnixNano()
	for {
		old := c.until.Load()
		if old >= until || c.until.CompareAndSwap(old, until) {
			return
		}
	}
}

// succeeded records a successful call. It leaves a running cool-down alone, which may have begun since.
func (c *coolDown) succeeded() {
	if c.doubled.Load() != 0 {
		c.doubled.Store(0)
	}
}

// rest returns how much of it is left; 0 for none.
func (c *coolDown) rest(now time.Time) time.Duration {
	until := c.until.Load()
	if until == 0 {
		return 0
	}
	return max(time.Duration(until-now.UnixNano()), 0)
}
