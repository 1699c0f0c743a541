package vector

import (
	"container/list"
	"context"
	"sync"
)

// Key identifies the set of an account in a generation.
type Key struct{ Account, Generation uint32 }

// Cache holds the most recently searched sets, up to a number of bytes; accounts that are not searched cost nothing.
type Cache struct {
	limit int64

	mu      sync.Mutex
	entries map[Key]*list.Element // of *entry
	recent  list.List             // the most recently used first
}

type entry struct {
	key   Key
	ready chan struct{} // closed when set or err is there
	set   *Set
	err   error
}

// NewCache returns a cache of roughly limit bytes. It holds one set even if that is larger.
func NewCache(limit int64) *Cache {
	return &Cache{limit: limit, entries: make(map[Key]*list.Element)}
}

// Get returns a set. A missing one is loaded by one caller while the others wait for it.
func (c *Cache) Get(ctx context.Context, key Key, load func(context.Context) (*Set, error)) (*Set, error) {
	for {
		e, mine := c.enter(key)
		if mine {
			e.set, e.err = load(ctx)
			close(e.ready)
			if e.err != nil {
				c.forget(e)
			}
			c.Trim()
			return e.set, e.err
		}
		select {
		case <-e.ready:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		if e.err == nil {
			return e.set, nil
		}
		// The goroutine that loaded it gave up, perhaps because its caller stopped waiting: try again.
	}
}

// enter returns the entry of a key; mine reports that it is new, and that the caller has to load it.
func (c *Cache) enter(key Key) (e *entry, mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.entries[key]; found != nil {
		c.recent.MoveToFront(found)
		return found.Value.(*entry), false
	}
	e = &entry{key: key, ready: make(chan struct{})}
	c.entries[key] = c.recent.PushFront(e)
	return e, true
}

// Loaded returns a set that is loaded or being loaded; nil otherwise.
func (c *Cache) Loaded(key Key) *Set {
	c.mu.Lock()
	found := c.entries[key]
	c.mu.Unlock()
	if found == nil {
		return nil
	}
	e := found.Value.(*entry)
	<-e.ready
	return e.set
}

func (c *Cache) forget(e *entry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if found := c.entries[e.key]; found != nil && found.Value.(*entry) == e {
		c.recent.Remove(found)
		delete(c.entries, e.key)
	}
}

// Trim drops what is beyond the limit. Call it after sets have grown.
func (c *Cache) Trim() {
	c.mu.Lock()
	defer c.mu.Unlock()
	var held int64
	for at := c.recent.Front(); at != nil; {
		e, next := at.Value.(*entry), at.Next()
		select {
		case <-e.ready:
			if e.set != nil {
				held += e.set.Bytes()
			}
			if held > c.limit && at != c.recent.Front() {
				c.recent.Remove(at)
				delete(c.entries, e.key)
			}
		default: // still loading
		}
		at = next
	}
}

// Drop drops all sets of a generation.
func (c *Cache) Drop(generation uint32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for key, at := range c.entries {
		if key.Generation == generation {
			c.recent.Remove(at)
			delete(c.entries, key)
		}
	}
}

// Bytes estimates the memory of the sets.
func (c *Cache) Bytes() (held int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for at := c.recent.Front(); at != nil; at = at.Next() {
		select {
		case <-at.Value.(*entry).ready:
			if set := at.Value.(*entry).set; set != nil {
				held += set.Bytes()
			}
		default:
		}
	}
	return held
}
