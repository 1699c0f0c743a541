package writing

import (
	"context"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Writer changes the store.
type Writer struct {
	*commit.Writer
	Group    *Group                 // what is committed next
	Accounts *identity.AccountTable // set once they are loaded

	// Planning is read-locked from planning a body, or looking up its account, to queueing it. Sweeps and deletions lock
	// it in between.
	Planning sync.RWMutex

	db *files.Database
}

// New returns a writer with a queue of so many bytes, which does not run yet.
func New(db *files.Database, queueBytes int64, g *Group) *Writer {
	w := &Writer{Writer: commit.NewWriter(queueBytes, g.log), Group: g, db: db}
	w.Writer.Group = g.Group
	return w
}

// Run is [commit.Writer.Run]. It stores the counts of sessions last; if that fails, they are counted at the next start.
func (w *Writer) Run() { w.Writer.Run(w.Group, w.Freeing(StoreAll)) }

// StoreAll is the change that stores the records of sessions that are only in memory.
func StoreAll(g *Group, o *commit.Op) error { return g.Sessions.StoreAll(o) }

// Change looks up records in the group and replaces them.
type Change func(g *Group, o *commit.Op) error

// Change returns an operation for the writer's queue.
func (w *Writer) Change(change Change) *commit.Change {
	return w.Writer.Change(func(_ *commit.Group, o *commit.Op) error { return change(w.Group, o) })
}

// Freeing is Change for what erases: it goes on where the volume is too full for anything else.
func (w *Writer) Freeing(change Change) *commit.Change {
	c := w.Change(change)
	c.Frees = true
	return c
}

// Update runs a change of accounts, keys and the like, and waits until it is committed. What change puts is committed
// together; it puts nothing before it fails.
func (w *Writer) Update(ctx context.Context, change Change) error {
	return w.Do(ctx, w.Change(change))
}

// MakeRoom is Update for what erases.
func (w *Writer) MakeRoom(ctx context.Context, change Change) error {
	return w.Do(ctx, w.Freeing(change))
}

// UpdateOf is Update for what an account owns: it is done before the account is deleted, or not at all, so that nothing
// is left of it that would never be deleted.
func (w *Writer) UpdateOf(ctx context.Context, account kv.AccountNumber, change Change) error {
	return w.DoOf(ctx, account, w.Change(change))
}

// DoOf sends an operation with a Done, as [Writer.UpdateOf] does, and waits until it is committed.
func (w *Writer) DoOf(ctx context.Context, account kv.AccountNumber, c *commit.Change) error {
	if err := w.sendOf(ctx, account, c); err != nil {
		return err
	}
	<-c.Done
	return c.Err
}

func (w *Writer) sendOf(ctx context.Context, account kv.AccountNumber, c *commit.Change) error {
	w.Planning.RLock() // a deletion takes the account out of the table between
	defer w.Planning.RUnlock()
	if !w.Accounts.Has(account) {
		return codec.Errorf(codec.KindNotFound, "the account was deleted")
	}
	return w.Send(ctx, c)
}

// DB returns the store for the packages that know keys and values.
func (w *Writer) DB() kv.DB { return database{w} }

type database struct{ w *Writer }

func (d database) View(read func(tx *badger.Txn) error) error { return d.w.db.View(read) }

func (d database) Update(ctx context.Context, do func(kv.Txn) error) error {
	return d.w.Update(ctx, func(g *Group, o *commit.Op) error { return do(g.Txn(o)) })
}

func (d database) UpdateOf(ctx context.Context, account kv.AccountNumber, do func(kv.Txn) error) error {
	return d.w.UpdateOf(ctx, account, func(g *Group, o *commit.Op) error { return do(g.Txn(o)) })
}

func (d database) Try(account kv.AccountNumber, do func(kv.Txn)) {
	w := d.w
	w.Planning.RLock() // as in sendOf
	defer w.Planning.RUnlock()
	if w.Accounts.Has(account) {
		_, _ = w.TrySend(w.Change(func(g *Group, o *commit.Op) error { do(g.Txn(o)); return nil }))
	}
}

// Txn returns an operation in progress for the packages that know keys and values.
func (g *Group) Txn(o *commit.Op) kv.Txn { return transaction{g, o} }

type transaction struct {
	g *Group
	o *commit.Op
}

func (c transaction) Get(key []byte) []byte  { return c.g.Get(key) }
func (c transaction) Has(key []byte) bool    { return c.g.Has(key) }
func (c transaction) Put(key, value []byte)  { c.g.Put(c.o, key, value) }
func (c transaction) Committed() *badger.Txn { return c.g.Committed() }
