package catalog

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// likes finds turns by their likeness to a query.
type likes struct {
	vectors  atomic.Pointer[search.Vectors] // nil: there is no embedder
	digested wake.Signal                    // there may be something to embed
	other    atomic.Pointer[string]         // the embedder that makes vectors instead, as last seen; nil or "": none
	centres  centres
}

// centres are the centres of the vectors of accounts that were searched last, from samples.
type centres struct {
	mu   sync.Mutex
	list map[record.AccountNumber]centre
}

type centre struct {
	embedder string
	value    []float32
	until    time.Time
}
