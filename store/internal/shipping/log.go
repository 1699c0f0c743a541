package shipping

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/journal"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// Log is the log of the exchanges to be shipped to another store, a centre. It is kept from [Log.Begin] on, and holds what the centre has not confirmed, in the order in which it ended. Each exchange enters it in the commit
// that ends it. Retention does not erase what is in it.
//
// One goroutine reads and confirms; Waiting and Oldest may be called by any.
type Log struct {
	o Options

	kept      atomic.Bool
	last      atomic.Uint64 // highest number assigned, to an exchange that is committed or about to be
	confirmed atomic.Uint64
	before    atomic.Uint64 // the log's entries begin after this number
	changed   wake.Signal

	log  ship.LogID
	sent blob.Known // blocks and nodes shipped since the log was last rewound
}

// state is the stored state of the log.
type state struct {
	Log       []byte `json:"log"`
	Confirmed uint64 `json:"confirmed,omitempty"`
	Whole     bool   `json:"whole,omitempty"` // everything that had ended when it was started is in it, or confirmed
}

// entrySize is the size of an entry: account and exchange.
const entrySize = 4 + len(kv.ExchangeID{})

// shipBatch is how many entries are added to or removed from the log in one operation.
const shipBatch = 1000

var errMalformed = errors.New("malformed entry in the log of what is shipped")

var stateKey = kv.NameKey(kv.SpaceMeta, "shipping")

func key(number uint64) []byte {
	return binary.BigEndian.AppendUint64([]byte{kv.SpaceShip}, number)
}

// Options are what the log needs of the store.
type Options struct {
	DB       kv.Reader
	Writer   *commit.Writer
	Accounts *identity.AccountTable
	Session  func(*badger.Txn, kv.SessionRef) (*record.StoredSession, error) // reads the record of a session
	Logger   *slog.Logger
}

// Open reads the state of the log.
func Open(o Options) (*Log, error) {
	p := &Log{o: o, changed: wake.New()}
	p.sent.Most = blob.MostKnown
	return p, p.o.DB.View(func(tx *badger.Txn) error {
		note, err := readState(tx)
		if err != nil || note == nil {
			return err
		}
		p.log = ship.LogID(note.Log)
		p.confirmed.Store(note.Confirmed)
		p.last.Store(max(note.Confirmed, kv.LastNumber(tx, []byte{kv.SpaceShip})))
		p.before.Store(note.Confirmed)
		for item := range kv.Items(tx, []byte{kv.SpaceShip}, nil) {
			p.before.Store(binary.BigEndian.Uint64(item.Key()[1:]) - 1)
			break
		}
		p.kept.Store(true)
		return nil
	})
}

// readState returns the stored state; nil: no log is kept.
func readState(tx *badger.Txn) (*state, error) {
	value, err := kv.Get(tx, stateKey)
	if errors.Is(err, badger.ErrKeyNotFound) {
		return nil, nil //nolint:nilnil // there is no log
	}
	if err != nil {
		return nil, err
	}
	note := new(state)
	if err := record.Decode(value, note); err != nil {
		return nil, err
	}
	if len(note.Log) != len(ship.LogID{}) {
		return nil, kv.ErrRecord
	}
	return note, nil
}

// Add adds an ended exchange to the log. It is the writer's.
func (p *Log) Add(g *commit.Group, w *commit.Op, at kv.ExchangeRef) {
	if p.kept.Load() {
		g.Put(w, key(p.last.Add(1)), append(binary.BigEndian.AppendUint32(nil, uint32(at.Account)), at.ID[:]...))
	}
}

// Announce wakes the reader after a commit.
func (p *Log) Announce() {
	if p.kept.Load() {
		p.changed.Notify()
	}
}

// Begin starts to keep the log. If none was kept before, it adds everything that has ended so far, oldest first; an
// interrupted Begin resumes with that.
func (p *Log) Begin(ctx context.Context) error {
	var note *state
	err := p.o.DB.View(func(tx *badger.Txn) (err error) {
		note, err = readState(tx)
		return err
	})
	if err == nil && (note == nil || !note.Whole) {
		err = p.repeat(ctx)
	}
	if err != nil {
		return kv.AsStorageError(err, "the log of what is shipped could not be begun")
	}
	return nil
}

