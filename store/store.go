package store

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/backup"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/feed"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/notes"
	"github.com/mnemeproxy/mneme/store/internal/recording"
	"github.com/mnemeproxy/mneme/store/internal/sessions"
	"github.com/mnemeproxy/mneme/store/internal/shipping"
	"github.com/mnemeproxy/mneme/store/internal/turns"
	"github.com/mnemeproxy/mneme/store/internal/upkeep"
	"github.com/mnemeproxy/mneme/store/internal/usage"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// ErrInUse is returned by [Open] if another process has the store open.
var ErrInUse = files.ErrInUse

// formatVersion is the version of the layout that FORMAT.md describes. A store of firstFormat or later is read as it is, and
// from then on has this version, because it may get what an older program does not read.
const (
	formatVersion = 9
	firstFormat   = 8
)

const (
	defaultQueueBytes  = 64 << 20
	defaultAnswerBytes = 64 << 20 // the largest known are batches of embeddings, of 58 MB
)

// Store is an open store. All its methods, and those of its parts, may be called from any goroutine.
type Store struct{ *core }

// core is shared by all parts of a store.
type core struct {
	opts     Options
	log      *slog.Logger
	db       *files.Database
	ids      kv.IDSource
	planner  blob.Planner
	recorder *recording.Recorder
	digester *turns.Digester
	keeper   *upkeep.Keeper
	events   record.EventHub
	feed     *feed.Feed
	shipping *shipping.Log
	notes    *notes.Notes
	sessions *sessions.Records

	usage *usage.Table

	identities

	writer *writing.Writer
}

// Open opens the store in opts.Dir, and creates it if it does not exist. The error is [ErrInUse] if another process has
// it open; a store of another version of this package, or with another master key, has an error that says so.
func Open(opts Options) (*Store, error) {
	s, err := prepare(opts)
	if err != nil {
		return nil, err
	}
	if err := s.open(); err != nil {
		return nil, errors.Join(err, s.release())
	}
	go s.writer.Run()
	if s.master.Changing() {
		if err := s.master.Finish(s.rotation()); err != nil {
			s.log.Error("could not finish rotating the master key", "error", err)
		}
	}
	s.digester.Start()
	s.keeper = upkeep.Start(upkeep.Options{
		DB: s.db, Writer: s.writer, Accounts: s.accounts, Roster: s.roster, Audit: s.audit, Sessions: s.sessions, Planner: &s.planner,
		IDs: &s.ids, Notes: s.notes, Shipping: s.shipping, Usage: s.usage,
		Retention: opts.Retention, Accepted: opts.Accepted, Log: s.log,
	})
	s.keys.Start()
	return &Store{s}, nil
}

// prepare returns a store that holds the lock on its directory and is not open yet.
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
	db, err := files.Lock(opts.Dir, opts.Log)
	if err != nil {
		return nil, err
	}
	if format := files.NotedFormat(opts.Dir); format > formatVersion { // the database would leave traces
		return nil, errors.Join(errNewerFormat(opts.Dir, format), db.Unlock())
	}
	s := &core{
		planner:  blob.Planner{Known: blob.Known{Most: blob.MostKnown}},
		ids:      kv.IDSource{Node: opts.Node},
		sessions: sessions.NewRecords(),
		usage:    usage.NewTable(db, opts.Clock),
		opts:     opts, log: opts.Log, db: db,
	}
	s.writer = writing.New(db, opts.QueueBytes, writing.NewGroup(sessions.Options{
		DB: db, Known: &s.planner.Known, Records: s.sessions, IDs: &s.ids, Digests: opts.Digest != nil, Summaries: opts.Summaries, Log: opts.Log,
	}))
	s.digester = turns.New(db, s.writer, opts.Digest, opts.Log)
	return s, nil
}

// release frees what a store holds that failed to open.
func (s *core) release() (err error) {
	if s.db.DB != nil {
		err = s.db.Close(s.master.Proof())
	}
	return errors.Join(err, s.db.Unlock())
}

