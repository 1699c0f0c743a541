package edge

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/cloudwego/hertz/pkg/network"

	"github.com/mnemeproxy/mneme/codec"
)

// Go runs do in the background, as a request that counts for the limit of requests and for the drain. Its ctx ends like
// those of requests, except that no client can leave.
func (s *Server) Go(do func(ctx context.Context)) *codec.Error {
	if refused := s.admission.enter(); refused != nil {
		return refused
	}
	go func() {
		defer s.admission.leave()
		defer func() {
			if fault := recover(); fault != nil {
				s.log.Error("panic in the background", "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
			}
		}()
		do(s.life)
	}()
	return nil
}

// Detached is a request that is answered without its client, who may read the answer from Kept, or gets it as messages.
type Detached struct {
	Request  Request
	Response Response
	Kept     *Kept // nil for a message on a [Socket]

	conn connection // stands for the client's; nothing is read from it or written to it
}

// Detach copies a request for an answer without its client. room limits how much of a streamed answer is kept for
// readers.
func (r *Request) Detach(room *Budget) *Detached {
	kept := &Kept{room: room, more: make(chan struct{})}
	d := r.detach(kept)
	d.Kept = kept
	return d
}

// detach copies a request for an answer that takes gets if it is streamed.
func (r *Request) detach(takes network.Writer) *Detached {
	rc := r.rc.Copy()
	rc.Response.Reset()
	d := new(Detached)
	d.Request = Request{rc: rc, conn: &d.conn}
	d.Response = Response{rc: rc, conn: &d.conn, instead: takes}
	return d
}

// End ends the answer for its readers, and returns what [Response.GiveWhenSent] was to.
func (d *Detached) End() {
	if d.Kept != nil {
		d.Kept.end()
	}
	if d.conn.answers != nil {
		d.conn.answers.Give(d.conn.room)
	}
}

// Kept is a streamed answer in memory, for readers while it arrives.
type Kept struct {
	room *Budget

	mu      sync.Mutex
	bytes   []byte        // what has been flushed
	pending []byte        // what has not
	more    chan struct{} // closed when there is more, or the end
	lost    bool          // there was no room
	ended   bool
}

// errNoRoom is for readers of an answer that there was no room for. It is on record when it has ended.
var errNoRoom = errors.New("no room to keep the answer")

// Read returns what has been kept from a position on, and waits for the first byte. At the end it returns nothing.
func (k *Kept) Read(ctx context.Context, from int) ([]byte, error) {
	for {
		k.mu.Lock()
		kept, more, lost, ended := k.bytes, k.more, k.lost, k.ended
		k.mu.Unlock()
		switch {
		case lost:
			return nil, errNoRoom
		case len(kept) > from:
			return kept[from:], nil
		case ended:
			return nil, nil
		}
		select {
		case <-more:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// Now returns what has been kept so far.
func (k *Kept) Now() []byte {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.bytes
}

// Malloc implements hertz's writer, as the next two do.
func (k *Kept) Malloc(n int) ([]byte, error) {
	from := len(k.pending)
	k.pending = append(k.pending, make([]byte, n)...)
	return k.pending[from:], nil
}

// WriteBinary adds bytes.
func (k *Kept) WriteBinary(p []byte) (int, error) {
	k.pending = append(k.pending, p...)
	return len(p), nil
}

// Flush shows readers what has been written.
func (k *Kept) Flush() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.lost && !k.room.Take(int64(len(k.pending))) {
		k.lost = true
		k.room.Give(int64(len(k.bytes)))
		k.bytes = nil
	}
	if !k.lost {
		k.bytes = append(k.bytes, k.pending...)
	}
	k.pending = k.pending[:0]
	k.wake()
	return nil
}

func (k *Kept) wake() {
	close(k.more)
	k.more = make(chan struct{})
}

// end ends the answer. Its room is free from then on: those who still read it will soon have.
func (k *Kept) end() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.ended = true
	k.room.Give(int64(len(k.bytes)))
	k.wake()
}
