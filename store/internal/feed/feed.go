package feed

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/record"
)

// Feed is the log as its readers see it.
type Feed struct {
	db      kv.Reader
	writer  *commit.Writer
	digests bool // there is a digest stage

	log       Log           // the writer's
	coming    atomic.Uint64 // the last number of the commit in progress; otherwise equal to committed
	committed atomic.Uint64 // the last one that is committed
	trimmed   atomic.Uint64 // changes up to this number have been removed from the log
	trimming  func(g *commit.Group, w *commit.Op, upTo uint64)
	changed   wake.Signal

	work [len(Stages)]stageWork

	mu      sync.Mutex
	logged  uint64 // the last number in the log; later numbers are of changes put aside
	stages  [len(Stages)]stageState
	recent  recentChanges
	waiting waiting
}

// Options are what the feed needs of the store.
type Options struct {
	DB      kv.Reader
	Writer  *commit.Writer
	Digests bool // there is a digest stage

	// Forget frees an exchange that a change held in memory and no stage took.
	Forget func(*record.Exchange)
	// Trimming puts what was counted from the log up to a number, which is removed with the same operation.
	Trimming func(g *commit.Group, w *commit.Op, upTo uint64)
}

// Stage derives something from exchanges, turns or sessions.
type Stage byte

// Stages. All except vectors always follow; that one from [Feed.Follow] to [Feed.Leave].
const (
	StageDigest   Stage = 'd' // turns, from ended exchanges
	StageWords    Stage = 'l' // the index of words
	StageVectors  Stage = 'v' // the vectors, after the words
	StageSessions Stage = 's' // the index of what is written about sessions

	// Counted is no stage: its cursor says up to where the stored records of sessions have counted the log.
	Counted Stage = 'c'
)

// Stages are all of them.
var Stages = [...]Stage{StageDigest, StageWords, StageVectors, StageSessions}

// stageState is the progress of a stage.
type stageState struct {
	following bool   // the log is kept for it
	reading   bool   // it reads in this process
	cursor    uint64 // the log up to here is done and confirmed
	position  uint64 // the log up to here is done

	aside   uint64         // records of changes put aside are done up to here
	drained bool           // no further record to read
	behind  int            // changes in the records to read
	parked  map[uint64]int // records not to be read before [Feed.Retry], with the number of their changes
}

// Change reports that an exchange has ended, that a turn was added, changed or removed, or that a session changed. It
// does not say which. One exchange may be in the log many times.
type Change struct {
	Seq      uint64 // ascending in commit order; 0: it had been put aside
	Account  record.AccountNumber
	Exchange string // "": only the session has changed
	Session  string // "": unknown

	// Turn is the turn as digested, if it is still in memory; nil: it has to be read. A stage that takes it leaves
	// Derived to the next stage.
	Turn    *record.TimelineEntry
	Fresh   bool // the turn was never digested before
	Derived any

	Place kv.ExchangeRef
	In    kv.SessionID
	Size  int64 // memory held by Turn, in bytes

	Undigested bool             // known to be of an exchange without a turn: the digest stage makes one, which is another change
	Captured   *record.Exchange // the exchange, while it is still in memory
}

// Batch is changes that a stage reads together: the next ones of the log, or some that were put aside.
type Batch struct {
	Changes []*Change
	Later   []*Change // of Changes: those that the stage cannot do now; it sets this before it confirms the batch

	through uint64   // in the log; 0: these had been put aside
	records []uint64 // that hold them
}

// WasAside reports whether the changes had been put aside.
func (b *Batch) WasAside() bool { return len(b.records) > 0 }

// A record of the log holds consecutive changes of one commit: each is the account, the exchange and the session, with
// zeros where there is none. A record of changes put aside has the account and the exchange, or for the session stage
// the session. The number in the key is that of the last change.
const (
	Logged = 'e' // instead of a stage

	ChangeSize      = 4 + len(kv.ExchangeID{}) + len(kv.SessionID{})
	AsideSize       = 4 + len(kv.ExchangeID{})
	asidePerRecord  = 64
	changesTogether = 1000 // put aside in one operation, or in one record of the log, at most
	mostTrimmed     = 10_000
)

// Key returns the key of a record in the log, or among the changes that a stage has put aside.
func Key(of byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kv.SpaceChange, of}, number)
}

// CursorPrefix begins the keys of cursors.
var CursorPrefix = kv.NameKey(kv.SpaceMeta, "cursor-")

