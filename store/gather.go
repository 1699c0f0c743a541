package store

import (
	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/blob"
)

// gathering is what a group of operations adds to the store. The writer owns it and uses it again.
type gathering struct {
	store   *core
	tx      *badger.Txn // for looking up what is stored
	blobs   *blob.Batch
	recent  recentRecords // put by the group's operations so far, and by groups before
	changes []*Change     // for the feed
	notes   []*openNote   // of the exchanges that begin, one for an account
	err     error         // first failure of a look-up
	erased  bool          // an exchange is

	uncertain bool // recent holds what was not written
}

func newGathering(s *core) *gathering {
	g := &gathering{store: s}
	g.blobs = blob.NewBatch(&s.planner.Known, g.read)
	return g
}

func (g *gathering) reset() {
	if g.tx != nil {
		g.tx.Discard()
		g.tx = nil
	}
	g.blobs.Reset()
	if g.recent.age(); g.uncertain {
		g.recent, g.uncertain = recentRecords{}, false
	}
	clear(g.changes)
	g.changes = g.changes[:0]
	for _, n := range g.notes {
		n.others = nil
	}
	clear(g.notes)
	g.notes = g.notes[:0]
	g.err, g.erased = nil, false
}

// read is a view of the store as it was before the group.
func (g *gathering) read() *badger.Txn {
	if g.tx == nil {
		g.tx = g.store.db.NewTransaction(false)
	}
	return g.tx
}
