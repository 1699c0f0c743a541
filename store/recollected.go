package store

import (
	"sync"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// recollected caches the recollections of running conversations, because each request asks for those of all its earlier
// turns. It holds what was used last, in two generations: when the younger is full, the older is dropped. Every erasure
// of an exchange empties it.
type recollected struct {
	mu           sync.Mutex
	young, older map[recollectedPlace]*Recollection
	size         int    // bytes of young
	erasures     uint64 // so far; what was read before one may be gone
}

type recollectedPlace struct {
	account kv.AccountNumber
	key     RecollectionKey
}

const (
	recollectedGeneration = 4 << 20 // bytes
	recollectedEntry      = 256     // bytes besides the text
)

// find fills in the known recollections, and returns the indexes of the others. The caller reads those and adds them
// with the number of erasures.
func (m *recollected) find(account kv.AccountNumber, keys []RecollectionKey, found []*Recollection) (missing []int, erasures uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, key := range keys {
		place := recollectedPlace{account, key}
		r := m.young[place]
		if r == nil {
			if r = m.older[place]; r != nil {
				m.put(place, r)
			}
		}
		if found[i] = r; r == nil {
			missing = append(missing, i)
		}
	}
	return missing, m.erasures
}

// add caches what was read, unless something was erased in the meantime.
func (m *recollected) add(account kv.AccountNumber, key RecollectionKey, r *Recollection, erasures uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.erasures == erasures {
		m.put(recollectedPlace{account, key}, r)
	}
}

func (m *recollected) put(place recollectedPlace, r *Recollection) {
	if m.size >= recollectedGeneration || m.young == nil {
		m.older, m.young, m.size = m.young, make(map[recollectedPlace]*Recollection), 0
	}
	m.young[place] = r
	m.size += recollectedEntry + len(r.Text)
}

func (m *recollected) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.young, m.older, m.size = nil, nil, 0
	m.erasures++
}
