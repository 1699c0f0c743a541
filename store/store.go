package store

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/options"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/filelock"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// ErrInUse is returned by [Open] when another process has the store open.
var ErrInUse = errors.New("the store is open in another process")

// formatVersion is the version of the layout that FORMAT.md describes.
// An older one is read as it is: what is written again is written as this one has it.
const formatVersion = 4

const (
	defaultQueueBytes  = 64 << 20
	defaultAnswerBytes = 64 << 20 // the largest known are batches of embeddings, of 58 MB

	databaseDir = "badger" // inside the store's
	lockFile    = "lock"   // likewise
)

// Store is an open store. All methods may be called from any goroutine, those of its parts as well.
type Store struct{ *core }

// core is what all parts of a store work with.
type core struct {
	opts  Options
	log   *slog.Logger
	lock  *os.File // holds the lock on Dir
	db    *badger.DB
	ids   kv.IDSource
	disk  diskGate
	last  commitFile
	count counters

	planner  blob.Planner
	planning sync.RWMutex // held for reading from planning a body, or looking up its account, to queueing it; sweeps and deletions take it between
	digester digester
	keeper   keeper
	tables   *tableWatch
	events   eventHub
	feed     feed
	shipping Shipping
	arriving atomic.Bool // exchanges arrive from other stores, or have

	master      *identity.MasterKey
	accounts    *identity.AccountTable
	keys        *identity.KeyTable
	credentials *identity.Credentials
	audit       *identity.AuditLog
	roster      *identity.Roster

	usages usageTable
	now    func() time.Time // the clock of keys and of usage

	queue      queue
	writerDone chan struct{}
}

// Open opens the store in opts.Dir, creating it when it is not there. A store that another process has open is
// [ErrInUse]; one written by a newer version of this package, or under another master key, is an error that says so.
func Open(opts Options) (*Store, error) {
	s, err := prepare(opts)
	if err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	go s.runWriter()
	if s.master.Changing() {
		if err := s.master.Finish(s.rotation()); err != nil {
			s.log.Error("the change of the master key did not come to its end", "error", err)
		}
	}
	s.digester.start(s)
	s.keeper.start(s)
	s.keys.Start()
	return &Store{s}, nil
}

// prepare makes a store that holds the lock on its directory and is not open yet.
func prepare(opts Options) (*core, error) {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	if opts.QueueBytes <= 0 {
		opts.QueueBytes = defaultQueueBytes
	}
	if opts.AnswerBytes <= 0 {
		opts.AnswerBytes = defaultAnswerBytes
	}
	if opts.Clock == nil {
		opts.Clock = time.Now
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create the store directory: %w", err)
	}
	if err := keepPrivate(opts.Dir); err != nil {
		return nil, fmt.Errorf("keep the store directory private: %w", err)
	}
	lock, err := lockDir(opts.Dir)
	if err != nil {
		return nil, err
	}
	return &core{
		digester: digester{signal: make(chan struct{}, 1)},
		ids:      kv.IDSource{Node: opts.Node},
		opts:     opts, log: opts.Log, lock: lock, now: opts.Clock,
		queue:      newQueue(opts.QueueBytes),
		writerDone: make(chan struct{}),
	}, nil
}

// keepPrivate takes from other users what they could read of the store: Badger makes its files as the process's umask says.
func keepPrivate(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil || info.Mode().Perm()&0o077 == 0 || path == dir || !info.Mode().IsRegular() && !info.IsDir() {
			return nil //nolint:nilerr // a file that is gone meanwhile
		}
		return os.Chmod(path, info.Mode().Perm()&0o700)
	})
}

// release gives up what a store holds whose opening failed.
func (s *core) release() (err error) {
	if s.db != nil {
		err = s.closeDatabase()
	}
	return errors.Join(err, s.lock.Close())
}

func (s *core) open() (err error) {
	if s.master, err = openMasterKey(s.opts); err != nil {
		return err
	}
	// With the wrong key the store has to stay as it is. An unreadable note is for examine.
	if note, err := readStopNote(s.opts.Dir); err == nil && note != nil && note.Proof != nil {
		if err := s.master.Check(note.Proof); err != nil {
			return err
		}
	}
	if err := s.openDatabase(); err != nil {
		return err
	}
	if err := s.checkFormat(); err != nil {
		return err
	}
	if err := s.openIdentity(); err != nil {
		return err
	}
	if err := (Feed{s}).open(); err != nil {
		return fmt.Errorf("open the log of changes: %w", err)
	}
	if err := s.shipping.open(s); err != nil {
		return fmt.Errorf("open the log of what is shipped: %w", err)
	}
	if err := s.openArrivals(); err != nil {
		return fmt.Errorf("look for what has arrived: %w", err)
	}
	if err := s.markInterrupted(); err != nil {
		return fmt.Errorf("mark interrupted exchanges: %w", err)
	}
	return nil
}

