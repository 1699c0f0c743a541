// Package schemacache caches the translated schemas of tools. Agents send the same dozens of tools with every turn, so
// from the second turn on a schema is a lookup.
package schemacache

import "sync"

const (
	// mostBytes is the memory that a cache may hold, in bytes of schemas as they came and as they went: the tools of some
	// thousand distinct agents.
	mostBytes = 16 << 20
	// mostBytesOfOne keeps one giant from emptying the cache.
	mostBytesOfOne = 256 << 10
)

// Cache keeps what prepare makes of a schema. When it is full it starts over, which costs one turn of each agent. It is safe
// for use by many goroutines.
type Cache[T any] struct {
	prepare func(schema []byte) (made T, size int)

	mu   sync.RWMutex
	made map[string]T
	size int
}

// New returns an empty cache. prepare returns the value to cache for a schema, and its size in bytes.
func New[T any](prepare func(schema []byte) (made T, size int)) *Cache[T] {
	return &Cache[T]{prepare: prepare, made: make(map[string]T)}
}

// Get returns the value of a schema. It is shared: callers only read it.
func (c *Cache[T]) Get(schema []byte) T {
	c.mu.RLock()
	known, ok := c.made[string(schema)]
	c.mu.RUnlock()
	if ok {
		return known
	}
	made, size := c.prepare(schema)
	size += len(schema)
	if size > mostBytesOfOne {
		return made
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size+size > mostBytes {
		clear(c.made)
		c.size = 0
	}
	if _, taken := c.made[string(schema)]; !taken {
		c.size += size
		c.made[string(schema)] = made
	}
	return made
}
