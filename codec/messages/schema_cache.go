package messages

import "sync"

// Bounds of a schema cache. Larger schemas are cleaned each time; a full cache is emptied.
const (
	maxCachedSchema  = 64 << 10
	maxCachedSchemas = 512
)

// schemaCache keeps cleaned schemas by the bytes they were made from. It is safe for use by many goroutines.
type schemaCache struct {
	clean func(schema []byte) []byte

	mu    sync.Mutex
	known map[string][]byte
}

// get is the cleaned schema. It must not be changed.
func (c *schemaCache) get(schema []byte) []byte {
	c.mu.Lock()
	cleaned, ok := c.known[string(schema)]
	c.mu.Unlock()
	if ok {
		return cleaned
	}
	cleaned = c.clean(schema)
	if len(schema) > maxCachedSchema {
		return cleaned
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.known == nil || len(c.known) >= maxCachedSchemas {
		c.known = make(map[string][]byte)
	}
	c.known[string(schema)] = cleaned
	return cleaned
}