// Cursor returns the record of a cursor.
func Cursor(s Stage, cursor uint64) commit.Entry {
	return commit.Entry{Key: append(bytes.Clone(CursorPrefix), byte(s)), Value: binary.BigEndian.AppendUint64(nil, cursor)}
}

// Open finds the cursors and the highest number in use. The log is the writer's side of the feed.
func Open(o Options) (*Feed, *Log, error) {
	f := &Feed{db: o.DB, writer: o.Writer, digests: o.Digests, trimming: o.Trimming, changed: wake.New()}
	f.log.feed = f
	f.waiting.signal = wake.New()
	f.recent.forget = func(c *Change) { o.Forget(c.take()) }
	return f, &f.log, f.db.View(func(tx *badger.Txn) error {
		f.logged = kv.LastNumber(tx, []byte{kv.SpaceChange, Logged})
		f.log.last = f.logged
		for i, of := range Stages {
			st := &f.stages[i]
			cursor, known, err := CursorAt(tx, of)
			if err != nil {
				return err
			}
			st.following = known || of != StageVectors
			st.cursor = cursor
			f.log.last = max(f.log.last, st.cursor, kv.LastNumber(tx, []byte{kv.SpaceChange, byte(of)}))
		}
		counted, _, err := CursorAt(tx, Counted)
		f.log.last = max(f.log.last, counted)
		f.coming.Store(f.log.last)
		f.committed.Store(f.log.last)
		f.recent.from = f.log.last
		return err
	})
}

// CursorAt reads a cursor; known is false if there is none. One that is malformed is at the beginning: repeating is
// harmless.
func CursorAt(tx *badger.Txn, s Stage) (cursor uint64, known bool, err error) {
	value, err := kv.Get(tx, Cursor(s, 0).Key)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return 0, false, nil
	}
	if err == nil && len(value) == 8 {
		cursor = binary.BigEndian.Uint64(value)
	}
	return cursor, true, err
}

// of returns the state of a stage and holds mu until done is called.
func (f *Feed) of(s Stage) (st *stageState, done func()) {
	f.mu.Lock()
	return &f.stages[slices.Index(Stages[:], s)], f.mu.Unlock
}

// Changed is signaled when changes may have been committed since it was last read. It is for the stage of words.
func (f *Feed) Changed() <-chan struct{} { return f.changed }

// Last returns the number of the last committed change.
func (f *Feed) Last() uint64 { return f.committed.Load() }

// Coming returns Last, or the last number of a commit in progress: every change visible in the store has at most this
// number. Last soon reaches it, whether the commit succeeds or not.
func (f *Feed) Coming() uint64 { return f.coming.Load() }

// Position returns the number up to which a stage has done all changes; 0 while it has to do some that were put aside.
func (f *Feed) Position(s Stage) uint64 {
	st, done := f.of(s)
	defer done()
	switch {
	case s == StageDigest && !f.digests:
		return f.committed.Load()
	case st.drained:
		return st.position
	}
	return 0
}

// Lag returns roughly how many changes a stage has yet to do (for the digest stage: exchanges), and how many come again
// after a crash because they are unconfirmed or put aside.
func (f *Feed) Lag(s Stage) (lag, unconfirmed uint64) {
	st, done := f.of(s)
	defer done()
	if !st.following || s == StageDigest && !f.digests {
		return 0, 0
	}
	lag = f.committed.Load() - max(st.position, st.cursor) + uint64(st.behind)
	if unconfirmed = f.logged - min(st.cursor, f.logged) + uint64(st.behind); s == StageDigest {
		if f.allCounted() {
			lag = uint64(f.waiting.count)
		}
		unconfirmed = lag // a turn is on disk as soon as it is made
	}
	for _, changes := range st.parked {
		unconfirmed += uint64(changes)
	}
	return lag, unconfirmed
}

// Follow opens the feed for a stage, at the changes put aside and then at its cursor. It reports whether the stage has
// followed since before the store was opened, so that nothing is missing.
func (f *Feed) Follow(ctx context.Context, s Stage) (since bool, err error) {
	st, done := f.of(s)
	since = st.following
	done()
	if !since {
		err = f.writer.Update(ctx, func(g *commit.Group, w *commit.Op) error {
			st, done := f.of(s)
			defer done()
			st.following, st.cursor = true, f.log.last // before any change that could be trimmed
			w.Add(Cursor(s, f.log.last))
			return nil
		})
		if err != nil {
			st, done := f.of(s)
			st.following = false
			done()
		}
	}
	if err == nil {
		err = f.begin(s)
	}
	if err != nil {
		return false, kv.AsStorageError(err, "the log of changes could not be begun")
	}
	return since, nil
}

