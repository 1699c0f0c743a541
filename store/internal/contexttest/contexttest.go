// Package contexttest cancels a context at a point that a test names, not by a clock.
package contexttest

import (
	"context"
	"sync"
)

// Counted is a context that counts how often it is looked at, and that ends with the look of a number.
type Counted struct {
	context.Context
	end context.CancelFunc

	mu       sync.Mutex
	looks    int
	endingAt int
}

// EndingAt gives a context that ends with that look; 0: it does not.
func EndingAt(look int) *Counted {
	c := &Counted{endingAt: look}
	c.Context, c.end = context.WithCancel(context.Background())
	return c
}

// Err is a look.
func (c *Counted) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looks++; c.looks == c.endingAt {
		c.end()
	}
	return c.Context.Err()
}

// Looks is how often the context has been looked at.
func (c *Counted) Looks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks
}