// Repeat starts a new log with everything that has ended, for a centre that has lost what it had confirmed, or that has
// got something that this store no longer has. The centre skips what it still has.
func (p *Log) Repeat(ctx context.Context) error {
	if err := p.repeat(ctx); err != nil {
		return kv.AsStorageError(err, "the log of what is shipped could not be begun again")
	}
	return nil
}

func (p *Log) repeat(ctx context.Context) error {
	note := state{Log: make([]byte, len(ship.LogID{}))}
	_, _ = rand.Read(note.Log) // never fails: crypto/rand ends the program instead
	before := p.last.Load()
	if err := p.drop(ctx, 0, before, note); err != nil {
		return err
	}
	p.before.Store(before - 1) // until all is in the log again, one more waits than it has: never none
	p.log = ship.LogID(note.Log)
	p.confirmed.Store(0)
	p.Forget()
	var batch []kv.ExchangeRef
	flush := func() error {
		err := p.o.Writer.Update(ctx, func(g *commit.Group, w *commit.Op) error {
			for _, at := range batch {
				p.Add(g, w, at)
			}
			return nil
		})
		batch = batch[:0]
		return err
	}
	err := p.o.DB.View(func(tx *badger.Txn) error {
		return kv.EachValue(ctx, tx, []byte{kv.SpaceExchange}, func(key, value []byte) error {
			account, id, ok := kv.SplitExchangeKey(key)
			var info record.ExchangeInfo
			if !ok || record.Decode(value, &info) == nil && info.Outcome == record.OutcomeOpen {
				return nil // an open exchange is added when it ends
			}
			if batch = append(batch, kv.ExchangeRef{Account: account, ID: id}); len(batch) < shipBatch {
				return nil
			}
			return flush()
		})
	})
	if err = errors.Join(err, flush()); err != nil {
		return err
	}
	note.Whole = true
	if err := p.note(ctx, note, nil); err != nil {
		return err
	}
	p.before.Store(before)
	return nil
}

// drop removes a range of entries from the log, and replaces the note. It starts at the first existing entry: iterating
// over deleted ones is slow.
func (p *Log) drop(ctx context.Context, from, upTo uint64, note state) error {
	for {
		var keys [][]byte
		err := p.o.DB.View(func(tx *badger.Txn) error {
			for item := range kv.Items(tx, []byte{kv.SpaceShip}, key(from)) {
				if len(keys) == shipBatch || bytes.Compare(item.Key(), key(upTo)) > 0 {
					break
				}
				keys = append(keys, item.KeyCopy(nil))
			}
			return nil
		})
		if err != nil {
			return err
		}
		if err := p.note(ctx, note, keys); err != nil || len(keys) < shipBatch {
			return err
		}
	}
}

// note stores the note, and removes entries with it.
func (p *Log) note(ctx context.Context, note state, keys [][]byte) error {
	value, err := kv.EncodeRecord(note)
	if err != nil {
		return err
	}
	return p.o.Writer.MakeRoom(ctx, func(g *commit.Group, w *commit.Op) error {
		for _, k := range keys {
			g.Put(w, k, nil)
		}
		g.Put(w, stateKey, value)
		p.kept.Store(true)
		return nil
	})
}

// Confirm removes the entries up to a number from the log: the centre has them durably.
func (p *Log) Confirm(ctx context.Context, upTo uint64) error {
	if upTo <= p.confirmed.Load() {
		return nil
	}
	if err := p.drop(ctx, p.before.Load()+1, upTo, state{Log: p.log[:], Confirmed: upTo, Whole: true}); err != nil {
		return kv.AsStorageError(err, "what was shipped could not be noted")
	}
	p.confirmed.Store(upTo)
	p.before.Store(upTo)
	return nil
}

