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
	// Records are in a memory table, and in its log, before they are in the tree. Tables of 16 MiB instead of 4 save a
	// twelfth of the CPU time of a small exchange and hold 20 MB more. Twice the size are the files of their logs.
	memTableSize      = 16 << 20
	smallMemTableSize = 4 << 20
	memTables         = 2

	// Values of this size lie in the value log, which is written once. What lies in the tree is written to its log, to a
	// table and to another one whenever that is compacted, and each table is synced: records in the tree cost a third of
	// all CPU time per exchange.
	valueThreshold = 256

	compactionRoom = 64 << 20 // for new tables while the old ones still stand

	smallVolume   = 4 << 30 // on volumes below this size files are small, so that space comes back in small steps
	smallValueLog = 16 << 20
	valueLog      = 128 << 20

	maxDiskReserve = 1 << 30
	diskLookEvery  = 50 * time.Millisecond
)

// valueLogSize is the size of value log files for the volume that holds dir.
func valueLogSize(dir string) int64 {
	if onSmallVolume(dir) {
		return smallValueLog
	}
	return valueLog
}

// memoryTableSize is the size of memory tables for the store in dir. After a crash they have to be as large as those that
// the logs which are left were written with, so it is the small one only where all logs are those of small tables.
func memoryTableSize(dir string) int64 {
	logs, err := filepath.Glob(filepath.Join(dir, files.DatabaseDir, "*.mem"))
	if err != nil || !onSmallVolume(dir) {
		return memTableSize
	}
	for _, log := range logs {
		if info, err := os.Stat(log); err != nil || info.Size() != 2*smallMemTableSize {
			return memTableSize
		}
	}
	return smallMemTableSize
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

// defaultReserve is what the database may need beyond what it is given: room for two value log files and for
// compaction; on larger volumes a twentieth, up to 1 GiB.
func defaultReserve(dir string) int64 {
	least := 2*valueLogSize(dir) + compactionRoom
	return max(least, min(volumeSize(dir)/20, maxDiskReserve))
}

// Ready says why no exchange is put on record now; nil: it is.
func (s *Store) Ready() error {
	if s.opts.OnPressure == Shed {
		return nil
	}
	return s.disk.admits()
}

// diskGate keeps the database away from a full volume: Badger writes through memory maps, and a write that finds
// no space left kills the process (SIGBUS). New exchanges stop at the mark; what is under way may use half the reserve.
type diskGate struct {
	dir  string
	mark int64 // bytes free below which nothing new is begun; 0: no gate

	looked atomic.Int64 // unix nanoseconds of the last look
	free   atomic.Int64 // bytes free at that look
}

func newDiskGate(dir string, mark int64) diskGate {
	if mark == 0 {
		mark = defaultReserve(dir)
	}
	return diskGate{dir: dir, mark: max(mark, 0)}
}

// admits reports whether a new exchange may begin.
func (g *diskGate) admits() error { return g.above(g.mark, false) }

// allows reports whether what has begun may be written. It always looks.
func (g *diskGate) allows() error { return g.above(g.mark/2, true) }

// allowsFreeing reports whether there is room for what makes more of it. It always looks.
func (g *diskGate) allowsFreeing() error { return g.above(g.mark/4, true) }

func (g *diskGate) above(mark int64, look bool) error {
	if g.mark == 0 {
		return nil
	}
	now := time.Now().UnixNano()
	if look || g.free.Load() < mark || now-g.looked.Load() > int64(diskLookEvery) {
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
