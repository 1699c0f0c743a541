package upkeep

import (
	"sync"

	"github.com/mnemeproxy/mneme/store/internal/wake"
)

// queue is work for the keeper's goroutine.
type queue[T any] struct {
	mu      sync.Mutex
	waiting []T
	signal  wake.Signal
}

func (q *queue[T]) add(work T) {
	q.mu.Lock()
	q.waiting = append(q.waiting, work)
	q.mu.Unlock()
	q.signal.Notify()
}

func (q *queue[T]) take() (work T, ok bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) == 0 {
		return work, false
	}
	work, q.waiting = q.waiting[0], q.waiting[1:]
	return work, true
}
