package record

import (
	"slices"
	"unsafe"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// RequestItems is what is known about a request's messages or input items from its arrival.
type RequestItems struct {
	// From is how many of them need not be read, because their content is known. If it is above 0,
	// [Exchange.RawRequest] has only the other items and the bytes between them.
	From int

	Known Prefix          // the messages before From
	Start int             // where in the request [Exchange.RawRequest] begins
	Count int             // of all items
	last  []blob.ItemHash // of the last items
	Spans []codec.Span    // in the request, of the last of these: all that are in its last maxSource bytes
}

// ItemsOf returns what is known about the items of a request, which has them at these spans, before their contents are.
func ItemsOf(spans []codec.Span, last []blob.ItemHash) *RequestItems {
	first, size := len(spans), 0
	for ; first > max(len(spans)-len(last), len(spans)-maxBlocks); first-- {
		if size += spans[first-1].End - spans[first-1].Start; size > MaxSource {
			break
		}
	}
	return &RequestItems{Count: len(spans), last: last, Spans: slices.Clone(spans[first:])}
}

// Unread returns the same items for an exchange with the whole request.
func (items *RequestItems) Unread() *RequestItems {
	if items == nil {
		return nil
	}
	return &RequestItems{Count: items.Count, last: items.last, Spans: items.Spans}
}

// Size returns how many bytes of memory the items take.
func (items *RequestItems) Size() int {
	if items == nil {
		return 0
	}
	return len(items.last)*int(unsafe.Sizeof(blob.ItemHash{})) + len(items.Spans)*int(unsafe.Sizeof(codec.Span{}))
}

// Hash returns the hashes of the item at an index; nil if they are not known.
func (items *RequestItems) Hash(index int) *blob.ItemHash {
	if i := index - items.Count + len(items.last); i >= 0 && i < len(items.last) {
		return &items.last[i]
	}
	return nil
}

// blocks visits the hashes of the last blocks of the request, and their places in [Exchange.RawRequest].
func (items *RequestItems) blocks(visit func(kv.Hash, codec.Span) bool) {
	for i, at := range items.Spans {
		hash := items.Hash(items.Count - len(items.Spans) + i).Block
		if hash != (kv.Hash{}) && at.Start >= items.Start && !visit(hash, codec.Span{Start: at.Start - items.Start, End: at.End - items.Start}) {
			return
		}
	}
}

// Prefix is the messages before a place in a request.
type Prefix struct {
	Messages int // above 0: what follows is not the opening text
	History  HistoryHash
}
