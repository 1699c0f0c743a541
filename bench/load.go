package bench

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// A load is what one round sends, and where.
type load struct {
	lane     *lane
	address  string // host:port
	request  *request
	want     *saying
	requests int
	rate     float64 // requests per second in open loop; 0: closed loop
	seed     int     // of the requests' numbers
}

// rampUp is the time over which the connections of a paced lane start. It is not a multiple of the time between two
// events, so that the streams' events are not in step.
const rampUp = 1003 * time.Millisecond

// A tally counts the outcomes.
type tally struct {
	requests  int
	events    int
	errors    int
	truncated int
	wrong     int
	example   string // the first error
	elapsed   time.Duration

	total, first, event *hdr.Histogram // nanoseconds
}

// Latencies from a microsecond to two minutes, exact to 0.1 %.
const (
	leastLatency = int64(time.Microsecond)
	mostLatency  = int64(2 * time.Minute)
	digits       = 3
)

func newHistogram() *hdr.Histogram { return hdr.New(leastLatency, mostLatency, digits) }

// recorder is a tally that many connections add to.
type recorder struct {
	mu sync.Mutex
	tally
}

func (r *recorder) delayed(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	_ = r.event.RecordValue(int64(d)) // out of range: a clock that jumped
}

func (r *recorder) add(from time.Time, one reply, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case err == nil:
		r.requests++
		r.events += one.events
		_ = r.total.RecordValue(int64(one.done.Sub(from)))
		_ = r.first.RecordValue(int64(one.first.Sub(from)))
		return
	case errors.Is(err, errTruncated):
		r.truncated++
	case errors.Is(err, errWrong):
		r.wrong++
	default:
		r.errors++
	}
	if r.example == "" {
		r.example = err.Error()
	}
}

// run sends the load and returns when every answer has arrived. In closed loop each connection sends its next request
// after its answer. In open loop requests are due at fixed times regardless of the target, and the wait for a free
// connection counts as latency, so that a target that stalls cannot hide it (coordinated omission).
func (w *load) run(ctx context.Context, connections []*connection) tally {
	r := recorder{tally: tally{total: newHistogram(), first: newHistogram(), event: newHistogram()}}
	var begun atomic.Int64
	var group sync.WaitGroup
	start := time.Now()
	for i, c := range connections {
		group.Go(func() {
			if w.lane.gap > 0 && !pause(ctx, rampUp*time.Duration(i)/time.Duration(len(connections))) {
				return
			}
			var session turns
			for ctx.Err() == nil {
				n := w.next(&begun, &session)
				if n >= w.requests {
					return
				}
				from, ok := w.due(ctx, start, n)
				if !ok {
					return
				}
				one, err := c.do(ctx, w.seed, n, r.delayed)
				if from.IsZero() {
					from = one.sent
				}
				r.add(from, one, err)
			}
		})
	}
	group.Wait()
	r.elapsed = time.Since(start)
	return r.tally
}

// turns are the requests of a session that its connection still has to send.
type turns struct{ next, end int }

// next returns the number of the next request of a connection. begun counts the requests that connections have taken:
// the requests of a session together, others one by one.
func (w *load) next(begun *atomic.Int64, session *turns) (n int) {
	if session.next == session.end {
		together := 1
		if w.lane.session {
			together = agentTurns
		}
		session.end = int(begun.Add(int64(together)))
		session.next = session.end - together
	}
	n = session.next
	session.next++
	return n
}

// due waits until request n is due and returns the time from which its latency counts: when it was due, if the
// connection was late because of the target; zero, meaning when it is sent, if the connection was waiting. In closed
// loop it is always zero.
func (w *load) due(ctx context.Context, start time.Time, n int) (time.Time, bool) {
	if w.rate == 0 {
		return time.Time{}, true
	}
	at := start.Add(time.Duration(float64(n) / w.rate * float64(time.Second)))
	wait := time.Until(at)
	if wait <= 0 {
		return at, true
	}
	return time.Time{}, pause(ctx, wait)
}

func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
