package blob

import (
	"sync"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// knownGeneration is how many objects a generation of the known set holds; an entry takes about 50 bytes.
const knownGeneration = 128 << 10

// Known remembers stored blocks and nodes, so that resent history costs a lookup and no write. It holds what was used
// last, in two generations: when the younger is full, the older is dropped.
type Known struct {
	mu           sync.RWMutex
	young, older map[kv.ObjectRef]struct{}
}

// Has reports whether an object is known to be stored; false means unknown.
func (k *Known) Has(ref kv.ObjectRef) bool {
	k.mu.RLock()
	_, young := k.young[ref]
	_, older := k.older[ref]
	k.mu.RUnlock()
	if older && !young {
		k.Add(ref)
	}
	return young || older
}

// Add notes that an object is stored.
func (k *Known) Add(ref kv.ObjectRef) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.young) >= knownGeneration || k.young == nil {
		k.older, k.young = k.young, make(map[kv.ObjectRef]struct{})
	}
	k.young[ref] = struct{}{}
}

// Remove forgets one object.
func (k *Known) Remove(ref kv.ObjectRef) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.young, ref)
	delete(k.older, ref)
}

// Clear forgets all objects.
func (k *Known) Clear() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.young, k.older = nil, nil
}

// Empty reports whether no object is known.
func (k *Known) Empty() bool {
	k.mu.RLock()
	defer k.mu.RUnlock()
	return len(k.young) == 0 && len(k.older) == 0
}
