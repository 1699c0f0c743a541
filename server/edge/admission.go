package edge

import (
	"sync"

	"github.com/mnemeproxy/mneme/codec"
)

// admission counts the requests being handled. It admits at most its limit, and none once it is closed.
type admission struct {
	limit  int
	mu     sync.Mutex
	open   int
	closed bool
	ending bool          // closes once no request is open
	idle   chan struct{} // closed when the last request has left after close
}

// enter admits a request, or returns the error to answer it with. An admitted request leaves when its answer has been
// sent.
func (a *admission) enter() *codec.Error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return ErrDraining
	case a.open >= a.limit:
		return errFull
	}
	a.open++
	return nil
}

func (a *admission) leave() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.open--
	if a.ending && a.open == 0 {
		a.closed = true
	}
	if a.closed && a.open == 0 {
		close(a.idle)
	}
}

// count returns how many requests are being handled.
func (a *admission) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open
}

// close stops admission and returns a channel that is closed when the last request has left.
func (a *admission) close() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	return a.end()
}

// closeOnceIdle admits requests while others are open, and none after that. The channel is that of close.
func (a *admission) closeOnceIdle() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = a.open == 0
	return a.end()
}

func (a *admission) end() <-chan struct{} {
	a.ending = true
	if a.idle == nil {
		a.idle = make(chan struct{})
		if a.open == 0 {
			close(a.idle)
		}
	}
	return a.idle
}
