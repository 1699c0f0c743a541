package http1

import "sync"

// A Cutoff ends one request from outside, as cancelling its context does. It is for callers that end requests for reasons
// of their own, a time limit for instance, and would have to make a context for each. The zero value is ready; nil never
// ends anything.
type Cutoff struct {
	mu  sync.Mutex
	end func() // nil: there is nothing to end at the moment
	cut bool
}

// Cut ends the request, whatever it is at, and keeps it from going on. It may be called at any time, more than once, by
// any goroutine.
func (c *Cutoff) Cut() {
	c.mu.Lock()
	end := c.end
	c.end, c.cut = nil, true
	c.mu.Unlock()
	if end != nil {
		end()
	}
}

// Guard has Cut call end, until Release. It is false where the request has been cut: end is not called then.
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

// Release undoes a Guard. It is false where the request has been cut before.
func (c *Cutoff) Release() bool { return c.Guard(nil) }
