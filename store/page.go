package store

import (
	"bytes"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
)

const (
	defaultPage = 20
	maxPage     = 1000
)

// window is the part of a list that a page comes from. A cursor names a place in the order, whether or not what it
// names still exists, so pages neither repeat nor skip while others write.
type window struct {
	low, high *timeID // exclusive; nil is open
	backwards bool    // walk from high to low
	reverse   bool    // the walk goes against the order asked for
	limit     int
}

// newWindow reads cursors: parse reads an id of the kind that is listed. With only before given the page is the one
// that ends there, so the walk goes against the order asked for.
func newWindow(after, before string, limit int, ascending bool, parse func(string) (timeID, bool)) (w window, err error) {
	cursor := func(name, text string) *timeID {
		if text == "" {
			return nil
		}
		id, ok := parse(text)
		if !ok {
			err = codec.Invalid(name, "%q is not an id of this list", text)
		}
		return &id
	}
	w.low, w.high = cursor("after", after), cursor("before", before)
	if !ascending {
		w.low, w.high = w.high, w.low
	}
	w.reverse = before != "" && after == ""
	w.backwards = ascending == w.reverse
	if w.limit = limit; limit <= 0 {
		w.limit = defaultPage
	}
	w.limit = min(w.limit, maxPage)
	return w, err
}

// walk visits the ids that follow prefix in keys, within the window and in the order of its walk, until visit says no.
// The item is valid during the call only.
func (w *window) walk(tx *badger.Txn, prefix []byte, visit func(id timeID, item *badger.Item) bool) {
	start, stop := w.low, w.high
	if w.backwards {
		start, stop = w.high, w.low
	}
	it := tx.NewIterator(badger.IteratorOptions{Prefix: prefix, Reverse: w.backwards})
	defer it.Close()
	from := bytes.Clone(prefix)
	switch {
	case start != nil:
		from = append(from, start[:]...)
	case w.backwards:
		from = append(from, highestID[:]...)
	}
	for it.Seek(from); it.Valid(); it.Next() {
		key := it.Item().Key()
		if len(key) != len(prefix)+len(timeID{}) {
			continue
		}
		id := timeID(key[len(prefix):])
		if start != nil && id == *start {
			continue
		}
		if stop != nil && (id == *stop || bytes.Compare(id[:], stop[:]) < 0 == w.backwards) {
			return
		}
		if !visit(id, it.Item()) {
			return
		}
	}
}

var highestID = timeID(bytes.Repeat([]byte{0xff}, 16))
