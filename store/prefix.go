package store

import (
	"sync"

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

	known prefix    // the messages before From
	chain []kv.Hash // of the items up to and including each
}

const (
	prefixesFrom       = 8 << 10 // bytes of a request from which on its prefixes are remembered
	prefixesPerRequest = 8       // of its last messages: clients continue after them, and change the last few once more
	prefixesTried      = 64      // items that a request may have after a known prefix
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

// prefixMemory is filled by readers of requests and queried when requests are kept. Like the set of known blocks it
// holds what was used last, in two generations.
type prefixMemory struct {
	mu           sync.Mutex
	young, older map[prefixRef]prefix
}

// get requires mu, like put.
func (m *prefixMemory) get(ref prefixRef) (prefix, bool) {
	if p, ok := m.young[ref]; ok {
		return p, true
	}
	p, ok := m.older[ref]
	if ok {
		m.put(ref, p)
	}
	return p, ok
}

func (m *prefixMemory) put(ref prefixRef, p prefix) {
	if len(m.young) >= prefixGeneration || m.young == nil {
		m.older, m.young = m.young, make(map[prefixRef]prefix)
	}
	m.young[ref] = p
}

// find returns the longest known prefix of items, and where it ends; 0 if none is known.
func (m *prefixMemory) find(account kv.AccountNumber, surface string, chain []kv.Hash) (p prefix, from int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for k := len(chain) - 1; k > 0 && k >= len(chain)-prefixesTried; k-- {
		if p, ok := m.get(prefixRef{account, surface, chain[k]}); ok {
			return p, k
		}
	}
	return prefix{}, 0
}

// remember adds the prefixes of a request that was read.
func (m *prefixMemory) remember(account kv.AccountNumber, x *Exchange, r *reading) {
	if x.Items == nil || len(r.Starts) != len(r.Messages) {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	chain := x.Items.chain
	for i, n := len(r.Starts)-1, 0; i >= 0 && n < prefixesPerRequest; i-- {
		at := r.Starts[i]
		if p := (prefix{r.before + i, r.history[i]}); p.messages > 0 && at < len(chain) && (i == 0 || r.Starts[i-1] < at) {
			m.put(prefixRef{account, x.Surface, chain[at]}, p)
			n++
		}
	}
}
