package sessions

import (
	"log/slog"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Writing is the sessions that a group of operations changes. It is the writer's.
type Writing struct {
	Changes  *feed.Log // set once the feed is open
	Starting bool      // the writer does not run yet

	group     *commit.Group
	ahead     ahead
	records   *Records
	decoded   map[kv.SessionRef]*record.StoredSession // what At returns. A caller that changes one must put it
	db        *files.Database
	ids       *kv.IDSource
	node      uint16
	Digests   bool
	summaries bool
	log       *slog.Logger
}

// Options are what the sessions need of the store.
type Options struct {
	DB        *files.Database
	Known     *blob.Known
	Records   *Records
	IDs       *kv.IDSource
	Digests   bool // exchanges are digested
	Summaries bool // sessions are summarized
	Log       *slog.Logger
}

// mostDecoded is how many decoded sessions are kept from group to group.
const mostDecoded = 1 << 10

// New returns a group for the writer, and its sessions.
func New(o Options) (*commit.Group, *Writing) {
	g := &Writing{
		ahead: ahead{most: mostAhead, records: make(map[kv.SessionRef]*aheadSession)}, records: o.Records, decoded: make(map[kv.SessionRef]*record.StoredSession), db: o.DB, ids: o.IDs, node: o.IDs.Node,
		Digests: o.Digests, summaries: o.Summaries, log: o.Log,
	}
	g.group = commit.NewGroup(o.DB, o.Known, g)
	return g.group, g
}

// Space implements [commit.Overlay] for the records that are ahead.
func (g *Writing) Space() byte { return kv.SpaceSession }

// Newer implements [commit.Overlay].
func (g *Writing) Newer(key []byte) []byte {
	if r := g.ahead.atKey(key); r != nil {
		return record.Encode(r)
	}
	return nil
}

// Replaced implements [commit.Overlay].
func (g *Writing) Replaced(key []byte) {
	if account, id, ok := kv.SplitSessionKey(key); ok {
		delete(g.decoded, kv.SessionRef{Account: account, ID: id})
	}
	g.ahead.leave(key)
}

// Written follows a commit: it shows readers what the group has changed.
func (g *Writing) Written(version uint64, uncertain bool) {
	if !uncertain {
		g.show(version)
	}
}

// Settled follows each group. forgotten means that records that were put may not be stored.
func (g *Writing) Settled(forgotten bool) {
	if len(g.decoded) > mostDecoded || forgotten {
		clear(g.decoded)
	}
	if forgotten {
		g.recount()
	}
	g.Changes.Settled()
}
