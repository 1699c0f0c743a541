package cluster

import (
	"errors"
	"time"
)

const (
	// quorumTime is how long an exchange waits for the brokers. They take milliseconds, and seconds where one of them has just been
	// lost.
	quorumTime = 250 * time.Millisecond

	quorumPause = time.Second // in which nothing waits after brokers did not take something in time
)

// quorum is what the brokers have of a log, and who waits for more. The shipper's lock guards it.
type quorum struct {
	taken  uint64        // number of the last entry that they have
	more   chan struct{} // closed when that changes; nil: nobody waits
	paused time.Time     // until then nothing waits
}

// advance notes what the brokers have taken.
func (q *quorum) advance(taken uint64) {
	q.taken, q.paused = taken, time.Time{}
	if q.more != nil {
		close(q.more)
		q.more = nil
	}
}

// ErrLocal is the error of an exchange that the brokers did not take in time. It is on record here, and is shipped later.
var ErrLocal = errors.New("the brokers of the cluster do not take it")

// Brokered waits until the brokers have all that has ended here by now, on as many disks as the stream has replicas. It waits a
// quarter of a second at most, and not at all for a second after that.
func (s *Shipper) Brokered() error {
	number := s.log.Last()
	timer := time.NewTimer(quorumTime)
	defer timer.Stop()
	for {
		s.mu.Lock()
		if s.quorum.taken >= number {
			s.mu.Unlock()
			return nil
		}
		if s.away() {
			s.status.Local++
			s.mu.Unlock()
			return ErrLocal
		}
		if s.quorum.more == nil {
			s.quorum.more = make(chan struct{})
		}
		more := s.quorum.more
		s.mu.Unlock()
		select {
		case <-more:
		case <-timer.C:
			s.update(func(*Shipping) { s.quorum.paused = time.Now().Add(quorumPause) })
		}
	}
}

// away reports whether nothing waits for the brokers now.
func (s *Shipper) away() bool { return !s.broker.IsConnected() || time.Now().Before(s.quorum.paused) }

// Away reports whether the brokers are not to be counted on now.
func (s *Shipper) Away() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.away()
}
