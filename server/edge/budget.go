package edge

import (
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// Budget bounds memory that is held for clients: unread bytes, bodies, and what is made of them.
type Budget struct {
	limit  int64
	within *Budget // that what is taken here also counts in; nil: none
	used   atomic.Int64
	flow   atomic.Int64 // bytes taken, given and left behind so far
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
	b.flow.Add(max(n, -n))
	return true
}

// Give returns n bytes.
func (b *Budget) Give(n int64) {
	b.used.Add(-n)
	b.flow.Add(max(n, -n))
	if b.within != nil {
		b.within.Give(n)
	}
}

// Bursts are followed by a collection that returns memory to the system.
const (
	burstBytes     = 64 << 20         // taken and given: less is not worth it
	requestGarbage = 16 << 10         // that a request leaves, beside what it takes
	quietBytes     = 1 << 20          // between two looks
	quietTime      = 3 * time.Second  // without more than that
	storeTime      = 15 * time.Second // that the store may work on what a burst has brought
)

// bursts notices when bursts have ended. It belongs to one goroutine.
type bursts struct {
	budget  *Budget
	before  int64     // flow at the last look
	ended   int64     // flow at the end of the last burst
	quiet   time.Time // since when little flows
	pending time.Time // when the store is done with the last burst; zero: it is
}

// look reports whether memory should be returned now: when a burst has ended, and once more when the store is done with
// it.
func (b *bursts) look(now time.Time) bool {
	flow := b.budget.flow.Load()
	if flow-b.before > quietBytes || b.quiet.IsZero() {
		b.quiet = now
	}
	b.before = flow
	if flow-b.ended >= burstBytes && now.Sub(b.quiet) >= quietTime {
		b.ended, b.pending = flow, now.Add(storeTime)
		return true
	}
	if !b.pending.IsZero() && now.After(b.pending) {
		b.pending = time.Time{}
		return true
	}
	return false
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
		return codec.Errorf(codec.KindTooLarge, "This request takes more memory than all requests may together (limits.in_flight_bytes).")
	default:
		return ErrNoMemory
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
