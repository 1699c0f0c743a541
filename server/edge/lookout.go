package edge

import (
	"errors"
	"net"
	"sync"
	"time"
)

// lookout reads on behind a request that is being handled. It notices when the client leaves, which under TLS nothing
// else does, and ends a connection on which too much is sent. What it reads is kept for the next request.
type lookout struct {
	always bool // on every request; otherwise only once bytes are waiting

	mu      sync.Mutex
	allowed bool          // the request has arrived whole, and nothing else reads
	ended   chan struct{} // closed when it has; nil: it has not begun
}

// allow is called when the request has arrived.
func (l *lookout) allow(c *connection) {
	l.mu.Lock()
	l.allowed = true
	l.mu.Unlock()
	if l.always {
		l.begin(c)
	}
}

// begin reads, if that is allowed.
func (l *lookout) begin(c *connection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.allowed && l.ended == nil {
		l.ended = make(chan struct{})
		go c.readAhead(l.ended)
	}
}

// forbid ends the reading, before the next request is read.
func (l *lookout) forbid(c *connection) {
	l.mu.Lock()
	ended := l.ended
	l.allowed, l.ended = false, nil
	l.mu.Unlock()
	if ended != nil {
		_ = c.SetReadDeadline(time.Unix(1, 0))
		<-ended
		_ = c.SetReadDeadline(time.Time{})
	}
}

func (c *connection) readAhead(ended chan<- struct{}) {
	defer close(ended)
	for {
		if int64(c.Len()) > c.mayBeAhead() {
			c.close()
			return
		}
		err := c.fill(c.Len() + 1)
		var timeout net.Error
		switch {
		case err == nil:
		case errors.As(err, &timeout) && timeout.Timeout():
			return
		case errors.Is(err, ErrNoMemory):
			c.close()
			return
		default:
			c.cancel()
			return
		}
	}
}

// readAheadLimit is how many bytes a client may send after the current request, until its answer is on its way.
const readAheadLimit = 1 << 20

// mayBeAhead returns how many bytes the client may send after the current request. A client that has its answer may
// send another request before we are done with this one.
func (c *connection) mayBeAhead() int64 {
	if c.answering.Load() {
		return max(readAheadLimit, int64(c.all.limits.head)+c.all.limits.body)
	}
	return readAheadLimit
}
