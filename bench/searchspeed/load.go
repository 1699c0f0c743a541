package main

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/store/search"
)

// load is exchanges that pass at an even rate, some of which are looked for.
type load struct {
	mneme  *process
	bytes  int
	began  time.Time
	cancel context.CancelFunc
	all    sync.WaitGroup

	mu     sync.Mutex
	passed int
	late   []time.Duration // from the end of an answer until a search finds it
	err    error
}

// One exchange in so many is looked for, so often; the searches themselves are a load.
const (
	lookedFor = 20
	lookAgain = 5 * time.Millisecond
)

// startLoad lets so many exchanges a second pass, until it is stopped.
func startLoad(ctx context.Context, m *process, rate, bytes int) *load {
	ctx, cancel := context.WithCancel(ctx)
	l := &load{mneme: m, bytes: bytes, began: time.Now(), cancel: cancel}
	if rate > 0 {
		l.all.Go(func() { l.run(ctx, time.Second/time.Duration(rate)) })
	}
	return l
}

func (l *load) run(ctx context.Context, every time.Duration) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			l.all.Go(func() { l.note(ctx, l.exchange(ctx, n)) })
		}
	}
}

func (l *load) note(ctx context.Context, err error) {
	if err == nil || ctx.Err() != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
}

// exchange says something with a word of its own, and looks for it if it is one of those.
func (l *load) exchange(ctx context.Context, n int) error {
	word := fmt.Sprintf("load%dx%d", l.began.UnixNano()%1e9, n)
	const delta = 64
	prompt := fmt.Sprintf("What of %s? [[sim: events %d; size %d]]", word, l.bytes/delta, delta)
	body := fmt.Sprintf(`{"model":"gpt-5","messages":[{"role":"user","content":%q}]}`, prompt)
	if err := l.mneme.do(ctx, http.MethodPost, "/v1/chat/completions", body, nil); err != nil {
		return err
	}
	answered := time.Now()
	l.mu.Lock()
	l.passed++
	l.mu.Unlock()
	if n%lookedFor != 0 {
		return nil
	}
	for {
		var found search.Answer
		if err := l.mneme.do(ctx, http.MethodPost, "/v1/memory/search", fmt.Sprintf(`{"query":%q,"mode":"lexical"}`, word), &found); err != nil {
			return err
		}
		if len(found.Data) > 0 {
			late := time.Since(answered)
			l.mu.Lock()
			l.late = append(l.late, late)
			l.mu.Unlock()
			return nil
		}
		time.Sleep(lookAgain)
	}
}

// stop returns the exchanges per second, and how long it took until the sampled ones were found.
func (l *load) stop() (perSecond float64, late []time.Duration, err error) {
	took := time.Since(l.began)
	l.cancel()
	l.all.Wait()
	return float64(l.passed) / took.Seconds(), l.late, l.err
}
