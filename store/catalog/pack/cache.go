package pack

import (
	"sync"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// cache holds recently written or read values in two generations: when the younger is full, the older is dropped.
type cache struct {
	most int // bytes of values in a generation

	mu           sync.Mutex
	young, older map[spot][]byte
	size         int // of young
}

// spot is where a record begins. Packs are written once, so a spot always has the same value.
type spot struct {
	account kv.AccountNumber
	pack    ID
	at      int
}

func (c *cache) get(at spot) (value []byte, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if value, ok = c.young[at]; ok {
		return value, true
	}
	if value, ok = c.older[at]; ok {
		c.add(at, value)
	}
	return value, ok
}

// put adds a value, which must not be changed afterwards.
func (c *cache) put(at spot, value []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(at, value)
}

func (c *cache) add(at spot, value []byte) {
	const entry = 128 // approximate overhead of an entry in bytes
	if len(value)+entry > c.most/4 {
		return
	}
	if c.young == nil || c.size+len(value)+entry > c.most {
		c.older, c.young, c.size = c.young, make(map[spot][]byte), 0
	}
	if _, there := c.young[at]; !there {
		c.young[at] = value
		c.size += len(value) + entry
	}
}

// forget drops the values of a pack: deleted data must not be served.
func (c *cache) forget(account kv.AccountNumber, pack ID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, generation := range [...]map[spot][]byte{c.young, c.older} {
		for at := range generation {
			if at.account == account && at.pack == pack {
				delete(generation, at)
			}
		}
	}
}
