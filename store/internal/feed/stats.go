package feed

import (
	"slices"
	"sync/atomic"
	"time"
)

// StageStats is what a stage has yet to do, and what it has done since the store was opened, for all accounts.
type StageStats struct {
	Stage       string  `json:"stage"`       // digest, words, vectors or sessions
	Lag         uint64  `json:"lag"`         // changes, or exchanges to be digested, still to do
	Unconfirmed uint64  `json:"unconfirmed"` // that come again after a crash: not durable yet, or put aside
	Done        int64   `json:"done"`
	BusyMillis  float64 `json:"busy_ms"` // spent on Done
}

// stageWork sums up a stage's work.
type stageWork struct{ done, nanoseconds atomic.Int64 }

func (w *stageWork) add(done int, began time.Time) {
	w.done.Add(int64(done))
	w.nanoseconds.Add(int64(time.Since(began)))
}

// Worked counts changes that a stage has done since began.
func (f *Feed) Worked(s Stage, done int, began time.Time) {
	f.work[slices.Index(Stages[:], s)].add(done, began)
}

// Stats returns the state of the existing stages.
func (f *Feed) Stats() (all []StageStats) {
	for i, name := range [...]string{"digest", "words", "vectors", "sessions"} {
		f.mu.Lock()
		reading := f.stages[i].reading
		f.mu.Unlock()
		if reading {
			lag, unconfirmed := f.Lag(Stages[i])
			w := &f.work[i]
			all = append(all, StageStats{name, lag, unconfirmed, w.done.Load(), float64(w.nanoseconds.Load()) / 1e6})
		}
	}
	return all
}