func (s *core) open() (err error) {
	if s.master, err = openMasterKey(&s.opts); err != nil {
		return err
	}
	// With the wrong key the store must stay unchanged.
	if proof := files.NotedProof(s.opts.Dir); proof != nil {
		if err := s.master.Check(proof); err != nil {
			return err
		}
	}
	if err := s.openDatabase(); err != nil {
		return err
	}
	if err := s.checkFormat(); err != nil {
		return err
	}
	if err := s.identities.open(s.writer.DB(), &s.opts); err != nil {
		return err
	}
	s.writer.Accounts, s.digester.Credentials = s.accounts, s.credentials
	s.recorder = &recording.Recorder{Options: recording.Options{
		Writer: s.writer, Digester: s.digester, Accounts: s.accounts, Credentials: s.credentials, Planner: &s.planner, IDs: &s.ids,
		Stream: s.opts.Stream, Sheds: s.opts.OnPressure == Shed, AnswerBytes: s.opts.AnswerBytes,
	}}
	if err := s.openFeed(); err != nil {
		return fmt.Errorf("open the log of changes: %w", err)
	}
	s.notes = notes.New(s.writer.DB(), s.accounts, s.credentials)
	s.shipping, err = shipping.Open(shipping.Options{DB: s.db, Writer: s.writer.Writer, Accounts: s.accounts, Session: s.sessions.Get, Logger: s.log})
	if err != nil {
		return fmt.Errorf("open the log of what is shipped: %w", err)
	}
	s.writer.Group.Readers = writing.Readers{Feed: s.feed, Shipping: s.shipping, Notes: s.notes, Roster: s.roster, Events: &s.events}
	if err := sessions.Recount(s.db); err != nil {
		return fmt.Errorf("count the exchanges of sessions: %w", err)
	}
	if err := s.writer.MarkInterrupted(); err != nil {
		return fmt.Errorf("mark interrupted exchanges: %w", err)
	}
	if err := s.writer.Group.Sessions.NoteCounted(s.db); err != nil {
		return fmt.Errorf("note that the exchanges of sessions are counted: %w", err)
	}
	return nil
}

func (s *core) openFeed() (err error) {
	g := s.writer.Group
	s.feed, g.Sessions.Changes, err = feed.Open(feed.Options{
		DB: s.db, Writer: s.writer.Writer, Digests: s.opts.Digest != nil, Forget: s.digester.Release, Trimming: g.Sessions.StoreCounted,
	})
	g.Feed, s.digester.Feed = s.feed, s.feed
	return err
}

func (s *core) openDatabase() error {
	s.writer.Gate = commit.NewGate(s.opts.Dir, cmp.Or(s.opts.MinFreeDisk, defaultReserve(s.opts.Dir)))
	if err := s.writer.Gate.Allows(); err != nil {
		return err // Badger dies of SIGBUS if it opens on a full disk
	}
	if s.master == nil { // the store is being restored
		return s.db.Open(badgerOptions(s.opts), formatVersion, nil)
	}
	return s.db.Open(badgerOptions(s.opts), formatVersion, s.master)
}

// checkFormat compares the store's version and master key with ours, and notes both in a new store.
func (s *core) checkFormat() error {
	return s.db.Update(func(tx *badger.Txn) error {
		if err := backup.Leave(tx, s.opts.Dir); err != nil {
			return err
		}
		version, err := kv.Get(tx, kv.NameKey(kv.SpaceMeta, "format"))
		if errors.Is(err, badger.ErrKeyNotFound) {
			if err := tx.Set(identity.ProofKey, s.master.Proof()); err != nil {
				return err
			}
			if err := tx.Set(rollupsKey, make([]byte, 8)); err != nil {
				return err
			}
			return tx.Set(kv.NameKey(kv.SpaceMeta, "format"), []byte{formatVersion})
		}
		if err != nil {
			return err
		}
		if len(version) != 1 {
			return fmt.Errorf("the version of the store in %s cannot be read: upgrade mneme, or restore a backup", s.opts.Dir)
		}
		if version[0] > formatVersion {
			return errNewerFormat(s.opts.Dir, int(version[0]))
		}
		if version[0] < firstFormat || isOlder(tx) {
			return fmt.Errorf("the store in %s was begun by an older version of mneme: export it with that version (mneme export), and import it with this one into an empty directory (mneme import)", s.opts.Dir)
		}
		proof, err := kv.Get(tx, identity.ProofKey)
		if err == nil {
			err = s.master.Check(proof)
		}
		if err != nil || version[0] == formatVersion {
			return err
		}
		return tx.Set(kv.NameKey(kv.SpaceMeta, "format"), []byte{formatVersion})
	})
}

// rollupsKey holds the time from which exchanges are rolled up, in nanoseconds since 1970: 0.
var rollupsKey = kv.NameKey(kv.SpaceMeta, "rollups")

// isOlder reports whether a store is older than rollups. It may have records of a layout that is no longer read.
func isOlder(tx *badger.Txn) bool {
	since, err := kv.Get(tx, rollupsKey)
	return err != nil || !bytes.Equal(since, make([]byte, 8))
}

func errNewerFormat(dir string, format int) error {
	return fmt.Errorf("the store in %s was written by a newer version of mneme (format %d, this one reads up to %d): upgrade mneme", dir, format, formatVersion)
}

// Close commits what was handed over and closes the store. Later operations return an error.
func (s *Store) Close() error {
	s.keeper.Stop()
	s.digester.Stop()
	s.keys.Stop()
	if !s.writer.Close() {
		return nil
	}
	s.events.Close()
	return s.release()
}

// Ready returns why no exchange can be recorded; nil if it can.
func (s *Store) Ready() error {
	if s.opts.OnPressure == Shed {
		return nil
	}
	return s.writer.Gate.Admits()
}
