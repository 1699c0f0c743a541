package store

import "sync"

// mostFresh is how many bytes of requests and answers the fresh turns may be of: their texts can be parts of these, and
// keep all of them in memory. When there are more all are let go, for the follower is far behind then.
const mostFresh = 8 << 20

// freshTurns holds turns from the commit that they were digested in until their follower takes them, so that it does not
// read and decode again what has just been in memory.
type freshTurns struct {
	mu       sync.Mutex
	byChange map[uint64]*freshTurn
	size     int64
}

type freshTurn struct {
	seq   uint64 // of the change
	entry TimelineEntry
	size  int64 // bytes of the request and of the answer
}

// add holds turns that have been committed.
func (f *freshTurns) add(turns []freshTurn) {
	if len(turns) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.byChange == nil {
		f.byChange = make(map[uint64]*freshTurn)
	}
	for i := range turns {
		t := turns[i]
		if f.size+t.size > mostFresh {
			clear(f.byChange)
			f.size = 0
		}
		f.byChange[t.seq] = &t
		f.size += t.size
	}
}

// take gives the turn of a change, once; nil if it is not held.
func (f *freshTurns) take(seq uint64) *TimelineEntry {
	f.mu.Lock()
	defer f.mu.Unlock()
	t := f.byChange[seq]
	if t == nil {
		return nil
	}
	delete(f.byChange, seq)
	f.size -= t.size
	return &t.entry
}
