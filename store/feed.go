package store

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

// Feed tells the stages after an answer what has happened. It is one log of ended exchanges and of changed turns and
// sessions, which each stage reads at its own pace. A stage has a cursor, up to which it has done the log, and a list
// of changes that it has put aside. Both are in the store, so after a crash the stage resumes there: nothing is lost,
// and unconfirmed changes come again. What all stages have done is removed from the log.
type Feed struct{ *core }

// feed is the in-memory state of the feed.
type feed struct {
	last      uint64        // highest number assigned; only the writer's goroutine uses it
	coming    atomic.Uint64 // the last number of the commit in progress; otherwise equal to committed
	committed atomic.Uint64 // the last one that is committed
	trimmed   atomic.Uint64 // changes up to this number have been removed from the log
	changed   wake.Signal

	work [len(stages)]stageWork

	mu     sync.Mutex
	logged uint64 // the last number in the log; later numbers are of changes put aside
	stages [len(stages)]stageState
	recent recentChanges
}

// Stage derives something from exchanges, turns or sessions.
type Stage byte

// Stages. All except vectors always follow; that one from [Feed.Follow] to [Feed.Leave].
const (
	StageDigest   Stage = 'd' // turns, from ended exchanges
	StageWords    Stage = 'l' // the index of words
	StageVectors  Stage = 'v' // the vectors, after the words
	StageSessions Stage = 's' // the index of what is written about sessions
)

var stages = [...]Stage{StageDigest, StageWords, StageVectors, StageSessions}

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
// does not say which: [Feed.TurnAt] returns the present state. One exchange may be in the log many times.
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

	place   kv.ExchangeRef
	session kv.SessionID
	size    int64 // memory held by Turn, in bytes

	undigested bool             // known to be of an exchange without a turn: the digest stage makes one, which is another change
	captured   *record.Exchange // the exchange, while it is still in memory
}

// Batch is changes that a stage reads together: the next ones of the log, or some that were put aside.
type Batch struct {
	Changes []*Change
	Later   []*Change // of Changes: those that the stage cannot do now; it sets this before it confirms the batch

	through uint64   // in the log; 0: these had been put aside
	records []uint64 // that hold them
}

// A record of the log holds consecutive changes of one commit: each is the account, the exchange and the session, with
// zeros where there is none. A record of changes put aside has the account and the exchange, or for the session stage
// the session. The number in the key is that of the last change.
const (
	logRecords = 'e' // instead of a stage

	changeSize      = 4 + len(kv.ExchangeID{}) + len(kv.SessionID{})
	asideSize       = 4 + len(kv.ExchangeID{})
	asidePerRecord  = 64
	changesTogether = 1000 // put aside in one operation, or in one record of the log, at most
	mostTrimmed     = 10_000
)

func feedKey(of byte, number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kv.SpaceChange, of}, number)
}

var cursorPrefix = kv.NameKey(kv.SpaceMeta, "cursor-")

func cursorRecord(s Stage, cursor uint64) commit.Entry {
	return commit.Entry{Key: append(bytes.Clone(cursorPrefix), byte(s)), Value: binary.BigEndian.AppendUint64(nil, cursor)}
}

// open finds the cursors and the highest number in use.
func (f Feed) open() error {
	f.feed.changed = wake.New()
	f.feed.recent.forget = func(c *Change) { f.digester.release(c.take()) }
	return f.view(func(tx *badger.Txn) error {
		f.feed.logged = kv.LastNumber(tx, []byte{kv.SpaceChange, logRecords})
		f.feed.last = f.feed.logged
		for i, of := range stages {
			st := &f.feed.stages[i]
			value, err := kv.Get(tx, cursorRecord(of, 0).Key)
			if err != nil && !errors.Is(err, badger.ErrKeyNotFound) {
				return err
			}
			st.following = err == nil || of != StageVectors
			if len(value) == 8 {
				st.cursor = binary.BigEndian.Uint64(value)
			}
			f.feed.last = max(f.feed.last, st.cursor, kv.LastNumber(tx, []byte{kv.SpaceChange, byte(of)}))
		}
		counted, _, err := countedUpTo(tx)
		f.feed.last = max(f.feed.last, counted)
		f.feed.coming.Store(f.feed.last)
		f.feed.committed.Store(f.feed.last)
		f.feed.recent.from = f.feed.last
		return err
	})
}

// of returns the state of a stage and holds mu until done is called.
func (f Feed) of(s Stage) (st *stageState, done func()) {
	f.feed.mu.Lock()
	return &f.feed.stages[slices.Index(stages[:], s)], f.feed.mu.Unlock
}

// announce reports a commit. whole is false for a failed one, whose changes may partly exist.
func (f Feed) announce(changes []*Change, whole bool) {
	before := f.feed.committed.Load()
	if before == f.feed.last {
		return
	}
	f.feed.mu.Lock()
	f.feed.coming.Store(f.feed.last)
	f.feed.committed.Store(f.feed.last)
	look := f.announceDigests(before, changes, whole)
	switch {
	case !whole:
		f.feed.logged = f.feed.last
	case len(changes) > 0: // the commit may also have assigned numbers to changes put aside
		f.feed.logged = changes[len(changes)-1].Seq
	}
	f.feed.recent.add(f.feed.last, changes, whole && f.slowest() < f.feed.last) // otherwise nothing reads
	if f.digests().position < f.feed.recent.from {                              // changes that are not in memory may come twice
		f.digester.countFrom(f.feed.last)
	}
	f.feed.mu.Unlock()
	if look {
		f.digester.signal.Notify()
	}
	f.feed.changed.Notify()
}

