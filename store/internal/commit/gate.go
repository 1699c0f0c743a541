package commit

import (
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/volume"
)

const (
	lookEvery  = 50 * time.Millisecond
	lookCommit = 5 * time.Millisecond // before commits, while there is plenty of room
)

// Gate keeps the database away from a full volume: Badger writes through memory maps, and a write without space
// kills the process (SIGBUS). New exchanges stop at the reserve; those in progress may use half of it.
type Gate struct {
	Reserve int64 // free bytes below which nothing new starts; 0: no gate

	dir string

	looked atomic.Int64 // unix nanoseconds of the last check
	free   atomic.Int64 // bytes free at that check
}

// NewGate returns a gate to the volume that holds dir.
func NewGate(dir string, reserve int64) *Gate { return &Gate{dir: dir, Reserve: max(reserve, 0)} }

// Look makes the next question examine the volume.
func (g *Gate) Look() { g.looked.Store(0) }

// Admits returns an error unless a new exchange may begin.
func (g *Gate) Admits() error { return g.above(g.Reserve, false) }

// Allows returns an error unless an exchange in progress may be written.
func (g *Gate) Allows() error { return g.above(g.Reserve/2, true) }

// AllowsFreeing returns an error unless there is room for an operation that frees space.
func (g *Gate) AllowsFreeing() error { return g.above(g.Reserve/4, true) }

// above returns an error unless mark bytes are free, as of the last look. Before a commit it looks again, unless twice
// the reserve was free a moment ago: nothing fills that so quickly.
func (g *Gate) above(mark int64, commit bool) error {
	if g.Reserve == 0 {
		return nil
	}
	now, every := time.Now().UnixNano(), lookEvery
	if commit {
		if every = lookCommit; g.free.Load() < 2*g.Reserve {
			every = 0
		}
	}
	if g.free.Load() < mark || now-g.looked.Load() > int64(every) {
		space, err := volume.SpaceOf(g.dir)
		if err != nil {
			return kv.StorageError(err, "the store's volume cannot be examined; see the log of the proxy")
		}
		g.free.Store(space.Free)
		g.looked.Store(now)
	}
	if free := g.free.Load(); free < mark {
		return codec.Errorf(codec.KindStorage,
			"the store's volume is nearly full (%d MiB free, %d MiB are kept in reserve): free some space or move the data directory; service resumes by itself",
			free>>20, g.Reserve>>20)
	}
	return nil
}
