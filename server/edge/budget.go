package edge

import (
	"sync/atomic"

	"github.com/mnemeproxy/mneme/codec"
)

// Budget bounds memory that is held for clients: unread bytes, bodies, and what is made of them.
type Budget struct {
	limit  int64
	within *Budget // that what is taken here also counts in; nil: none
	used   atomic.Int64
	peak   atomic.Int64 // the most that was used since the last burst
}

// NewBudget returns a budget of limit bytes, as a part of another one unless that is nil.
func NewBudget(limit int64, within *Budget) *Budget { return &Budget{limit: limit, within: within} }

// Take reserves n bytes and reports whether there was room.
func (b *Budget) Take(n int64) bool {
	used := b.used.Add(n)
	if used > b.limit && n > 0 {
		b.used.Add(-n)
		return false
	}
	if b.within != nil && !b.within.Take(n) {
		b.used.Add(-n)
		return false
	}
	if used > b.peak.Load() {
		b.peak.Store(used)
	}
	return true
}

// burst is how much memory must have been held for its end to be worth a collection.
const burst = 32 << 20

// burstEnded reports, once, that far less is used than was.
func (b *Budget) burstEnded() bool {
	used, peak := b.used.Load(), b.peak.Load()
	if peak < burst || used > peak/4 {
		return false
	}
	b.peak.Store(used)
	return true
}

// Give returns n bytes.
func (b *Budget) Give(n int64) {
	b.used.Add(-n)
	if b.within != nil {
		b.within.Give(n)
	}
}

// Used returns how many bytes are taken.
func (b *Budget) Used() int64 { return b.used.Load() }

// Limit returns how many bytes may be taken.
func (b *Budget) Limit() int64 { return b.limit }

// Share is what one request has taken of a budget. It belongs to one goroutine.
type Share struct {
	budget *Budget
	taken  int64
}

// Share returns an empty share.
func (b *Budget) Share() Share { return Share{budget: b} }

// Take reserves n bytes, or returns the error for the client.
func (s *Share) Take(n int64) error {
	switch {
	case s.budget.Take(n):
		s.taken += n
		return nil
	case s.taken+n > s.budget.limit:
		return codec.Errorf(codec.KindTooLarge, "This request takes more memory than all requests may together, which is %d bytes (limits.in_flight_bytes).", s.budget.limit)
	default:
		return errNoMemory
	}
}

// Give returns n bytes.
func (s *Share) Give(n int64) {
	s.taken -= n
	s.budget.Give(n)
}

// GiveAll returns everything.
func (s *Share) GiveAll() { s.Give(s.taken) }

// Taken returns how many bytes are taken.
func (s *Share) Taken() int64 { return s.taken }

// errNoMemory answers requests for which there is no room.
var errNoMemory = &codec.Error{
	Kind: codec.KindOverloaded, Message: "The proxy is holding as many bytes of requests and answers as it has room for (limits.in_flight_bytes). Try again in a second.", RetryAfter: RetrySoon,
}
