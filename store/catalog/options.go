package catalog

import (
	"context"
	"log/slog"
	"time"

	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Options configure [Open].
type Options struct {
	URL    string // of the database, such as postgres://mneme@db/mneme; [pgxpool.ParseConfig] says what it may hold
	Centre string // id of the centre: tables of another one are not touched. [MakeCentre] returns it, and [CentreOf] for a worker

	Packs     *pack.Packs   // where bodies are stored; nil: in the database
	Abandoned time.Duration // age at which an unfinished pack is deleted, since its centre must have ended; the same on all nodes; 0: two minutes

	// Cache is the store of a centre. With nil this is a worker. Any number of centres and workers may share the work;
	// the centre that leads erases by age and completes erasures.
	Cache     Cache
	Seat      Seat                                          // of a centre among others
	MaxAge    time.Duration                                 // for which the cache authenticates callers without the database; 0: forever
	Retention func(account string) identity.Retention       // MaxBytes is not enforced here; unused by a worker
	Redactor  func(account string) *redact.Redactor         // masks what is digested again
	Digest    func(*record.Exchange) (record.Digest, error) // makes turns
	Summaries bool                                          // sessions that grow are noted to be summarized, by all processes; unused by a worker

	// Accepted, unless nil, is called with each erasure by request once it is committed and before anything is erased, on one
	// of the centres. It is called again if the process ends meanwhile, and after an error, for which the erasure waits.
	Accepted func(account string, e *record.Erasure) error

	Log *slog.Logger // nil: discard
}

// Seat is a centre as the others see it.
type Seat struct {
	Node  uint16 // its cluster.node, which no other centre has
	Name  string // for people
	Store string // identifies its store
}

// Cache is the store of a centre, which follows the roster of the database: it authenticates callers and opens credentials.
type Cache interface {
	Connect(a identity.Authority) // has its changes made here; nil: it makes none
	Follow(ctx context.Context, entries []identity.SharedEntry, whole bool) error
	Expire(at time.Time)

	Entries() ([]identity.RosterEntry, error) // for a database without a roster

	Opens(proof []byte) (now, before bool)
	Reseal(entries []identity.RosterEntry) ([]identity.RosterEntry, error)
}
