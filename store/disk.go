package store

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/files"
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

	compactionRoom = 64 << 20 // for new tables while the old ones exist

	smallVolume   = 4 << 30 // on smaller volumes files are small, so that space is freed in small steps
	smallValueLog = 16 << 20
	valueLog      = 128 << 20

	maxDiskReserve = 1 << 30
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

// badgerOptions returns options for a single writer whose large values are already compressed: a small memory
// footprint, only small values in the tree, no conflict detection.
//
// Blocks of tables are compressed, since their content is not: keys, and similar records. A block that is read is then
// a copy, not a place in the mapped file, and the block cache keeps the last ones.
func badgerOptions(opts Options) badger.Options {
	o := badger.DefaultOptions(filepath.Join(opts.Dir, files.DatabaseDir)).
		WithMemTableSize(memTableSize).
		WithNumMemtables(memTables).
		WithBaseTableSize(tableSize(opts.Dir)).
		WithNumCompactors(2).
		WithNumLevelZeroTables(tablesBeforeMerge).
		WithNumLevelZeroTablesStall(2 * tablesBeforeMerge).
		WithCompression(options.Snappy).
		WithValueThreshold(commit.ValueThreshold).
		WithValueLogFileSize(cmp.Or(opts.valueLogSize, valueLogSize(opts.Dir))).
		WithBlockCacheSize(8 << 20).
		WithIndexCacheSize(16 << 20).
		WithMetricsEnabled(false).
		WithDetectConflicts(false).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithVerifyValueChecksum(true).
		WithSyncWrites(opts.Durability == Power)
	o.TableSizeMultiplier = 1 // see memTableSize
	return o
}
