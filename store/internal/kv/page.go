package kv

import (
	"bytes"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
)

const (
	defaultPage = 20

	// MaxPage is the maximum number of entries of a page.
	MaxPage = 1000
)

// Window is the part of a list that a page comes from. A cursor is a place in the order, whether or not the entry with
// that id still exists, so pages neither repeat nor skip entries while others write.
type Window struct {
	low, high *TimeID // exclusive; nil is open
	Backwards bool    // walk from high to low
	Reverse   bool    // the walk runs against the requested order
	Limit     int
}

// NewWindow parses cursors, which are ids with the prefix of the listed kind. With before alone, the page is the one
// that ends there, so the walk runs against the requested order.
func NewWindow(after, before string, limit int, ascending bool, prefix string) (w Window, err error) {
	cursor := func(name, text string) *TimeID {
		if text == "" {
			return nil
		}
		id, ok := ParseID(prefix, text)
		if !ok {
			err = codec.Invalid(name, "%q is not an id of this list", text)
		}
		return &id
	}
	w.low, w.high = cursor("after", after), cursor("before", before)
	if !ascending {
		w.low, w.high = w.high, w.low
	}
	w.Reverse = before != "" && after == ""
	w.Backwards = ascending == w.Reverse
	if w.Limit = limit; limit <= 0 {
		w.Limit = defaultPage
	}
	w.Limit = min(w.Limit, MaxPage)
	return w, err
}

// Below returns the part of a window below an id.
func (w Window) Below(id TimeID) Window {
	if w.high == nil || bytes.Compare(id[:], w.high[:]) < 0 {
		w.high = &id
	}
	return w
}

// Walk visits the ids that follow prefix in keys, within the window and in the order of its walk, until visit returns
// false. The item is valid only during the call.
func (w *Window) Walk(tx *badger.Txn, prefix []byte, visit func(id TimeID, item *badger.Item) bool) {
	start, stop := w.low, w.high
	if w.Backwards {
		start, stop = w.high, w.low
	}
	it := tx.NewIterator(badger.IteratorOptions{Prefix: prefix, Reverse: w.Backwards})
	defer it.Close()
	from := bytes.Clone(prefix)
	switch {
	case start != nil:
		from = append(from, start[:]...)
	case w.Backwards:
		from = append(from, highestID[:]...)
	}
	for it.Seek(from); it.Valid(); it.Next() {
		key := it.Item().Key()
		if len(key) != len(prefix)+len(TimeID{}) {
			continue
		}
		id := TimeID(key[len(prefix):])
		if start != nil && id == *start {
			continue
		}
		if stop != nil && (id == *stop || bytes.Compare(id[:], stop[:]) < 0 == w.Backwards) {
			return
		}
		if !visit(id, it.Item()) {
			return
		}
	}
}

var highestID = TimeID(bytes.Repeat([]byte{0xff}, 16))

// Bounds returns the exclusive bounds of the window as [TimeID.Text] writes them with prefix; "" is open.
func (w *Window) Bounds(prefix string) (low, high string) {
	if w.low != nil {
		low = w.low.Text(prefix)
	}
	if w.high != nil {
		high = w.high.Text(prefix)
	}
	return low, high
}
