package search

import (
	"context"
	"sync"
)

// besides is work on the index that continues when no caller waits for it.
type besides struct {
	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup
}

// Beside runs work in its own goroutine, whose context ends when the index is closed; Close waits for it. It reports
// whether the index is still open.
func (x *Index) Beside(work func(ctx context.Context)) bool {
	x.beside.mu.Lock()
	defer x.beside.mu.Unlock()
	if x.beside.closed {
		return false
	}
	x.beside.work.Go(func() { work(x.life) })
	return true
}

func (b *besides) end() {
	b.mu.Lock()
	b.closed = true
	b.mu.Unlock()
	b.work.Wait()
}
