package gemini

import (
	"bytes"
	"hash/maphash"
	"sync"
)

const (
	// maxCachedSchemas is the memory that the cache may hold, in bytes of schemas as they came and as they went: the
	// tools of some thousand distinct agents.
	maxCachedSchemas = 16 << 20
	// maxCachedSchema keeps one giant from emptying the cache.
	maxCachedSchema = 256 << 10
)

// schemaCache keeps the cleaned form of schemas. Agents send the same tens of tools with every turn, so that cleaning
// is a lookup from the second turn on. When the cache is full it starts over, which costs one turn of each agent.
type schemaCache struct {
	seed maphash.Seed

	mu      sync.RWMutex
	entries map[uint64]cachedSchema
	size    int
}

type cachedSchema struct {
	raw []byte
	cleanSchema
}

func newSchemaCache() *schemaCache {
	return &schemaCache{seed: maphash.MakeSeed(), entries: make(map[uint64]cachedSchema)}
}

// clean returns the cleaned form of raw. It is shared: callers only read it.
func (c *schemaCache) clean(raw []byte) cleanSchema {
	key := maphash.Bytes(c.seed, raw)
	c.mu.RLock()
	known, ok := c.entries[key]
	c.mu.RUnlock()
	if ok && bytes.Equal(known.raw, raw) {
		return known.cleanSchema
	}

	cleaned := cleanUp(raw)
	size := len(raw) + len(cleaned.schema)
	if size > maxCachedSchema {
		return cleaned
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size+size > maxCachedSchemas {
		clear(c.entries)
		c.size = 0
	}
	if _, taken := c.entries[key]; !taken {
		c.size += size
		c.entries[key] = cachedSchema{raw: bytes.Clone(raw), cleanSchema: cleaned}
	}
	return cleaned
}
