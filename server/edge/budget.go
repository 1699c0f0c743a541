package edge

import "sync/atomic"

// Budget bounds the memory of a set of things: the request bodies being handled, or the answers held.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget returns a budget of limit bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Take reserves n bytes and reports whether there was room.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

// Give returns n bytes.
func (b *Budget) Give(n int64) { b.used.Add(-n) }

// Used returns how many bytes are taken.
func (b *Budget) Used() int64 { return b.used.Load() }
