package store

import (
	"context"
	"sync"

	"golang.org/x/sync/semaphore"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/wake"
)

const (
	queueLength   = 1024    // operations in the writer's queue
	perWriteBytes = 1 << 10 // the fixed weight of an operation, besides its bytes
)

// errClosed is the error of operations on a closed store.
var errClosed = codec.Errorf(codec.KindStorage, "the store is shutting down; try again in a moment")

// queue holds the operations for the writer. Senders wait while there are too many of them, or too many bytes.
type queue struct {
	writes  chan *operation
	hurry   wake.Signal         // somebody waits for an operation that may be held, see gathering
	room    *semaphore.Weighted // in bytes; the writer releases the weight of what it has acknowledged
	size    int64               // of room
	sending sync.RWMutex        // read-locked while an operation is put into writes, write-locked to close it
	closed  bool
	drained chan struct{} // closed by the writer when everything is done
}

func newQueue(bytes int64) queue {
	return queue{
		writes: make(chan *operation, queueLength), hurry: wake.New(),
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

func (q *queue) weigh(w *operation) int64 {
	weight := int64(len(w.info) + len(w.part) + perWriteBytes)
	if w.body != nil {
		weight += w.body.Held
	}
	return min(weight, q.size)
}

// send puts an operation into the writer's queue, waiting for room.
func (q *queue) send(ctx context.Context, w *operation) error {
	w.weight = q.weigh(w)
	if !q.room.TryAcquire(w.weight) {
		q.hurry.Notify()
		if err := q.room.Acquire(ctx, w.weight); err != nil {
			return err
		}
	}
	q.sending.RLock()
	defer q.sending.RUnlock()
	if q.closed {
		q.release(w)
		return errClosed
	}
	select {
	case q.writes <- w:
		return nil
	case <-ctx.Done():
		q.release(w)
		return ctx.Err()
	}
}

// trySend is send without waiting.
func (q *queue) trySend(w *operation) (sent bool, err error) {
	w.weight = q.weigh(w)
	if !q.room.TryAcquire(w.weight) {
		q.hurry.Notify()
		return false, nil
	}
	q.sending.RLock()
	defer q.sending.RUnlock()
	if q.closed {
		q.release(w)
		return false, errClosed
	}
	select {
	case q.writes <- w:
		return true, nil
	default:
		q.release(w)
		return false, nil
	}
}

// release frees the weight of an operation.
func (q *queue) release(w *operation) { q.room.Release(w.weight) }

// poll takes the next operation if there is one.
func (q *queue) poll() (*operation, bool) {
	select {
	case w, ok := <-q.writes:
		return w, ok
	default:
		return nil, false
	}
}
