package server

import (
	"context"
	"sync"
	"time"
)

// heartbeats sends heartbeats on streams that have been silent for too long. One goroutine serves all streams, so that
// a stream costs no timer. It wakes four times per interval, so the interval is exact to a quarter. Each heartbeat is
// sent by its own goroutine, because a client that does not read can block it.
type heartbeats struct {
	interval time.Duration
	done     chan struct{}
	sending  sync.WaitGroup

	mu      sync.Mutex
	streams map[stream]struct{}
}

// stream is one that a client reads.
type stream interface {
	silent() bool // for as long as a heartbeat is due
	beat()        // sends one, if the stream is silent still
}

// startHeartbeats runs until ctx ends.
func startHeartbeats(ctx context.Context, interval time.Duration) *heartbeats {
	h := &heartbeats{interval: interval, done: make(chan struct{}), streams: make(map[stream]struct{})}
	go h.run(ctx)
	return h
}

func (h *heartbeats) wait() {
	<-h.done
	h.sending.Wait()
}

func (h *heartbeats) run(ctx context.Context) {
	defer close(h.done)
	tick := time.NewTicker(h.interval / 4)
	defer tick.Stop()
	var streams []stream
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			streams = h.all(streams[:0])
			for _, p := range streams {
				if p.silent() {
					h.sending.Go(p.beat)
				}
			}
			clear(streams)
		}
	}
}

func (h *heartbeats) all(into []stream) []stream {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := range h.streams {
		into = append(into, p)
	}
	return into
}

func (h *heartbeats) add(p stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.streams[p] = struct{}{}
}

// open returns the number of streams.
func (h *heartbeats) open() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.streams)
}

func (h *heartbeats) remove(p stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams, p)
}
