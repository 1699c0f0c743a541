package store

import (
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/volume"
)

const (
	// Records are in a memory table, and in its log, before they are in the tree. The files of these logs are twice the
	// size of a memory table.
	//
	// The database builds tables in buffers that grow in chunks, each twice the one before, and keeps up to eight of them
	// as they are for as long as it builds any. A table of 1 MiB needs 4.5 MiB and a memory table of 3.5 MiB 5.9: both fit
	// into chunks of 2 and 4. Memory tables of 4 MiB would take 14 MiB each time, tables of 2 MiB 12, and memory tables of
	// 16 MiB took 28, so that up to 200 MiB were in use and the collector was never at rest. 16 small tables are merged at
	// once, which is as much as four large ones.
	memTableSize      = 7 << 19
	memTables         = 4 // that may wait until they are tables
	leastTableSize    = 1 << 20
	tablesBeforeMerge = 16 // of memory tables

	// Each table is a file that is open and mapped, and Linux allows a process 65,530 maps (vm.max_map_count). A store may
	// grow to four times this number of tables before it is opened again.
	mostTables = 16 << 10

	// Values of this size are in the value log, which is written once. Values in the tree are written to its log, to a
	// table, and to another table whenever that is compacted, and each table is synced: records in the tree cost a
	// third of all CPU time per exchange.
	valueThreshold = 256

	compactionRoom = 64 << 20 // for new tables while the old ones exist

	smallVolume   = 4 << 30 // on smaller volumes files are small, so that space is freed in small steps
	smallValueLog = 16 << 20
	valueLog      = 128 << 20

	maxDiskReserve = 1 << 30
	diskLookEvery  = 50 * time.Millisecond
	diskLookCommit = 5 * time.Millisecond // before commits, while there is plenty of room
)

// valueLogSize returns the size of value log files for the volume that holds dir.
func valueLogSize(dir string) int64 {
	if onSmallVolume(dir) {
		return smallValueLog
	}
	return valueLog
}

// tableSize returns the size of new tables for the store in dir. In a large tree they are larger, so that they do not become
// too many, and building them takes more memory.
func tableSize(dir string) int64 {
	tables, _ := filepath.Glob(filepath.Join(dir, files.DatabaseDir, "*.sst"))
	tree, size := int64(0), int64(leastTableSize)
	for _, table := range tables {
		if info, err := os.Stat(table); err == nil {
			tree += info.Size()
		}
	}
	for tree > size*mostTables {
		size *= 2
	}
	return size
}

func onSmallVolume(dir string) bool {
	size := volumeSize(dir)
	return size > 0 && size < smallVolume
}

func volumeSize(dir string) int64 {
	space, err := volume.SpaceOf(dir)
	if err != nil {
		return 0
	}
	return space.Total
}

// defaultReserve returns what the database may need on top of the data: room for two value log files and for
// compaction; on larger volumes a twentieth, up to 1 GiB.
func defaultReserve(dir string) int64 {
	least := 2*valueLogSize(dir) + compactionRoom
	return max(least, min(volumeSize(dir)/20, maxDiskReserve))
}

// Ready returns why no exchange can be recorded; nil if it can.
func (s *Store) Ready() error {
	if s.opts.OnPressure == Shed {
		return nil
	}
	return s.disk.admits()
}

// diskGate keeps the database away from a full volume: Badger writes through memory maps, and a write without space
// kills the process (SIGBUS). New exchanges stop at the mark; those in progress may use half the reserve.
type diskGate struct {
	dir  string
	mark int64 // free bytes below which nothing new starts; 0: no gate

	looked atomic.Int64 // unix nanoseconds of the last check
	free   atomic.Int64 // bytes free at that check
}

func newDiskGate(dir string, mark int64) diskGate {
	if mark == 0 {
		mark = defaultReserve(dir)
	}
	return diskGate{dir: dir, mark: max(mark, 0)}
}

// admits returns an error unless a new exchange may begin.
func (g *diskGate) admits() error { return g.above(g.mark, false) }

// allows returns an error unless an exchange in progress may be written.
func (g *diskGate) allows() error { return g.above(g.mark/2, true) }

// allowsFreeing returns an error unless there is room for an operation that frees space.
func (g *diskGate) allowsFreeing() error { return g.above(g.mark/4, true) }

// above returns an error unless mark bytes are free, as of the last look. Before a commit it looks again, unless twice
// the reserve was free a moment ago: nothing fills that so quickly.
func (g *diskGate) above(mark int64, commit bool) error {
	if g.mark == 0 {
		return nil
	}
	now, every := time.Now().UnixNano(), diskLookEvery
	if commit {
		if every = diskLookCommit; g.free.Load() < 2*g.mark {
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
			free>>20, g.mark>>20)
	}
	return nil
}