func openMasterKey(opts Options) (*identity.MasterKey, error) {
	return identity.OpenMasterKey(opts.Dir, filepath.Join(opts.Dir, databaseDir), opts.MasterKey, opts.PreviousMasterKey)
}

// rotation is what a change of the master key needs of the store.
func (s *core) rotation() identity.Rotation {
	note := func(proof []byte) error { return writeStopNote(s.opts.Dir, &stopNote{Proof: proof}) }
	return identity.Rotation{DB: database{s}, Accounts: s.accounts, Sync: s.db.Sync, Note: note}
}

func (s *core) openIdentity() (err error) {
	db := database{s}
	if s.accounts, err = identity.LoadAccounts(db); err != nil {
		return fmt.Errorf("load the accounts: %w", err)
	}
	if s.keys, err = identity.LoadKeys(db, s.accounts, s.now, s.log); err != nil {
		return fmt.Errorf("load the service keys: %w", err)
	}
	s.credentials = identity.NewCredentials(db, s.accounts, s.master, s.opts.Redact, s.log)
	s.audit = identity.NewAuditLog(db, s.opts.AuditAge, s.log)
	if s.roster, err = identity.LoadRoster(db, s.accounts, s.keys, s.credentials, s.master); err != nil {
		return fmt.Errorf("load what is known of the centre's accounts and keys: %w", err)
	}
	return nil
}

func (s *core) openDatabase() (err error) {
	s.disk = newDiskGate(s.opts.Dir, s.opts.MinFreeDisk)
	if err := s.disk.allows(); err != nil {
		return err // Badger dies of SIGBUS when it opens on a full disk
	}
	found, err := examine(s.opts.Dir, atStart)
	if err == nil {
		err = found.settle()
	}
	if err == nil {
		err = s.last.open(s.opts.Dir)
	}
	if err == nil {
		err = s.noteInUse()
	}
	if err != nil {
		return err
	}
	s.tables = newTableWatch(s.opts.Dir, s.log, found.unread)
	if s.db, err = openBadger(badgerOptions(s.opts, s.tables.readAll), badger.Open); err != nil {
		return err
	}
	s.tables.db.Store(s.db)
	found.tell(s)
	return errors.Join(s.noteCommits(), s.noteSettled())
}

// noteInUse notes that the store is open, and so that it was not closed if nothing else is noted later. A note that says so
// already stays as it is: each proof is another one.
func (s *core) noteInUse() error {
	note := &stopNote{}
	if s.master != nil && !s.master.Changing() {
		was, err := readStopNote(s.opts.Dir)
		if err == nil && was != nil && !was.Clean && was.Boot == bootID() && was.Proof != nil && s.master.Check(was.Proof) == nil {
			return nil
		}
		note.Proof = s.master.Proof()
	}
	return writeStopNote(s.opts.Dir, note)
}

// openBadger makes a panic an error: Badger has its own way with files that it does not expect.
func openBadger(o badger.Options, open func(badger.Options) (*badger.DB, error)) (db *badger.DB, err error) {
	defer func() {
		if p := recover(); p != nil {
			line, _, _ := strings.Cut(strings.TrimSpace(fmt.Sprint(p)), "\n")
			db, err = nil, fmt.Errorf("%s cannot be opened (%s): restore a backup with mneme restore, or get out what can be read with mneme recover", o.Dir, line)
		}
	}()
	if db, err = open(o); err != nil {
		return nil, fmt.Errorf("open the database in %s: %w; restore a backup with mneme restore, or get out what can be read with mneme recover", o.Dir, err)
	}
	return db, nil
}

// closeDatabase closes the database and notes how its files are then.
func (s *core) closeDatabase() error {
	tables := s.tables.sound()
	err := errors.Join(s.db.Close(), s.last.close(), keepPrivate(s.opts.Dir))
	if err == nil {
		err = noteStop(s.opts.Dir, s.master.Proof(), tables)
	}
	if err == nil { // what was left over was not needed
		err = os.RemoveAll(filepath.Join(s.opts.Dir, leftoverDir))
	}
	return err
}