// CommittedHere records that only this store had an exchange when it ended.
func (p *Log) CommittedHere(ctx context.Context, account, exchange string) error {
	number, known := p.o.Accounts.Find(account)
	id, ok := kv.ParseExchangeID(exchange)
	if !known || !ok {
		return record.NoExchange(exchange)
	}
	err := p.o.Writer.Update(ctx, func(g *commit.Group, w *commit.Op) error {
		if info, readable := journal.Latest(g, number, id); info != nil && readable && info.Outcome != record.OutcomeOpen {
			info.Committed = record.CommittedLocal
			g.Put(w, kv.ExchangeKey(kv.SpaceExchange, number, id), record.Encode(info))
		}
		return nil
	})
	if err != nil {
		return kv.AsStorageError(err, "exchange %s could not be changed", exchange)
	}
	return nil
}

// Log returns the log's id.
func (p *Log) Log() ship.LogID { return p.log }

// Last returns the number of the last exchange that has entered the log.
func (p *Log) Last() uint64 { return p.last.Load() }

// Confirmed returns the number up to which the centre has confirmed.
func (p *Log) Confirmed() uint64 { return p.confirmed.Load() }

// Waiting returns how many exchanges the centre has not confirmed.
func (p *Log) Waiting() uint64 {
	before := p.before.Load() // read first, so that the difference is not negative
	return p.last.Load() - before
}

// Oldest returns when the first unconfirmed exchange began; zero: all are confirmed.
func (p *Log) Oldest() (began time.Time, err error) {
	err = p.read(func(tx *badger.Txn) error {
		it := tx.NewIterator(badger.IteratorOptions{Prefix: []byte{kv.SpaceShip}})
		defer it.Close()
		if it.Seek(key(p.before.Load() + 1)); !it.Valid() {
			return nil
		}
		return it.Item().Value(func(value []byte) error {
			at, ok := readEntry(value)
			if !ok {
				return errMalformed
			}
			began = at.ID.Time()
			return nil
		})
	})
	return began, err
}

func (p *Log) read(read func(tx *badger.Txn) error) error {
	if err := p.o.DB.View(read); err != nil {
		return kv.AsStorageError(err, "the log of what is shipped cannot be read; run mneme check")
	}
	return nil
}

// Holds reports whether the unconfirmed entry with a number is that exchange.
func (p *Log) Holds(number uint64, tail ship.Tail) (holds bool, err error) {
	err = p.read(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, key(number))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		at, ok := readEntry(value)
		if err == nil && !ok {
			err = errMalformed
		}
		holds = err == nil && tail == ship.Tail(at.ID)
		return err
	})
	return holds, err
}

// Changed is signaled when the log may have grown since it was last read.
func (p *Log) Changed() <-chan struct{} { return p.changed }

func readEntry(value []byte) (at kv.ExchangeRef, ok bool) {
	if len(value) != entrySize {
		return at, false
	}
	return kv.ExchangeRef{Account: kv.AccountNumber(binary.BigEndian.Uint32(value)), ID: kv.ExchangeID(value[4:])}, true
}

// Each visits the entries of the log.
func Each(ctx context.Context, tx *badger.Txn, visit func(kv.ExchangeRef)) error {
	return kv.EachValue(ctx, tx, []byte{kv.SpaceShip}, func(_, value []byte) error {
		if at, ok := readEntry(value); ok {
			visit(at)
		}
		return nil
	})
}

// Since returns when an account's first unconfirmed exchange began; zero: it has none.
func (p *Log) Since(ctx context.Context, account kv.AccountNumber) (since time.Time, err error) {
	if !p.kept.Load() {
		return since, nil
	}
	err = p.o.DB.View(func(tx *badger.Txn) error {
		return Each(ctx, tx, func(at kv.ExchangeRef) {
			if at.Account != account {
				return
			}
			info, err := journal.Info(tx, at.Account, at.ID) // otherwise it was erased, or cannot be read and so not be shipped
			if err == nil && (since.IsZero() || info.Started.Before(since)) {
				since = info.Started
			}
		})
	})
	return since, err
}
