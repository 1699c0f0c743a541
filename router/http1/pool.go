package http1

import (
	"slices"
	"time"
)

// take returns the most recently used idle connection that is usable, or nil.
func (c *Client) take() *conn {
	for {
		c.mu.Lock()
		n := len(c.idle)
		if n == 0 {
			c.mu.Unlock()
			return nil
		}
		conn := c.idle[n-1]
		c.idle[n-1] = nil
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		if conn.quiet() {
			return conn
		}
		conn.close()
	}
}

// keep returns a connection for the next request.
func (c *Client) keep(conn *conn) {
	conn.since = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.idle) == c.MaxIdle {
		conn.close()
		return
	}
	c.idle = append(c.idle, conn)
	if c.sweep == nil {
		c.sweep = time.AfterFunc(c.Idle, c.dropIdle)
	}
}

// dropIdle closes the connections that have been idle for too long. It runs while there are idle ones.
func (c *Client) dropIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	limit := time.Now().Add(-c.Idle)
	stay := slices.IndexFunc(c.idle, func(conn *conn) bool { return conn.since.After(limit) })
	if stay < 0 {
		stay = len(c.idle)
	}
	for _, conn := range c.idle[:stay] {
		conn.close()
	}
	c.idle = slices.Delete(c.idle, 0, stay)
	if len(c.idle) == 0 {
		c.sweep = nil
		return
	}
	c.sweep.Reset(c.idle[0].since.Sub(limit))
}

// Close closes the idle connections. Answers in progress continue; then their connections are closed too.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, conn := range c.idle {
		conn.close()
	}
	c.idle = nil
	if c.sweep != nil {
		c.sweep.Stop()
		c.sweep = nil
	}
}
