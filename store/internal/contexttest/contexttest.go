// Package contexttest cancels a context at a point that a test names, not by a clock.
package contexttest

import (
	"context"
	"sync"
)

// Counted is a context that counts calls of Err, and ends with the call of a given number.
type Counted struct {
	context.Context
	end context.CancelFunc

	mu       sync.Mutex
	looks    int
	endingAt int
}

// EndingAt returns a context that ends with that call; 0: it does not.
func EndingAt(look int) *Counted {
	c := &Counted{endingAt: look}
	c.Context, c.end = context.WithCancel(context.Background())
	return c
}

// Err counts as a look.
func (c *Counted) Err() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.looks++; c.looks == c.endingAt {
		c.end()
	}
	return c.Context.Err()
}

// Looks returns how often Err was called.
func (c *Counted) Looks() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.looks
}
