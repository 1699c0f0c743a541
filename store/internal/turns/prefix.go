package turns

import (
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/internal/cache"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Agents send their whole history again every turn. The store remembers where messages began in the requests that it
// read last: the hash of a request's items, up to and including the one that a message begins with, leads to what
// precedes that message. A later request that begins with the same items is kept and read only from there on.

const (
	PrefixesFrom       = 8 << 10 // bytes of a request from which on its prefixes are remembered
	prefixesPerRequest = 8       // of its last messages: clients continue after them, and change the last few once more
	prefixGeneration   = 4 << 10 // prefixes in a generation; one takes about 150 bytes
)

// prefixRef identifies a prefix: the items up to and including the next one, in an account's requests on a surface.
type prefixRef struct {
	account kv.AccountNumber
	surface string
	items   kv.Hash
}

// prefixMemory is filled by readers of requests and queried when requests are kept.
type prefixMemory struct {
	cache.Map[prefixRef, record.Prefix]
}

// find returns the longest known prefix of items, and where it ends; 0 if none is known. Only the last
// [blob.LastItems] may follow it.
func (m *prefixMemory) find(account kv.AccountNumber, surface string, items *record.RequestItems) (p record.Prefix, from int) {
	for i := items.Count - 1; i > 0; i-- {
		hash := items.Hash(i)
		if hash == nil {
			break
		}
		if p, ok := m.Get(prefixRef{account, surface, hash.Chain}); ok {
			return p, i
		}
	}
	return record.Prefix{}, 0
}

// skipKnown removes from a request held whole what has become known since it arrived. Several requests with one history
// may arrive before the first of them is read.
func (m *prefixMemory) skipKnown(account kv.AccountNumber, x *record.Exchange) {
	if x == nil || x.RawRequest == nil || x.Derived == nil || x.Items == nil || x.Items.From > 0 {
		return
	}
	known, from := m.find(account, x.Surface, x.Items)
	i := from - x.Items.Count + len(x.Items.Spans)
	if from == 0 || i < 0 {
		return
	}
	items := x.Items
	items.Known, items.From, items.Start = known, from, items.Spans[i].Start
	x.RawRequest = append(x.RawRequest[:0], x.RawRequest[items.Start:items.Spans[len(items.Spans)-1].End]...)
}

// remember adds the prefixes of a request that was read.
func (m *prefixMemory) remember(account kv.AccountNumber, x *record.Exchange, r *conversation.Reading) {
	if x.Items == nil || len(r.Starts) != len(r.Messages) {
		return
	}
	for i, n := len(r.Starts)-1, 0; i >= 0 && n < prefixesPerRequest; i-- {
		at := r.Starts[i]
		if p := (record.Prefix{Messages: r.Before + i, History: r.History[i]}); p.Messages > 0 && (i == 0 || r.Starts[i-1] < at) {
			if hash := x.Items.Hash(at); hash != nil {
				m.Put(prefixRef{account, x.Surface, hash.Chain}, p)
				n++
			}
		}
	}
}
