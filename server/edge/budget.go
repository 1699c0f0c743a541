package edge

import "sync/atomic"

// Budget bounds the memory of many: the request bodies that are being handled, or the answers that are held.
type Budget struct {
	limit int64
	used  atomic.Int64
}

// NewBudget makes one of that many bytes.
func NewBudget(limit int64) *Budget { return &Budget{limit: limit} }

// Take reserves n bytes and reports whether there was room.
func (b *Budget) Take(n int64) bool {
	if b.used.Add(n) > b.limit {
		b.used.Add(-n)
		return false
	}
	return true
}

// Give gives n bytes back.
func (b *Budget) Give(n int64) { b.used.Add(-n) }

// Used is how many bytes are taken.
func (b *Budget) Used() int64 { return b.used.Load() }
