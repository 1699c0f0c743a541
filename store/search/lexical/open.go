package lexical

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/blevesearch/bleve/v2/index/scorch"
	index "github.com/blevesearch/bleve_index_api"
	"go.etcd.io/bbolt"
)

// merging says how many segments there may be before some are merged: ten of each tier. Scorch's own first tier, segments
// of 2000 documents, asks an index of up to so many documents to be one segment, so that each batch of a few turns has all
// of it written again. Ours is segments of 20 and the next one 2000, as before: a young index is merged seldom, and a
// large one has no more segments to search.
var merging = map[string]any{"FloorSegmentSize": 20, "TierGrowth": 100}

// Open opens the index in dir, creating it where it is not there. One of which anything is lost or cannot be read is an
// error, as far as that is seen by opening it; [Index.Verify] sees the rest. Segments are not merged before it has. What
// goes wrong in the goroutines of the index is given to failed, which may be called from any of them at any time until
// the index is closed.
func Open(dir string, failed func(error)) (ix *Index, err error) {
	ix = &Index{
		dir: dir, failed: failed, merging: gate{open: make(chan struct{})},
		queue: index.NewAnalysisQueue(runtime.GOMAXPROCS(0)), lists: newLists(), table: newColumnTable(),
	}
	if err := compareSums(dir); err != nil {
		return nil, errors.Join(fmt.Errorf("open the lexical index: %w", err), ix.Close())
	}
	if err := os.Remove(filepath.Join(dir, sumsFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, errors.Join(fmt.Errorf("open the lexical index: %w", err), ix.Close())
	}
	for i := range ix.shards {
		if err := ix.openShard(i); err != nil {
			d := blame(dir, i, err)
			return nil, errors.Join(fmt.Errorf("open the lexical index: %w", &d), ix.Close())
		}
	}
	if ix.isEmpty() {
		ix.merging.allow()
	}
	return ix, nil
}

// isEmpty reports whether nothing of the index is on disk.
func (ix *Index) isEmpty() bool {
	for _, shard := range ix.shards {
		if files, err := segmentsOf(shard); err != nil || len(files) > 0 {
			return false
		}
	}
	return true
}

func (ix *Index) openShard(i int) error {
	shard, newest, err := load(shardDir(ix.dir, i), map[string]any{
		"bolt_timeout": "2s", // the store's lock keeps other processes out; never wait for one for ever

		"unsafe_batch":           true, // a batch does not wait for the disk; see Apply
		"scorchPersisterOptions": writing,
		"scorchMergePlanOptions": merging,
		"eventCallbackName":      callbacks,
		"asyncErrorCallbackName": callbacks,
	}, ix.queue)
	if err != nil {
		return err
	}
	owners.Store(shard, ix)
	owners.Store(shardDir(ix.dir, i), ix)
	ix.shards[i] = shard // to be closed, whatever comes of opening it
	if newest != nil {
		if err := newest.Close(); err != nil {
			return err
		}
	}
	return shard.Open()
}

// load reads what one index of scorch's has on disk, and the last state of it; nil: there is none. Its files are trusted by
// what reads them: a damaged one makes that panic, or fault where it is mapped and was cut short.
func load(dir string, config map[string]any, queue *index.AnalysisQueue) (shard *scorch.Scorch, newest *scorch.IndexSnapshot, err error) {
	if err := checkLength(filepath.Join(dir, rootName)); err != nil {
		return nil, nil, err
	}
	config["path"] = dir
	opened, err := scorch.NewScorch(scorch.Name, config, queue)
	if err != nil {
		return nil, nil, err
	}
	shard = opened.(*scorch.Scorch)
	err = Contain(func() (err error) {
		if err = shard.OpenMeta(); err == nil {
			newest, err = newestState(shard)
		}
		return err
	})
	if err != nil {
		_ = Contain(shard.Close) // as far as it came
		return nil, nil, err
	}
	return shard, newest, nil
}

// checkLength gives a [Damage] where a root.bolt is shorter than it says itself. Scorch reads the pages at its start when it
// first writes to it, long after opening it.
func checkLength(path string) error {
	info, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0 {
		return nil
	}
	if err != nil {
		return err
	}
	return Contain(func() error {
		db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: 10 * time.Millisecond})
		if err != nil {
			return err
		}
		err = db.View(func(tx *bbolt.Tx) error {
			if tx.Size() > info.Size() {
				return &Damage{path, fmt.Sprintf("it has %d bytes, and had %d", info.Size(), tx.Size())}
			}
			return nil
		})
		return errors.Join(err, db.Close())
	})
}

// newestState loads the last state that was written; nil: there is none. Scorch itself goes back to one before, or to
// nothing, and what came between would not be found, with nobody to know it.
func newestState(shard *scorch.Scorch) (*scorch.IndexSnapshot, error) {
	states, err := shard.RootBoltSnapshotEpochs()
	if err != nil || len(states) == 0 {
		return nil, err
	}
	return shard.LoadSnapshot(states[0])
}

// Whole gives a [Damage] where a part of the index in dir is missing.
func Whole(dir string) error {
	for i := range shardCount {
		path := rootFile(dir, i)
		switch info, err := os.Stat(path); {
		case errors.Is(err, fs.ErrNotExist):
			return &Damage{path, "it is missing"}
		case err != nil:
			return err
		case info.Size() == 0: // scorch would take it for that of a new index
			return &Damage{path, "it is empty"}
		}
	}
	return nil
}

const rootName = "root.bolt" // which segments a shard has, and which of their documents were taken out

func rootFile(dir string, i int) string { return filepath.Join(shardDir(dir, i), rootName) }

func shardDir(dir string, i int) string { return filepath.Join(dir, fmt.Sprintf("%02d", i)) }