// badgerOptions are for a single writer of values that are compressed already: a small memory footprint, all but the
// smallest values outside the tree, no conflict detection.
//
// Blocks of tables are not compressed: what is large is compressed already, and the builders of compressed tables hold
// 150 MB that the garbage collector cannot give back (measured at 8,000 exchanges a second). Blocks are then read where
// the kernel has mapped them, so there is nothing for a block cache to do; tables that an earlier version compressed are
// read without one.
//
// merging is called when tables have been merged and are about to be removed.
func badgerOptions(opts Options, merging func()) badger.Options {
	o := badger.DefaultOptions(filepath.Join(opts.Dir, databaseDir)).
		WithMemTableSize(memoryTableSize(opts.Dir)).
		WithNumMemtables(memTables).
		WithBaseTableSize(2 << 20). // each table that is built takes 3 MiB for its index, whatever its size
		WithNumCompactors(2).
		WithNumLevelZeroTables(4).
		WithNumLevelZeroTablesStall(8).
		WithCompression(options.None).
		WithValueThreshold(valueThreshold).
		WithValueLogFileSize(valueLogSize(opts.Dir)).
		WithBlockCacheSize(0).
		WithIndexCacheSize(16 << 20).
		WithMetricsEnabled(false).
		WithDetectConflicts(false).
		WithChecksumVerificationMode(options.OnBlockRead).
		WithVerifyValueChecksum(true).
		WithSyncWrites(opts.Durability == Power).
		WithLogger(badgerLog{opts.Log, merging})
	o.TableSizeMultiplier = 1 // builders of larger tables take several times their size in memory
	return o
}

// lockDir takes the store's lock. The kernel frees it when the process ends, however it ends.
func lockDir(dir string) (*os.File, error) {
	file, err := filelock.Lock(filepath.Join(dir, lockFile))
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, fmt.Errorf("%s: %w", dir, ErrInUse)
	case err != nil:
		return nil, fmt.Errorf("lock the store: %w", err)
	}
	return file, nil
}

// checkFormat compares the store's version and master key with ours, and notes both in a new store.
func (s *core) checkFormat() error {
	return s.db.Update(func(tx *badger.Txn) error {
		if err := leaveRestore(tx, s.opts.Dir); err != nil {
			return err
		}
		version, err := kv.Get(tx, kv.NameKey(kv.SpaceMeta, "format"))
		if errors.Is(err, badger.ErrKeyNotFound) {
			if err := tx.Set(identity.ProofKey, s.master.Proof()); err != nil {
				return err
			}
			if err := noteRollups(tx, time.Time{}); err != nil {
				return err
			}
			return tx.Set(kv.NameKey(kv.SpaceMeta, "format"), []byte{formatVersion})
		}
		if err == nil {
			err = noteRollups(tx, s.now())
		}
		if err != nil {
			return err
		}
		if len(version) != 1 || version[0] > formatVersion {
			return fmt.Errorf("the store in %s was written by a newer version of mneme (format %v, this one reads up to %d): upgrade mneme",
				s.opts.Dir, version, formatVersion)
		}
		if version[0] < formatVersion {
			if err := tx.Set(kv.NameKey(kv.SpaceMeta, "format"), []byte{formatVersion}); err != nil {
				return err
			}
		}
		proof, err := kv.Get(tx, identity.ProofKey)
		if err != nil {
			return err
		}
		return s.master.Check(proof)
	})
}

// Close commits what was handed over and closes the store. What is begun or finished afterwards is an error.
func (s *Store) Close() error {
	s.keeper.stop()
	s.digester.stop()
	s.keys.Stop()
	if !s.queue.close() {
		return nil
	}
	<-s.writerDone
	s.events.close()
	return errors.Join(s.closeDatabase(), s.lock.Close())
}

func (s *core) view(read func(tx *badger.Txn) error) error { return s.db.View(read) }

// update runs a change of accounts, keys and the like on the writer and waits until it is committed.
// What change puts is committed together; it puts nothing before it fails.
func (s *core) update(ctx context.Context, change change) error {
	return s.run(ctx, &write{change: change, done: make(chan struct{})})
}

// makeRoom is update for what erases: it goes on where the volume is too full for anything else.
func (s *core) makeRoom(ctx context.Context, change change) error {
	return s.run(ctx, &write{change: change, frees: true, done: make(chan struct{})})
}

func (s *core) run(ctx context.Context, w *write) error {
	if err := s.queue.send(ctx, w); err != nil {
		return err
	}
	<-w.done
	return w.err
}

// updateOf is update for what an account owns: it is done before the account is deleted, or not at all, so that nothing is
// left of it that nobody would ever delete.
func (s *core) updateOf(ctx context.Context, account kv.AccountNumber, change change) error {
	return s.runOf(ctx, account, &write{change: change, done: make(chan struct{})})
}

func (s *core) runOf(ctx context.Context, account kv.AccountNumber, w *write) error {
	if err := s.sendOf(ctx, account, w); err != nil {
		return err
	}
	<-w.done
	return w.err
}

func (s *core) sendOf(ctx context.Context, account kv.AccountNumber, w *write) error {
	s.planning.RLock() // a deletion takes the account out of the table between
	defer s.planning.RUnlock()
	if !s.accounts.Has(account) {
		return codec.Errorf(codec.KindNotFound, "the account was deleted")
	}
	return s.queue.send(ctx, w)
}
