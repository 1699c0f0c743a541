package lexical

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"github.com/blevesearch/bleve/v2/index/scorch"
	index "github.com/blevesearch/bleve_index_api"
)

// merging says how many segments there may be before some are merged: ten of each tier. Scorch's own first tier, segments
// of 2000 documents, asks an index of up to so many documents to be one segment, so that each batch of a few turns has all
// of it written again. Ours is segments of 20 and the next one 2000, as before: a young index is merged seldom, and a
// large one has no more segments to search.
var merging = map[string]any{"FloorSegmentSize": 20, "TierGrowth": 100}

// Open opens the index in dir, creating it where it is not there. One of which anything is lost or cannot be read is an
// error, as far as that is seen by opening it.
func Open(dir string) (ix *Index, err error) {
	ix = &Index{queue: index.NewAnalysisQueue(runtime.GOMAXPROCS(0)), lists: newLists(), table: newColumnTable()}
	for i := range ix.shards {
		if ix.shards[i], err = openShard(shardDir(dir, i), ix.queue); err != nil {
			return nil, errors.Join(fmt.Errorf("open the lexical index in %s: %w", dir, err), ix.Close())
		}
	}
	return ix, nil
}

// openShard opens one index of scorch's. Its files are trusted by what reads them: a damaged one makes that panic, or fault
// where it is mapped and was cut short. Both would end the proxy, at every start.
func openShard(dir string, queue *index.AnalysisQueue) (_ *scorch.Scorch, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("damaged: %v", p)
		}
	}()
	opened, err := scorch.NewScorch(scorch.Name, map[string]any{
		"path":         dir,
		"bolt_timeout": "2s", // the store's lock keeps other processes out; never wait for one for ever

		"unsafe_batch":           true, // a batch does not wait for the disk; see Apply
		"scorchPersisterOptions": writing,
		"scorchMergePlanOptions": merging,
	}, queue)
	if err != nil {
		return nil, err
	}
	shard := opened.(*scorch.Scorch)
	if err := shard.OpenMeta(); err != nil {
		return nil, err
	}
	if err := newestIsWhole(shard); err != nil {
		return nil, errors.Join(err, shard.Close())
	}
	if err := shard.Open(); err != nil {
		return nil, errors.Join(err, shard.Close())
	}
	return shard, nil
}

// newestIsWhole finds out whether the last state that was written can be read. Scorch itself goes back to one before, or to
// nothing, and what came between would not be found, with nobody to know it.
func newestIsWhole(shard *scorch.Scorch) error {
	states, err := shard.RootBoltSnapshotEpochs()
	if err != nil || len(states) == 0 {
		return err
	}
	newest, err := shard.LoadSnapshot(states[0])
	if err != nil {
		return err
	}
	return newest.Close()
}

// Whole reports whether all parts of an index are in dir.
func Whole(dir string) bool {
	for i := range shardCount {
		info, err := os.Stat(filepath.Join(shardDir(dir, i), "root.bolt"))
		if err != nil || info.Size() == 0 { // scorch would take an empty one for that of a new index
			return false
		}
	}
	return true
}

func shardDir(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("%02d", i)) }