// Changed is signaled when changes may have been committed since it was last read. It is for the stage of words.
func (f Feed) Changed() <-chan struct{} { return f.feed.changed }

// Last returns the number of the last committed change.
func (f Feed) Last() uint64 { return f.feed.committed.Load() }

// Coming returns Last, or the last number of a commit in progress: every change visible in the store has at most this
// number. Last soon reaches it, whether the commit succeeds or not.
func (f Feed) Coming() uint64 { return f.feed.coming.Load() }

// Position returns the number up to which a stage has done all changes; 0 while it has to do some that were put aside.
func (f Feed) Position(s Stage) uint64 {
	st, done := f.of(s)
	defer done()
	switch {
	case s == StageDigest && f.opts.Digest == nil:
		return f.feed.committed.Load()
	case st.drained:
		return st.position
	}
	return 0
}

// Lag returns roughly how many changes a stage has yet to do (for the digest stage: exchanges), and how many come again
// after a crash because they are unconfirmed or put aside.
func (f Feed) Lag(s Stage) (lag, unconfirmed uint64) {
	st, done := f.of(s)
	defer done()
	if !st.following || s == StageDigest && f.opts.Digest == nil {
		return 0, 0
	}
	lag = f.feed.committed.Load() - max(st.position, st.cursor) + uint64(st.behind)
	if unconfirmed = f.feed.logged - min(st.cursor, f.feed.logged) + uint64(st.behind); s == StageDigest {
		if f.digestsCounted() {
			lag = uint64(f.digester.count)
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
func (f Feed) Follow(ctx context.Context, s Stage) (since bool, err error) {
	st, done := f.of(s)
	since = st.following
	done()
	if !since {
		err = f.update(ctx, func(g *commitGroup, w *commit.Op) error {
			st, done := f.of(s)
			defer done()
			st.following, st.cursor = true, f.feed.last // before any change that could be trimmed
			w.Add(cursorRecord(s, f.feed.last))
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
func (f Feed) begin(s Stage) error {
	behind := 0
	err := f.eachAside(s, 0, func(_ uint64, value []byte) error {
		behind += len(value) / asideSize
		return nil
	})
	st, done := f.of(s)
	defer done()
	*st = stageState{following: true, reading: true, cursor: st.cursor, position: st.cursor, behind: behind}
	return err
}

// Leave drops what is kept for a stage that no longer exists.
func (f Feed) Leave(ctx context.Context, s Stage) error {
	err := f.update(ctx, func(_ *commitGroup, w *commit.Op) error {
		st, done := f.of(s)
		defer done()
		*st = stageState{}
		w.Add(commit.Entry{Key: cursorRecord(s, 0).Key})
		return nil
	})
	if err = errors.Join(err, f.deleteRange(ctx, []byte{kv.SpaceChange, byte(s)})); err != nil {
		return kv.AsStorageError(err, "the log of changes could not be ended")
	}
	return nil
}

// Next returns the next changes for a stage, roughly limit at most and none of the log after upTo; nil if there is
// nothing. It returns the same ones until they are done.
func (f Feed) Next(s Stage, upTo uint64, limit int) (b *Batch, err error) {
	st, done := f.of(s)
	drained, position, last := st.drained, st.position, min(f.feed.committed.Load(), upTo)
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
func (f Feed) slowest() uint64 {
	least := f.feed.committed.Load()
	for i := range f.feed.stages {
		if st := &f.feed.stages[i]; st.reading {
			least = min(least, st.position)
		}
	}
	return least
}

// Done notes that a stage has done a batch. Until it is confirmed, that holds only for this process.
func (f Feed) Done(s Stage, b *Batch) {
	st, done := f.of(s)
	defer done()
	if n := len(b.records); n > 0 && b.records[0] > st.aside {
		st.aside = b.records[n-1]
		st.behind = max(st.behind-len(b.Changes), 0)
	}
	st.position = max(st.position, b.through)
	f.feed.recent.release(f.slowest())
}

// Confirm removes batches, in the order of [Feed.Next], from a stage's work, and puts aside what it could not do until
// [Feed.Retry] or the next start. The stage's results must be durable first.
func (f Feed) Confirm(ctx context.Context, s Stage, batches ...*Batch) error {
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
		err := f.update(ctx, func(g *commitGroup, w *commit.Op) error {
			for _, number := range all.records {
				w.Add(commit.Entry{Key: feedKey(byte(s), number)})
			}
			trimmed = f.trim(g, w, s, all.through)
			f.putAside(w, s, all.Later, parked)
			return g.Err()
		})
		if err != nil {
			return kv.AsStorageError(err, "what was indexed could not be noted")
		}
	}
	st, done := f.of(s)
	defer done()
	st.cursor = max(st.cursor, all.through)
	f.feed.trimmed.Store(max(f.feed.trimmed.Load(), trimmed))
	if st.parked == nil {
		st.parked = parked
	}
	maps.Copy(st.parked, parked)
	return nil
}
