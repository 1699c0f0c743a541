package vector

import (
	"container/list"
	"context"
	"sync"
)

// Key names the set of an account in a generation.
type Key struct{ Account, Generation uint32 }

// Cache holds the sets that were searched last, up to a number of bytes; an account that nobody searches costs nothing.
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

// NewCache makes a cache of about so many bytes. One set is held even if it is larger.
func NewCache(limit int64) *Cache {
	return &Cache{limit: limit, entries: make(map[Key]*list.Element)}
}

// Get gives a set. One that is not there is loaded, by one caller while the others wait for it.
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
		// The goroutine that loaded it gave up, perhaps because nobody waited for it any more; now it is our turn.
	}
}

// enter finds the entry of a key; mine tells that it is new, and that the caller has to load it.
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

// Loaded gives a set that is there or about to be there; nil if it is not.
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

// Trim lets go of what is beyond the limit. It is called after sets have grown.
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
		default: // it is being loaded
		}
		at = next
	}
}

// Drop lets go of all sets of a generation.
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

// Bytes is what the sets take in memory, about.
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
