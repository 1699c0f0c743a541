package feed

import (
	"cmp"
	"slices"
)

// Limits on the newest changes in the feed's memory: their number, and the bytes of requests and answers behind their
// turns, whose texts can be parts of these and keep all of them in memory.
const (
	mostRecent      = 8 << 10
	mostRecentBytes = 8 << 20
)

// recentChanges holds the newest changes, from their commit until the stages of digests, words and vectors have done
// them. A stage that is further behind reads the log and the records.
type recentChanges struct {
	list   []*Change
	from   uint64 // all after the change with this number are in list
	size   int64
	forget func(*Change) // releases what a removed change holds
}

// add adds the changes up to a number, unless they are incomplete.
func (r *recentChanges) add(last uint64, changes []*Change, whole bool) {
	if !whole {
		r.release(last)
		for _, c := range changes {
			r.forget(c)
		}
		r.from = last
		return
	}
	r.list = append(r.list, changes...)
	for _, c := range changes {
		r.size += c.Size
	}
	for r.size > mostRecentBytes || len(r.list) > mostRecent {
		r.drop()
	}
}

// release drops the changes up to a number.
func (r *recentChanges) release(upTo uint64) {
	for len(r.list) > 0 && r.list[0].Seq <= upTo {
		r.drop()
	}
}

func (r *recentChanges) drop() {
	c := r.list[0]
	r.list[0] = nil
	r.list, r.from, r.size = r.list[1:], c.Seq, r.size-c.Size
	r.forget(c)
}

// after returns changes; false if some are missing.
func (r *recentChanges) after(position, last uint64, limit int) ([]*Change, bool) {
	if position < r.from {
		return nil, false
	}
	place := func(seq uint64) int {
		i, _ := slices.BinarySearchFunc(r.list, seq, func(c *Change, seq uint64) int { return cmp.Compare(c.Seq, seq) })
		return i
	}
	first, end := place(position+1), place(last+1)
	return slices.Clone(r.list[first:min(max(first, end), first+limit)]), true
}
