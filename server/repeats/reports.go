package repeats

import (
	"hash/maphash"
	"sync"
	"time"
)

// Reports keeps a client that retries from having the same loop reported again each time. The zero Reports is ready to
// use.
type Reports struct {
	mu    sync.Mutex
	swept time.Time            // when old reports were last looked for
	last  map[uint64]time.Time // by the hash of a report, whose session is as long as a client likes
}

var reportSeed = maphash.MakeSeed()

// Report identifies reports of which one a minute is enough.
type Report struct {
	Key, Session string
	Times        int // rounds; 0: the loop is refused
}

const (
	reportRest  = time.Minute
	sweepRest   = time.Second
	mostReports = 4096 // loops at a time; those beyond them are reported each time
)

// Due reports whether a report is due, and notes that it is made.
func (r *Reports) Due(now time.Time, of Report) bool {
	this := maphash.Comparable(reportSeed, of)
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, known := r.last[this]; known && now.Sub(at) < reportRest {
		return false
	}
	if len(r.last) >= mostReports && now.Sub(r.swept) >= sweepRest {
		r.swept = now
		for old, at := range r.last {
			if now.Sub(at) >= reportRest {
				delete(r.last, old)
			}
		}
	}
	if r.last == nil {
		r.last = make(map[uint64]time.Time)
	}
	if len(r.last) < mostReports {
		r.last[this] = now
	}
	return true
}
