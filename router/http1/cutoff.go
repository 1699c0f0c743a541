package http1

import "sync"

// A Cutoff ends one request from outside, as cancelling its context does. It is for callers with reasons of their own
// to end requests, a time limit for instance, who would have to make a context for each. The zero value is ready to
// use; nil never ends anything.
type Cutoff struct {
	mu  sync.Mutex
	end func() // nil: there is nothing to end
	cut bool
}

// Cut ends the request in any phase, and keeps it from going on. It may be called at any time, more than once, by any
// goroutine.
func (c *Cutoff) Cut() {
	c.mu.Lock()
	end := c.end
	c.end, c.cut = nil, true
	c.mu.Unlock()
	if end != nil {
		end()
	}
}

// Guard makes Cut call end, until Release. It returns false, and does not call end, if the request has already been
// cut.
func (c *Cutoff) Guard(end func()) bool {
	if c == nil {
		return true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.cut {
		c.end = end
	}
	return !c.cut
}

// Release undoes a Guard. It returns false if the request has already been cut.
func (c *Cutoff) Release() bool { return c.Guard(nil) }
