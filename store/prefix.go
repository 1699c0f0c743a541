package store

import (
	"slices"
	"unsafe"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/cache"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Agents send their whole history again every turn. The store remembers where messages began in the requests that it
// read last: the hash of a request's items, up to and including the one that a message begins with, leads to what
// precedes that message. A later request that begins with the same items is kept and read only from there on.

// RequestItems is what is known about a request's messages or input items from its arrival.
type RequestItems struct {
	// From is how many of them need not be read, because their content is known. If it is above 0,
	// [Exchange.RawRequest] has only the other items and the bytes between them.
	From int

	known prefix          // the messages before From
	start int             // where in the request [Exchange.RawRequest] begins
	count int             // of all items
	last  []blob.ItemHash // of the last items
	spans []codec.Span    // in the request, of the last of these: all that are in its last maxSource bytes
}

// itemsOf returns what is known about the items of a request, which has them at these spans, before their contents are.
func itemsOf(spans []codec.Span, last []blob.ItemHash) *RequestItems {
	first, size := len(spans), 0
	for ; first > max(len(spans)-len(last), len(spans)-maxBlocks); first-- {
		if size += spans[first-1].End - spans[first-1].Start; size > maxSource {
			break
		}
	}
	return &RequestItems{count: len(spans), last: last, spans: slices.Clone(spans[first:])}
}

// unread returns the same items for an exchange with the whole request.
func (items *RequestItems) unread() *RequestItems {
	if items == nil {
		return nil
	}
	return &RequestItems{count: items.count, last: items.last, spans: items.spans}
}

// size returns how many bytes of memory the items take.
func (items *RequestItems) size() int {
	if items == nil {
		return 0
	}
	return len(items.last)*int(unsafe.Sizeof(blob.ItemHash{})) + len(items.spans)*int(unsafe.Sizeof(codec.Span{}))
}

// hash returns the hashes of the item at an index; nil if they are not known.
func (items *RequestItems) hash(index int) *blob.ItemHash {
	if i := index - items.count + len(items.last); i >= 0 && i < len(items.last) {
		return &items.last[i]
	}
	return nil
}

// blocks visits the hashes of the last blocks of the request, and their places in [Exchange.RawRequest].
func (items *RequestItems) blocks(visit func(kv.Hash, codec.Span) bool) {
	for i, at := range items.spans {
		hash := items.hash(items.count - len(items.spans) + i).Block
		if hash != (kv.Hash{}) && at.Start >= items.start && !visit(hash, codec.Span{Start: at.Start - items.start, End: at.End - items.start}) {
			return
		}
	}
}

const (
	prefixesFrom       = 8 << 10 // bytes of a request from which on its prefixes are remembered
	prefixesPerRequest = 8       // of its last messages: clients continue after them, and change the last few once more
	prefixGeneration   = 4 << 10 // prefixes in a generation; one takes about 150 bytes
)

// prefix is the messages before a place in a request.
type prefix struct {
	messages int // above 0: what follows is not the opening text
	history  historyHash
}

// prefixRef identifies a prefix: the items up to and including the next one, in an account's requests on a surface.
type prefixRef struct {
	account kv.AccountNumber
	surface string
	items   kv.Hash
}

// prefixMemory is filled by readers of requests and queried when requests are kept.
type prefixMemory struct{ cache.Map[prefixRef, prefix] }

// find returns the longest known prefix of items, and where it ends; 0 if none is known. Only the last
// [blob.LastItems] may follow it.
func (m *prefixMemory) find(account kv.AccountNumber, surface string, items *RequestItems) (p prefix, from int) {
	for i := items.count - 1; i > 0; i-- {
		hash := items.hash(i)
		if hash == nil {
			break
		}
		if p, ok := m.Get(prefixRef{account, surface, hash.Chain}); ok {
			return p, i
		}
	}
	return prefix{}, 0
}

// skipKnown removes from a request held whole what has become known since it arrived. Several requests with one history
// may arrive before the first of them is read.
func (m *prefixMemory) skipKnown(account kv.AccountNumber, x *Exchange) {
	if x == nil || x.RawRequest == nil || x.Derived == nil || x.Items == nil || x.Items.From > 0 {
		return
	}
	known, from := m.find(account, x.Surface, x.Items)
	i := from - x.Items.count + len(x.Items.spans)
	if from == 0 || i < 0 {
		return
	}
	items := x.Items
	items.known, items.From, items.start = known, from, items.spans[i].Start
	x.RawRequest = append(x.RawRequest[:0], x.RawRequest[items.start:items.spans[len(items.spans)-1].End]...)
}

// remember adds the prefixes of a request that was read.
func (m *prefixMemory) remember(account kv.AccountNumber, x *Exchange, r *reading) {
	if x.Items == nil || len(r.Starts) != len(r.Messages) {
		return
	}
	for i, n := len(r.Starts)-1, 0; i >= 0 && n < prefixesPerRequest; i-- {
		at := r.Starts[i]
		if p := (prefix{r.before + i, r.history[i]}); p.messages > 0 && (i == 0 || r.Starts[i-1] < at) {
			if hash := x.Items.hash(at); hash != nil {
				m.Put(prefixRef{account, x.Surface, hash.Chain}, p)
				n++
			}
		}
	}
}
