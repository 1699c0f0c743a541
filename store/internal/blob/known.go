package blob

import (
	"github.com/mnemeproxy/mneme/store/internal/cache"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Known remembers stored blocks and nodes, so that resent history costs a lookup and no write.
type Known = cache.Map[kv.ObjectRef, struct{}]

// MostKnown is how many objects a generation of Known holds; an entry takes about 50 bytes.
const MostKnown = 128 << 10
