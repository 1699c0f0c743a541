package cluster

import (
	"sync"
	"time"
)

// The clocks of two machines may differ by any amount, so that what one of them says of a time is never compared with what the
// other one says. An edge notes by how much its clock is ahead of the centre's, which is that of the database, and says so
// with what it ships.

const (
	slowTrip   = 100 * time.Millisecond // a reply that takes longer says too little about the time
	clockHolds = time.Minute            // and replaces what is known only after that time
)

// centreClock is what an edge knows of the centre's clock.
type centreClock struct {
	mu   sync.Mutex
	said time.Time // by the centre's clock; zero: unknown
	at   time.Time // when that arrived here
}

// heard notes the time in a reply of the centre, and when the question was sent and the reply arrived. Clocks that may be the same,
// as far as the reply tells, count as the same.
func (c *centreClock) heard(said, asked, now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !said.Add(time.Millisecond).Before(asked.Round(0)) && !said.After(now.Round(0)) { // replies have milliseconds
		said = now.Round(0)
	}
	if c.said.IsZero() || now.Sub(asked) <= slowTrip || now.Sub(c.at) > clockHolds {
		c.said, c.at = said, now
	}
}

// ahead returns by how much this node's clock is ahead of the centre's. Where they differ, it exceeds the truth by the time that the
// reply took: rather than to bring back what was erased, an edge takes an exchange for older. If this clock was set since the
// reply, the result takes that into account.
func (c *centreClock) ahead(now time.Time) (ahead time.Duration, known bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.said.IsZero() {
		return 0, false
	}
	passed := now.Sub(c.at) // by the monotonic clock
	return now.Round(0).Sub(c.said.Add(passed)), true
}
