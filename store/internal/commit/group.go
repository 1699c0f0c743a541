package commit

import (
	"bytes"
	"cmp"
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Group collects the additions of a group of operations. An operation sees the records that earlier ones have put, also
// in its own group, and then the stored ones. A group belongs to the writer, which reuses it.
type Group struct {
	Blobs *blob.Batch

	db      *files.Database
	overlay Overlay
	tx      *badger.Txn   // for lookups of stored records
	recent  recentRecords // records put by the group's operations so far, and by earlier groups
	err     error         // the first lookup error

	sought  [2 * kv.KeyRoom]byte // see Key
	kept    []byte               // see Room
	records []Entry              // of operations of the group that put few

	uncertain bool // recent holds records that were not written
}

// Overlay is a room that keeps records of one space in memory, newer than the stored ones.
type Overlay interface {
	Space() byte
	Newer(key []byte) []byte // nil: the stored record is the newest
	Replaced(key []byte)     // by a record that an operation puts
}

// NewGroup returns a group for a database that may still be opened. It looks up blocks in known, and records of one
// space in overlay first.
func NewGroup(db *files.Database, known *blob.Known, overlay Overlay) *Group {
	g := &Group{db: db, overlay: overlay}
	g.Blobs = blob.NewBatch(known, g.Committed)
	return g
}

// Err returns the first lookup error, and what [Group.Fail] was told. The group then is not committed.
func (g *Group) Err() error { return cmp.Or(g.err, g.Blobs.Err()) }

// Fail keeps the group from being committed, unless err is nil.
func (g *Group) Fail(err error) { g.err = cmp.Or(g.err, err) }

// Committed returns a view of the store from before the group.
func (g *Group) Committed() *badger.Txn {
	if g.tx == nil {
		g.tx = g.db.NewTransaction(false)
	}
	return g.tx
}

// Get looks up a key among the recent records and then in the store; nil if it is in neither. The value must not be
// changed.
func (g *Group) Get(key []byte) []byte {
	if key[0] == g.overlay.Space() {
		if value := g.overlay.Newer(key); value != nil {
			return value
		}
	}
	if value, ok := g.recent.get(key); ok {
		return value
	}
	value, err := kv.Get(g.Committed(), key)
	if !errors.Is(err, badger.ErrKeyNotFound) {
		g.Fail(err)
	}
	return value
}

// GetOf is Get for records of a session, whose keys begin with its id.
func (g *Group) GetOf(ref kv.SessionRef, key []byte) []byte {
	if value, ok := g.recent.get(key); ok || g.recent.whole(ref) {
		return value
	}
	return g.Get(key)
}

// Has reports whether Get would find a value.
func (g *Group) Has(key []byte) bool {
	if value, ok := g.recent.get(key); ok {
		return value != nil
	}
	_, err := g.Committed().Get(key)
	if !errors.Is(err, badger.ErrKeyNotFound) {
		g.Fail(err)
	}
	return err == nil
}

// Begin notes that a session is new: all its records are put from now on.
func (g *Group) Begin(ref kv.SessionRef) { g.recent.begin(ref) }

// Whole reports whether all records of a session are in memory.
func (g *Group) Whole(ref kv.SessionRef) bool { return g.recent.whole(ref) }

// Put adds a record to an operation and makes it visible to later operations.
func (g *Group) Put(o *Op, key, value []byte) {
	g.recent.put(key, value)
	if key[0] == g.overlay.Space() {
		g.overlay.Replaced(key)
	}
	if o.records == nil {
		o.records = g.recordRoom()
	}
	o.records = append(o.records, Entry{key, value})
}

// PutID puts an id under a key.
func (g *Group) PutID(o *Op, key []byte, id kv.TimeID) { g.Put(o, key, g.Keep(id[:])) }

// recordRoom returns room for the records of an operation; it belongs to the group until that is reset.
func (g *Group) recordRoom() []Entry {
	const few = 8 // an exchange that begins or ends puts about seven
	if cap(g.records)-len(g.records) < few {
		g.records = make([]Entry, 0, 64*few)
	}
	n := len(g.records)
	g.records = g.records[:n+few]
	return g.records[n : n : n+few]
}

// Key returns room for a key that is looked up and not kept. The next call reuses it.
func (g *Group) Key() []byte { return g.sought[:0] }

// roomsTogether is how many bytes of keys and values are allocated at a time: about as many as ten exchanges put.
const roomsTogether = 4 << 10

// Room returns room for a key to be put. It is allocated with others, which are put at about the same time and so live
// as long.
func (g *Group) Room() []byte { return g.RoomOf(kv.KeyRoom) }

// Keep returns a copy of a value to be put.
func (g *Group) Keep(value []byte) []byte {
	if len(value) > roomsTogether/8 {
		return bytes.Clone(value)
	}
	return append(g.RoomOf(len(value)), value...)
}

// RoomOf returns room for size bytes to be put.
func (g *Group) RoomOf(size int) []byte {
	if len(g.kept) < size {
		g.kept = make([]byte, roomsTogether)
	}
	room := g.kept[:0:size]
	g.kept = g.kept[size:]
	return room
}

// Reset empties the group, and reports whether it has forgotten what was put lately, because that may not be stored.
func (g *Group) Reset() (forgotten bool) {
	if g.tx != nil {
		g.tx.Discard()
		g.tx = nil
	}
	g.Blobs.Reset()
	g.recent.age()
	if forgotten = g.uncertain; forgotten {
		g.recent, g.uncertain = recentRecords{}, false
	}
	clear(g.records)
	g.records = g.records[:0]
	g.err = nil
	return forgotten
}
