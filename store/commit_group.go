package store

import (
	"bytes"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// commitGroup collects what a group of operations adds to the store. The writer owns and reuses it.
type commitGroup struct {
	store   *core
	tx      *badger.Txn // for lookups of stored records
	blobs   *blob.Batch
	recent  recentRecords // records put by the group's operations so far, and by earlier groups
	changes []*Change     // for the feed
	notes   []*openNote   // of the exchanges that begin, one per account
	err     error         // the first lookup error
	erased  bool          // the group erases an exchange

	sought  [2 * kv.KeyRoom]byte // room for the key of a lookup
	kept    []byte               // see room
	records []entry              // of operations of the group that put few
	events  []record.Event       // what the group tells subscribers
	entries entryRooms           // for its commit

	uncertain bool // recent holds records that were not written
	starting  bool // the writer does not run yet
}

func newCommitGroup(s *core) *commitGroup {
	g := &commitGroup{store: s}
	g.blobs = blob.NewBatch(&s.planner.Known, g.read)
	return g
}

func (g *commitGroup) reset() {
	if g.tx != nil {
		g.tx.Discard()
		g.tx = nil
	}
	g.blobs.Reset()
	if g.recent.age(); g.uncertain {
		g.recent, g.uncertain = recentRecords{}, false
		g.store.ahead.recount(g.store)
	}
	clear(g.changes)
	g.changes = g.changes[:0]
	for _, n := range g.notes {
		n.others = nil
	}
	clear(g.notes)
	g.notes = g.notes[:0]
	clear(g.records)
	g.records = g.records[:0]
	clear(g.events)
	g.events = g.events[:0]
	g.err, g.erased = nil, false
}

// roomsTogether is how many bytes of keys and values are allocated at a time: about as many as ten exchanges put.
const roomsTogether = 4 << 10

// room returns room for a key. It is allocated with others, which are put at about the same time and so live as long.
func (g *commitGroup) room() []byte { return g.roomOf(kv.KeyRoom) }

// keep returns a copy of a value to be put.
func (g *commitGroup) keep(value []byte) []byte {
	if len(value) > roomsTogether/8 {
		return bytes.Clone(value)
	}
	return append(g.roomOf(len(value)), value...)
}

func (g *commitGroup) roomOf(size int) []byte {
	if len(g.kept) < size {
		g.kept = make([]byte, roomsTogether)
	}
	room := g.kept[:0:size]
	g.kept = g.kept[size:]
	return room
}

// batch returns a batch for the group's commit. Its memory is used again only if the commit succeeds: otherwise the
// database may keep some of it.
func (g *commitGroup) batch() batch {
	b := batch{db: g.store.db, entries: g.entries}
	g.entries = entryRooms{}
	return b
}

// read returns a view of the store from before the group.
func (g *commitGroup) read() *badger.Txn {
	if g.tx == nil {
		g.tx = g.store.db.NewTransaction(false)
	}
	return g.tx
}
