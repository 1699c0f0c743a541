package commit

import (
	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/files"
)

// Batch is a sequence of writes that is committed in order, in one transaction if the database allows. The first error
// sticks. Keys and values must stay unchanged until commit.
type Batch struct {
	db    *files.Database
	tx    *badger.Txn
	count int64 // writes in tx
	size  int64 // bytes in tx, by the database's upper estimate
	err   error

	version uint64 // of the last commit

	blobs   *blob.Batch
	entries []badger.Entry // room for the next writes
}

// ValueThreshold is the size from which the database keeps a value in the value log, which is written once. Values in
// the tree are written to its log, to a table, and to another table whenever that is compacted, and each table is
// synced: records in the tree cost a third of all CPU time per exchange.
const ValueThreshold = 256

// NewBatch returns an empty batch, for a store whose writer does not run.
func NewBatch(db *files.Database) *Batch { return &Batch{db: db} }

// entriesTogether are allocated at a time, because the database wants a pointer to each: about as many as two exchanges write.
const entriesTogether = 32

// Together starts a new transaction unless n small writes still fit into the current one.
func (b *Batch) Together(n int64) {
	if b.count+n > b.db.MaxBatchCount()/2 || b.size+n*ValueThreshold > b.db.MaxBatchSize()/2 {
		b.flush()
	}
}

func (b *Batch) open() *badger.Txn {
	if b.tx == nil {
		b.tx = b.db.NewTransaction(true)
	}
	return b.tx
}

// Set adds a record.
func (b *Batch) Set(key, value []byte) { b.setMarked(key, value, 0) }

// SetObjects adds the blocks, nodes and parts of answers of an operation.
func (b *Batch) SetObjects(o *Op) {
	objects := b.blobs.Objects(o.from, o.to)
	for i := range objects {
		b.setMarked(objects[i].Key, objects[i].Value, objects[i].Mark)
	}
}

func (b *Batch) setMarked(key, value []byte, mark byte) {
	b.grow(int64(len(key) + min(len(value), ValueThreshold)))
	if b.err != nil {
		return
	}
	if len(b.entries) == 0 {
		b.entries = make([]badger.Entry, entriesTogether)
	}
	e := &b.entries[0]
	b.entries = b.entries[1:]
	e.Key, e.Value, e.UserMeta = key, value, mark
	b.err = b.open().SetEntry(e)
}

// Apply adds records.
func (b *Batch) Apply(records []Entry) {
	for _, r := range records {
		if r.Value == nil {
			b.Delete(r.Key)
		} else {
			b.Set(r.Key, r.Value)
		}
	}
}

// Delete removes a record.
func (b *Batch) Delete(key []byte) {
	b.grow(int64(len(key)))
	if b.err == nil {
		b.err = b.open().Delete(key)
	}
}

func (b *Batch) grow(size int64) {
	if b.count >= b.db.MaxBatchCount()-16 || b.size+size >= b.db.MaxBatchSize()-1<<16 {
		b.flush()
	}
	b.count++
	b.size += size + 16
}

func (b *Batch) flush() {
	if b.tx == nil || b.err != nil {
		return
	}
	version := b.tx.ReadTs() + 1 // only the writer commits, one transaction after the other
	if b.err = b.tx.Set(files.CommitKey, []byte{}); b.err == nil {
		b.err = b.tx.Commit()
	}
	if b.err == nil {
		b.err = b.db.NoteCommit(version)
	}
	b.tx, b.count, b.size, b.version = nil, 0, 0, version
}

// Err returns the first error.
func (b *Batch) Err() error { return b.err }

// Commit commits what was added since the last commit, and returns the first error.
func (b *Batch) Commit() error {
	b.flush()
	return b.err
}

// Discard ends a batch; after [Batch.Commit] it does nothing.
func (b *Batch) Discard() {
	if b.tx != nil {
		b.tx.Discard()
	}
}
