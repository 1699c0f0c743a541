package repeats

import (
	"sync"
	"time"
)

// Reports keeps a client that retries from having the same loop reported again each time. The zero Reports is ready to
// use.
type Reports struct {
	mu   sync.Mutex
	last map[Report]time.Time
}

// Report identifies reports of which one a minute is enough.
type Report struct {
	Key, Session string
	Times        int // rounds; 0: the loop is refused
}

const (
	reportRest  = time.Minute
	mostReports = 4096 // loops at a time; those beyond them are reported each time
)

// Due reports whether a report is due, and notes that it is made.
func (r *Reports) Due(now time.Time, of Report) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, known := r.last[of]; known && now.Sub(at) < reportRest {
		return false
	}
	if len(r.last) >= mostReports {
		for old, at := range r.last {
			if now.Sub(at) >= reportRest {
				delete(r.last, old)
			}
		}
	}
	if r.last == nil {
		r.last = make(map[Report]time.Time)
	}
	if len(r.last) < mostReports {
		r.last[of] = now
	}
	return true
}
