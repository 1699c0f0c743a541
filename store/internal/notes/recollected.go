package notes

import (
	"sync"

	"github.com/mnemeproxy/mneme/store/internal/cache"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// recollected caches the recollections of running conversations, because each request asks for those of all its earlier
// turns. Every erasure of an exchange empties it.
type recollected struct {
	mu       sync.Mutex
	recent   cache.Map[recollectedPlace, *record.Recollection]
	erasures uint64 // so far; what was read before one may be gone
}

func newRecollected() recollected {
	return recollected{recent: cache.Map[recollectedPlace, *record.Recollection]{
		Most: recollectedGeneration, Size: func(r *record.Recollection) int { return recollectedEntry + len(r.Text) },
	}}
}

type recollectedPlace struct {
	account kv.AccountNumber
	key     record.RecollectionKey
}

const (
	recollectedGeneration = 4 << 20 // bytes
	recollectedEntry      = 256     // bytes besides the text
)

// find fills in the known recollections, and returns the indexes of the others. The caller reads those and adds them
// with the number of erasures.
func (m *recollected) find(account kv.AccountNumber, keys []record.RecollectionKey, found []*record.Recollection) (missing []int, erasures uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i, key := range keys {
		var known bool
		if found[i], known = m.recent.Get(recollectedPlace{account, key}); !known {
			missing = append(missing, i)
		}
	}
	return missing, m.erasures
}

// add caches what was read, unless something was erased in the meantime.
func (m *recollected) add(account kv.AccountNumber, key record.RecollectionKey, r *record.Recollection, erasures uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.erasures == erasures {
		m.recent.Put(recollectedPlace{account, key}, r)
	}
}

func (m *recollected) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.recent.Clear()
	m.erasures++
}