// begin makes a stage read everything that it has put aside, then from its cursor on.
func (f *Feed) begin(s Stage) error {
	behind := 0
	err := f.eachAside(s, 0, func(_ uint64, value []byte) error {
		behind += len(value) / AsideSize
		return nil
	})
	st, done := f.of(s)
	defer done()
	*st = stageState{following: true, reading: true, cursor: st.cursor, position: st.cursor, behind: behind}
	return err
}

// Leave drops what is kept for a stage that no longer exists.
func (f *Feed) Leave(ctx context.Context, s Stage) error {
	err := f.writer.Update(ctx, func(_ *commit.Group, w *commit.Op) error {
		st, done := f.of(s)
		defer done()
		*st = stageState{}
		w.Add(commit.Entry{Key: Cursor(s, 0).Key})
		return nil
	})
	if err = errors.Join(err, f.writer.DeletePrefix(ctx, f.db, []byte{kv.SpaceChange, byte(s)})); err != nil {
		return kv.AsStorageError(err, "the log of changes could not be ended")
	}
	return nil
}

// Next returns the next changes for a stage, roughly limit at most and none of the log after upTo; nil if there is
// nothing. It returns the same ones until they are done.
func (f *Feed) Next(s Stage, upTo uint64, limit int) (b *Batch, err error) {
	st, done := f.of(s)
	drained, position, last := st.drained, st.position, min(f.committed.Load(), upTo)
	done()
	if !drained {
		if b, err = f.nextAside(s, limit); err == nil && b == nil {
			return f.Next(s, upTo, limit)
		}
	} else {
		b, err = f.nextOfLog(s, position, last, limit)
	}
	if err != nil {
		return nil, kv.StorageError(err, "the log of changes cannot be read; run mneme check")
	}
	return b, nil
}

// slowest returns the lowest position of the stages that read, the last number if none does; the caller holds mu.
func (f *Feed) slowest() uint64 {
	least := f.committed.Load()
	for i := range f.stages {
		if st := &f.stages[i]; st.reading {
			least = min(least, st.position)
		}
	}
	return least
}

// Done notes that a stage has done a batch. Until it is confirmed, that holds only for this process.
func (f *Feed) Done(s Stage, b *Batch) {
	st, done := f.of(s)
	defer done()
	if n := len(b.records); n > 0 && b.records[0] > st.aside {
		st.aside = b.records[n-1]
		st.behind = max(st.behind-len(b.Changes), 0)
	}
	st.position = max(st.position, b.through)
	f.recent.release(f.slowest())
}

// Confirm removes batches, in the order of [Feed.Next], from a stage's work, and puts aside what it could not do until
// [Feed.Retry] or the next start. The stage's results must be durable first.
func (f *Feed) Confirm(ctx context.Context, s Stage, batches ...*Batch) error {
	var all Batch
	parked := make(map[uint64]int)
	for _, b := range batches {
		if n := len(b.records); n > 0 && len(b.Later) > 0 && len(b.Later) == len(b.Changes) { // they can stay where they are
			for _, number := range b.records {
				parked[number] = len(b.Later) / n
			}
			continue
		}
		all.Later, all.records, all.through = append(all.Later, b.Later...), append(all.records, b.records...), max(all.through, b.through)
	}
	var trimmed uint64
	if all.through > 0 || len(all.records) > 0 || len(all.Later) > 0 {
		err := f.writer.Update(ctx, func(g *commit.Group, w *commit.Op) error {
			for _, number := range all.records {
				w.Add(commit.Entry{Key: Key(byte(s), number)})
			}
			trimmed = f.trim(g, w, s, all.through)
			f.log.PutAside(w, s, all.Later, parked)
			return g.Err()
		})
		if err != nil {
			return kv.AsStorageError(err, "what was indexed could not be noted")
		}
	}
	st, done := f.of(s)
	defer done()
	st.cursor = max(st.cursor, all.through)
	f.trimmed.Store(max(f.trimmed.Load(), trimmed))
	if st.parked == nil {
		st.parked = parked
	}
	maps.Copy(st.parked, parked)
	return nil
}
