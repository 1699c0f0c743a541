package upkeep

import (
	"context"
	"log/slog"
	"time"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/notes"
	"github.com/mnemeproxy/mneme/store/internal/sessions"
	"github.com/mnemeproxy/mneme/store/internal/shipping"
	"github.com/mnemeproxy/mneme/store/internal/usage"
	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

const (
	keepEvery = 10 * time.Minute // interval of retention and space reclamation
	noteEvery = 15 * time.Second // a start after a kill reads the tables that were written since the last note
)

// Options are what the upkeep needs of the store.
type Options struct {
	DB       *files.Database
	Writer   *writing.Writer
	Accounts *identity.AccountTable
	Roster   *identity.Roster
	Audit    *identity.AuditLog
	Sessions *sessions.Records
	Planner  *blob.Planner
	IDs      *kv.IDSource
	Notes    *notes.Notes
	Shipping *shipping.Log
	Usage    *usage.Table

	Retention identity.Retention                            // of accounts without a rule of their own
	Accepted  func(account string, e *record.Erasure) error // before an erasure by request is carried out; may be nil
	Log       *slog.Logger
}

// Keeper is the goroutine that erases, enforces retention, and reclaims space.
type Keeper struct {
	Erasures  *Erasures
	Moves     *Moves
	Deletions *Deletions
	Retention *Retention
	Space     *Space

	db    *files.Database
	audit *identity.AuditLog
	log   *slog.Logger

	signal wake.Signal // a queue is not empty
	cancel context.CancelFunc
	done   chan struct{}
}

// Start starts the goroutine.
func Start(o Options) *Keeper {
	k := &Keeper{db: o.DB, audit: o.Audit, log: o.Log, signal: wake.New(), done: make(chan struct{})}
	k.Moves = &Moves{db: o.DB, writer: o.Writer, ids: o.IDs, log: o.Log}
	k.Erasures = &Erasures{
		db: o.DB, writer: o.Writer, accounts: o.Accounts, sessions: o.Sessions, planner: o.Planner, ids: o.IDs, moves: k.Moves,
		accepted: o.Accepted, log: o.Log, queue: queue[Ref]{signal: k.signal},
	}
	k.Deletions = &Deletions{
		db: o.DB, writer: o.Writer, accounts: o.Accounts, roster: o.Roster, erasures: k.Erasures,
		log: o.Log, queue: queue[kv.AccountNumber]{signal: k.signal},
	}
	k.Retention = &Retention{
		db: o.DB, accounts: o.Accounts, notes: o.Notes, shipping: o.Shipping, usage: o.Usage, erasures: k.Erasures, standard: o.Retention,
	}
	k.Space = &Space{db: o.DB, writer: o.Writer, log: o.Log}
	k.Erasures.queue.waiting, k.Deletions.queue.waiting = k.Erasures.unfinished(), k.Deletions.unfinished()
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	go func() {
		defer close(k.done)
		k.run(ctx)
	}()
	return k
}

// Stop ends the goroutine. A running erasure resumes at the next start, as do those that are queued from then on.
func (k *Keeper) Stop() {
	k.cancel()
	<-k.done
}

func (k *Keeper) run(ctx context.Context) {
	k.Moves.finishAll(ctx)
	tick, note := time.NewTicker(keepEvery), time.NewTicker(noteEvery)
	defer tick.Stop()
	defer note.Stop()
	for {
		k.Erasures.runQueued(ctx)
		k.Deletions.runQueued(ctx)
		if ctx.Err() == nil && k.db.ReadNext() {
			select {
			case <-note.C:
				k.noteFiles()
			default:
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case <-k.signal:
		case <-note.C:
			k.noteFiles()
		case <-tick.C:
			k.tidy(ctx)
		}
	}
}

func (k *Keeper) tidy(ctx context.Context) {
	if err := k.Retention.Enforce(ctx, time.Now()); err != nil && ctx.Err() == nil {
		k.log.Error("retention failed; it is tried again", "error", err)
	}
	if err := k.audit.Expire(ctx, time.Now()); err != nil && ctx.Err() == nil {
		k.log.Error("old acts of administration could not be forgotten; it is tried again", "error", err)
	}
	k.db.QueueDaily(time.Now())
	k.Space.GiveBack(ctx)
}

// noteFiles notes which files are settled, for a start after a kill.
func (k *Keeper) noteFiles() {
	if err := k.db.NoteSettled(); err != nil {
		k.log.Error("the files of the store could not be noted; a start after a kill reads all of them", "error", err)
	}
}
