package cluster

import (
	"errors"
	"sync"
	"time"
)

const (
	// quorumTime is how long an exchange waits for the brokers. They normally take milliseconds, and seconds if one of
	// them has just been lost.
	quorumTime = 250 * time.Millisecond

	quorumPause = time.Second // after a timeout, during which nothing waits
)

// ErrLocal is the error of an exchange that the brokers did not take in time. It is recorded here, and shipped later.
var ErrLocal = errors.New("the brokers of the cluster did not take it in time")

// Brokered waits until the brokers have everything that has ended here so far, on as many disks as the stream has
// replicas. It waits a quarter of a second at most, and after a timeout not at all for one second.
func (s *Shipper) Brokered() error {
	number := s.log.Last()
	if s.quorum.has(number) || !s.Away() && s.quorum.wait(number) {
		return nil
	}
	s.update(func(status *Shipping) { status.Local++ })
	return ErrLocal
}

// Away reports whether the brokers are currently unavailable.
func (s *Shipper) Away() bool { return !s.broker.IsConnected() || s.quorum.isPaused() }

// quorum tracks how far the brokers have taken a log, and wakes those who wait for them.
type quorum struct {
	mu     sync.Mutex
	taken  uint64        // number of the last entry that they have taken
	more   chan struct{} // closed when taken changes; nil: nothing waits
	paused time.Time     // nothing waits before this time
}

// advance notes what the brokers have taken.
func (q *quorum) advance(taken uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken, q.paused = taken, time.Time{}
	if q.more != nil {
		close(q.more)
		q.more = nil
	}
}

// goBack notes that the brokers have lost the entries after a number.
func (q *quorum) goBack(after uint64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.taken = after
}

// has reports whether the brokers have an entry.
func (q *quorum) has(number uint64) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.taken >= number
}

// isPaused reports whether the brokers timed out a moment ago.
func (q *quorum) isPaused() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return time.Now().Before(q.paused)
}

// wait waits until the brokers have an entry, and reports whether they had it in time. Entries before it do not extend
// the wait.
func (q *quorum) wait(number uint64) bool {
	timer := time.NewTimer(quorumTime)
	defer timer.Stop()
	for late := false; ; {
		more := q.next(number, late)
		if more == nil || late {
			return more == nil
		}
		select {
		case <-more:
		case <-timer.C:
			late = true
		}
	}
}

// next returns a channel that is closed when the brokers have taken more; nil: they have the entry. With late set,
// nothing waits for a while.
func (q *quorum) next(number uint64, late bool) <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.taken >= number {
		return nil
	}
	if late {
		q.paused = time.Now().Add(quorumPause)
	}
	if q.more == nil {
		q.more = make(chan struct{})
	}
	return q.more
}
