package provider

import (
	"context"
	"net/http"
	"sync"
	"sync/atomic"
)

// Outcome is how an exchange with the simulated provider ended.
type Outcome int32

const (
	Running    Outcome = iota // not ended yet
	Complete                  // everything was written that the script asked for
	Cut                       // the script cut the connection
	ClientGone                // the client closed the connection first
)

// String is the name for logs and test failures.
func (o Outcome) String() string {
	return [...]string{"running", "complete", "cut", "client gone"}[o]
}

// Recorded is one request as it arrived. Header and Body belong to the recording and must not be changed.
type Recorded struct {
	ID     int64 // counts from 1 in order of arrival
	Method string
	Path   string // with the query
	Header http.Header
	Body   []byte // as on the wire, not decompressed

	exchange *exchange
}

// exchange is the part of a recording that changes.
type exchange struct {
	done    chan struct{}
	outcome atomic.Int32
}

// Done is closed when the exchange has ended, whichever way.
func (r Recorded) Done() <-chan struct{} { return r.exchange.done }

// Outcome tells how the exchange ended; [Running] before [Recorded.Done] is closed.
func (r Recorded) Outcome() Outcome { return Outcome(r.exchange.outcome.Load()) }

// ring keeps the newest recordings.
type ring struct {
	mu       sync.Mutex
	kept     []Recorded
	capacity int
	last     int64
	arrived  chan struct{} // closed and replaced at every arrival
}

func newRing(capacity int) *ring {
	return &ring{capacity: capacity, arrived: make(chan struct{})}
}

// add numbers the recording and keeps it.
func (r *ring) add(rec Recorded) Recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	rec.ID = r.last
	if r.capacity > 0 {
		if len(r.kept) == r.capacity {
			copy(r.kept, r.kept[1:])
			r.kept = r.kept[:r.capacity-1]
		}
		r.kept = append(r.kept, rec)
	}
	close(r.arrived)
	r.arrived = make(chan struct{})
	return rec
}

func (r *ring) all() []Recorded {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Recorded(nil), r.kept...)
}

// find returns the recording with this id, or a channel that is closed when the next one arrives.
func (r *ring) find(id int64) (Recorded, bool, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, rec := range r.kept {
		if rec.ID == id {
			return rec, true, nil
		}
	}
	return Recorded{}, false, r.arrived
}

// wait blocks until the request with this id has arrived.
func (r *ring) wait(ctx context.Context, id int64) (Recorded, error) {
	for {
		rec, ok, arrived := r.find(id)
		if ok {
			return rec, nil
		}
		select {
		case <-arrived:
		case <-ctx.Done():
			return Recorded{}, ctx.Err()
		}
	}
}
