package server

import (
	"context"
	"sync"

	"github.com/cloudwego/hertz/pkg/app"

	"github.com/mnemeproxy/mneme/codec"
)

// admission counts the requests that are being handled. It lets in no more than its limit, and none once it is closed.
type admission struct {
	limit  int
	mu     sync.Mutex
	open   int
	closed bool
	idle   chan struct{} // closed when the last one has left after close
}

// enter lets a request in, or says what it is to be told; one that is let in leaves when its answer has been sent.
func (a *admission) enter() *codec.Error {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch {
	case a.closed:
		return errDraining
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
	if a.closed && a.open == 0 {
		close(a.idle)
	}
}

// count is how many requests are being handled.
func (a *admission) count() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.open
}

// close lets nobody in any more, and gives a channel that is closed when everybody has left.
func (a *admission) close() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.closed = true
	a.idle = make(chan struct{})
	if a.open == 0 {
		close(a.idle)
	}
	return a.idle
}

// errDraining is what new requests are told during the drain, and with which open ones are cut when its time is over.
var errDraining = &codec.Error{
	Kind: codec.KindOverloaded, Message: "The proxy is shutting down; send the request again.", RetryAfter: retrySoon,
}

// errFull is what requests over the limit are told.
var errFull = &codec.Error{
	Kind: codec.KindOverloaded, Message: "The proxy is handling as many requests as it takes at a time. Try again in a second.", RetryAfter: retrySoon,
}

// admit counts a request for the drain, and turns new ones away then. The request counts until its answer has been sent,
// not only until its handler returns. Its context is that of its connection, which ends when the client leaves and when
// the server cuts what is still open.
func (s *Server) admit(ctx context.Context, rc *app.RequestContext) {
	if refused := s.admission.enter(); refused != nil {
		s.answerError(rc, errorShape(rc), refused, "")
		if refused == errDraining {
			rc.SetConnectionClose()
		}
		rc.Abort()
		return
	}
	connectionOf(ctx).admitted = &s.admission
	rc.Next(ctx)
}
