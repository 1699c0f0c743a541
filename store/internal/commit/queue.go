package commit

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/wake"
)

const (
	queueLength = 1024    // operations in the writer's queue
	perOpBytes  = 1 << 10 // the fixed weight of an operation, besides its bytes
)

// ErrClosed is the error of operations on a closed store.
var ErrClosed = codec.Errorf(codec.KindStorage, "the store is shutting down; try again in a moment")

// queue holds the operations for the writer. Senders wait while there are too many of them, or too many bytes.
type queue struct {
	writes  chan Step
	hurry   wake.Signal         // a caller waits for an operation that may be held, see gathering
	room    *semaphore.Weighted // in bytes; the writer releases the weight of what it has acknowledged
	size    int64               // of room
	sending sync.RWMutex        // read-locked while an operation is put into writes, write-locked to close it
	closed  bool
	drained chan struct{} // closed by the writer when everything is done
}

func newQueue(bytes int64) queue {
	return queue{
		writes: make(chan Step, queueLength), hurry: wake.New(),
		room: semaphore.NewWeighted(bytes), size: bytes, drained: make(chan struct{}),
	}
}

// close admits no more operations. The writer still takes the queued ones. It reports whether the queue was open.
func (q *queue) close() bool {
	q.sending.Lock()
	defer q.sending.Unlock()
	if q.closed {
		return false
	}
	q.closed = true
	close(q.writes)
	return true
}

// send puts an operation into the writer's queue, waiting for room.
func (q *queue) send(ctx context.Context, s Step) error {
	o := s.op()
	o.Weight = min(o.Weight+perOpBytes, q.size)
	if !q.room.TryAcquire(o.Weight) {
		q.hurry.Notify()
		if err := q.room.Acquire(ctx, o.Weight); err != nil {
			return err
		}
	}
	q.sending.RLock()
	defer q.sending.RUnlock()
	if q.closed {
		q.release(o)
		return ErrClosed
	}
	select {
	case q.writes <- s:
		return nil
	case <-ctx.Done():
		q.release(o)
		return ctx.Err()
	}
}

// trySend is send without waiting.
func (q *queue) trySend(s Step) (sent bool, err error) {
	o := s.op()
	o.Weight = min(o.Weight+perOpBytes, q.size)
	if !q.room.TryAcquire(o.Weight) {
		q.hurry.Notify()
		return false, nil
	}
	q.sending.RLock()
	defer q.sending.RUnlock()
	if q.closed {
		q.release(o)
		return false, ErrClosed
	}
	select {
	case q.writes <- s:
		return true, nil
	default:
		q.release(o)
		return false, nil
	}
}

// release frees the weight of an operation.
func (q *queue) release(o *Op) { q.room.Release(o.Weight) }

// poll takes the next operation if there is one.
func (q *queue) poll() (Step, bool) {
	select {
	case s, ok := <-q.writes:
		return s, ok
	default:
		return nil, false
	}
}
