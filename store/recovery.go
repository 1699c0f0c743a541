package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/backup"
	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/salvage"
)

// RecoverReport says what [Recover] found, and what it could not recover.
type RecoverReport struct {
	Damage   []Damage    `json:"damage"`   // of the source store, including recorded damage
	Records  int64       `json:"records"`  // entries read, including older versions of keys
	Lost     int64       `json:"lost"`     // records with unreadable values
	Check    CheckReport `json:"check"`    // of the new store
	Findings []Finding   `json:"findings"` // what the new store lacks, exchange by exchange
}

// Recover makes a new store in opts.Dir, which must be empty or missing, from everything readable in the store in from.
// That store stays unchanged and must not be in use. Derived data is repaired, and the search index is built when the
// new store is first served. If a table or the manifest is lost, recently erased data may be back; the report says so.
func Recover(ctx context.Context, opts Options, from string) (*RecoverReport, error) {
	unlock, err := files.LockExisting(from)
	if err != nil {
		return nil, err
	}
	defer unlock()
	if entries, err := os.ReadDir(opts.Dir); err == nil && len(entries) > 0 {
		return nil, fmt.Errorf("%s is not empty: the directory for the new store must be empty or must not exist", opts.Dir)
	}
	if err := os.MkdirAll(opts.Dir, 0o700); err != nil {
		return nil, err
	}
	found, err := files.Examine(from)
	if err != nil {
		return nil, err
	}
	r := &recovery{from: from, opts: opts, report: &RecoverReport{Findings: []Finding{}}, accounts: make(map[kv.AccountNumber]bool), files: make(map[uint32]*os.File), lost: make(map[string]lostValue)}
	defer r.close()
	r.report.Damage = append(Damages(from), found.Damage()...)
	if slices.ContainsFunc(found.Fatal, losesDeletions) {
		r.report.Damage = append(r.report.Damage, Damage{
			File: files.DatabaseDir, Problem: "what was erased shortly before can be there again: erase it once more (mneme audit list says what was erased)",
		})
	}
	if err := r.copyKey(); err != nil {
		return nil, err
	}
	if err := r.copyDatabase(ctx, found); err != nil {
		return nil, err
	}
	s, err := Open(opts)
	if err != nil {
		return nil, fmt.Errorf("open the recovered store: %w", err)
	}
	r.report.Check, err = s.Upkeep().Check(ctx, true, func(f Finding) { r.report.Findings = append(r.report.Findings, f) })
	return r.report, errors.Join(err, s.Close())
}

// losesDeletions reports whether entries that delete others may have been lost: tables hold them, and without the
// manifest it is unknown which tables were replaced.
func losesDeletions(d Damage) bool {
	return filepath.Ext(d.File) == ".sst" || filepath.Base(d.File) == badger.ManifestFilename
}

// recovery is a run of [Recover].
type recovery struct {
	from   string
	opts   Options
	report *RecoverReport

	batch    *badger.WriteBatch
	accounts map[kv.AccountNumber]bool // that have data
	newest   uint64                    // version
	unkeyed  bool                      // the master key is lost, and so is what it sealed
	files    map[uint32]*os.File       // value logs; nil: missing
	lost     map[string]lostValue      // the newest entry with an unreadable value, by key
}

// lostValue is an entry with an unreadable value. Another entry of the same version may lead to a readable one: garbage
// collection moves values, and entries that lead to removed logs remain for a while.
type lostValue struct {
	version uint64
	file    uint32 // number of the value log
}

// newer reports whether an entry is newer than another one of the same key: values move to newer logs.
func (v lostValue) newer(than lostValue) bool {
	return v.version > than.version || v.version == than.version && v.file > than.file
}

func (r *recovery) close() {
	for _, file := range r.files {
		_ = file.Close()
	}
}

// copyKey copies the master key. Only the credentials of providers are lost without it.
func (r *recovery) copyKey() error {
	if r.opts.MasterKey != nil {
		return nil
	}
	key, err := identity.ReadKey(filepath.Join(r.from, identity.MasterKeyFile))
	if err != nil {
		r.unkeyed = true
		r.report.Damage = append(r.report.Damage, Damage{File: identity.MasterKeyFile, Problem: "it cannot be read: " + newKeyMade})
		_, err := identity.MakeKey(filepath.Join(r.opts.Dir, identity.MasterKeyFile))
		return err
	}
	if err := identity.WriteKeyFile(filepath.Join(r.opts.Dir, identity.MasterKeyFile), key); err != nil {
		return err
	}
	if next, err := identity.ReadKey(filepath.Join(r.from, identity.NextKeyFile)); err == nil {
		return identity.WriteKeyFile(filepath.Join(r.opts.Dir, identity.NextKeyFile), next)
	}
	return nil
}

func (r *recovery) copyDatabase(ctx context.Context, found *files.Survey) error {
	db, err := files.OpenManaged(badgerOptions(r.opts), r.opts.Log)
	if err != nil {
		return err
	}
	r.batch = db.NewManagedWriteBatch()
	defer r.batch.Cancel()
	err = r.copyFiles(ctx, found)
	if err == nil {
		err = r.batch.Flush()
	}
	if err == nil {
		err = r.complete(db)
	}
	return errors.Join(err, db.Close())
}

// copyFiles reads tables and the logs of memory tables. The versions of keys are kept, so their order does not matter.
func (r *recovery) copyFiles(ctx context.Context, found *files.Survey) error {
	unsure := slices.ContainsFunc(found.Fatal, func(d Damage) bool { return filepath.Base(d.File) == badger.ManifestFilename })
	entries, err := os.ReadDir(filepath.Join(r.from, files.DatabaseDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := ctx.Err(); err != nil {
			return err
		}
		path := filepath.Join(r.from, files.DatabaseDir, e.Name())
		switch filepath.Ext(e.Name()) {
		case ".sst":
			if slices.Contains(found.Leftover, e.Name()) && !unsure {
				continue
			}
			_, err = salvage.ReadTable(path, r.copy)
		case ".mem":
			_, err = salvage.ReadCommits(path, func(c salvage.Commit) error {
				for i := range c.Entries {
					if err := r.copy(&c.Entries[i]); err != nil {
						return err
					}
				}
				return nil
			})
		}
		if err != nil {
			return fmt.Errorf("copy %s: %w", e.Name(), err)
		}
	}
	return nil
}

// copy copies an entry, unless its value is unreadable.
func (r *recovery) copy(e *salvage.Entry) error {
	if len(e.Key) == 0 || e.Key[0] == '!' || r.dropped(e.Key) {
		return nil
	}
	r.report.Records++
	r.newest = max(r.newest, e.Version)
	if n, ok := accountOf(e.Key); ok {
		r.accounts[n] = true
	}
	key := slices.Clone(e.Key)
	if e.Deleted() {
		return r.batch.DeleteAt(key, e.Version)
	}
	value := slices.Clone(e.Value)
	if p, ok := e.Pointer(); ok {
		record, err := r.value(p)
		if err != nil {
			return err
		}
		if record == nil || record.Version != e.Version || !bytes.Equal(record.Key, e.Key) {
			if v := (lostValue{e.Version, p.File}); v.newer(r.lost[string(key)]) {
				r.lost[string(key)] = v
			}
			return nil
		}
		value = slices.Clone(record.Value)
	}
	return r.batch.SetEntryAt(badger.NewEntry(key, value).WithMeta(e.UserMeta), e.Version)
}

// dropped reports whether a record belongs to the old store only.
func (r *recovery) dropped(key []byte) bool {
	if key[0] == kv.SpaceMeta {
		name := string(key[1:])
		return name == string(backup.MarkKey[1:]) || name == string(files.CommitKey[1:]) || r.unkeyed && (name == "master" || name == "format")
	}
	return r.unkeyed && key[0] == kv.SpaceCredential
}

// accountOf returns the account whose data a key belongs to.
func accountOf(key []byte) (kv.AccountNumber, bool) {
	switch key[0] {
	case kv.SpaceMeta, kv.SpaceAccount, kv.SpaceKey, kv.SpaceKeyUse, kv.SpaceChange, kv.SpaceAudit:
		return 0, false
	}
	if len(key) < 5 {
		return 0, false
	}
	return kv.AccountNumber(binary.BigEndian.Uint32(key[1:])), true
}

func (r *recovery) value(p salvage.Pointer) (*salvage.Record, error) {
	file, known := r.files[p.File]
	if !known {
		var err error
		file, err = os.Open(filepath.Join(r.from, files.DatabaseDir, fmt.Sprintf("%06d.vlog", p.File)))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
		r.files[p.File] = file
	}
	if file == nil {
		return nil, nil
	}
	return salvage.ReadRecord(file, p)
}

// complete removes and counts what is lost, and restores records without which data cannot be found: accounts that have
// data.
func (r *recovery) complete(db *badger.DB) error {
	tx := db.NewTransactionAt(r.newest, false)
	defer tx.Discard()
	b := db.NewManagedWriteBatch()
	defer b.Cancel()
	lost := make(map[string]int)
	var subjects []string
	for _, name := range slices.Sorted(maps.Keys(r.lost)) {
		key, v := []byte(name), r.lost[name]
		if newestVersion(tx, key) >= v.version {
			continue
		}
		r.report.Lost++
		lost[fmt.Sprintf("%06d.vlog", v.file)]++
		if len(subjects) < files.MaxNamed {
			subjects = append(subjects, kv.SubjectOf(key))
		}
		// No older value may come back: a revoked key must not become valid again. For sessions an older record is better
		// than none, and a check corrects the counts.
		if key[0] == kv.SpaceSession {
			continue
		}
		if err := b.DeleteAt(key, v.version); err != nil {
			return err
		}
	}
	if err := b.Flush(); err != nil {
		return err
	}
	slices.Sort(subjects)
	subjects = slices.Compact(subjects)
	for file, n := range lost {
		r.report.Damage = append(r.report.Damage, Damage{
			File: filepath.Join(files.DatabaseDir, file), Problem: fmt.Sprintf("%d values are lost", n), Lost: subjects,
		})
		subjects = nil // each is named once
	}
	now := db.NewTransactionAt(r.newest, false)
	defer now.Discard()
	return errors.Join(r.completeAccounts(db, now), r.replaceWrongKey(db, now))
}

// replaceWrongKey makes a new master key if the file holds one that does not match the store. The credentials of
// providers, which are unreadable then, are left out. A key that was passed in is for the caller to correct: opening
// the recovered store says so.
func (r *recovery) replaceWrongKey(db *badger.DB, tx *badger.Txn) error {
	proof, err := kv.Get(tx, identity.ProofKey)
	if r.opts.MasterKey != nil || r.unkeyed || err != nil {
		return nil // without a proof the key is accepted, as in a new store
	}
	master, err := openMasterKey(&r.opts)
	if err != nil || master.Check(proof) == nil {
		return err
	}
	r.report.Damage = append(r.report.Damage, Damage{File: identity.MasterKeyFile, Problem: "the store was not made with it: " + newKeyMade})
	b := db.NewManagedWriteBatch()
	defer b.Cancel()
	dropped := [][]byte{identity.ProofKey, kv.NameKey(kv.SpaceMeta, "format")}
	_ = eachItemOf(tx, []byte{kv.SpaceCredential}, func(key, _ []byte) error {
		dropped = append(dropped, bytes.Clone(key))
		return nil
	})
	for _, key := range dropped {
		if err := b.DeleteAt(key, r.newest+1); err != nil {
			return err
		}
	}
	if err := os.Remove(filepath.Join(r.opts.Dir, identity.NextKeyFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := identity.MakeKey(filepath.Join(r.opts.Dir, identity.MasterKeyFile)); err != nil {
		return err
	}
	return b.Flush()
}

const newKeyMade = "a new one is made, and credentials of providers have to be set again"

// newestVersion returns the version of the newest entry of a key, which may delete it; 0: there is none.
func newestVersion(tx *badger.Txn, key []byte) uint64 {
	it := tx.NewKeyIterator(key, badger.IteratorOptions{AllVersions: true})
	defer it.Close()
	if it.Rewind(); !it.Valid() {
		return 0
	}
	return it.Item().Version()
}

// completeAccounts makes a record for accounts whose record is lost, so that their data can be reached and deleted, and
// prevents any number from being assigned twice.
func (r *recovery) completeAccounts(db *badger.DB, tx *badger.Txn) error {
	known := make(map[kv.AccountNumber]bool)
	names := make(map[string]bool)
	var last kv.AccountNumber
	err := eachItemOf(tx, []byte{kv.SpaceAccount}, func(_, value []byte) error {
		var a identity.AccountRecord
		if record.Decode(value, &a) == nil {
			known[a.Number], names[a.Name] = true, true
			last = max(last, a.Number)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if value, err := kv.Get(tx, kv.NameKey(kv.SpaceMeta, "accounts")); err == nil && len(value) == 4 {
		last = max(last, kv.AccountNumber(binary.BigEndian.Uint32(value)))
	}
	b := db.NewManagedWriteBatch()
	defer b.Cancel()
	for number := range r.accounts {
		last = max(last, number)
		if err := r.noteOpen(b, tx, number); err != nil {
			return err
		}
		if known[number] || number == 0 {
			continue
		}
		if _, err := tx.Get(kv.SpaceKeyOf(kv.SpaceDeletion, number)); err == nil {
			continue
		}
		a, there := accountFromExchanges(tx, number)
		if !there {
			continue
		}
		if !identity.IsAccountName(a.Name) || names[a.Name] {
			a.Name = fmt.Sprintf("recovered-%d", number)
		}
		names[a.Name] = true
		value, err := kv.EncodeRecord(a)
		if err != nil {
			return err
		}
		if err := b.SetEntryAt(badger.NewEntry(kv.NameKey(kv.SpaceAccount, a.Name), value), r.newest+1); err != nil {
			return err
		}
		r.report.Damage = append(r.report.Damage, Damage{
			File: files.DatabaseDir, Problem: fmt.Sprintf("the record of account %q was lost; it is there again, without its retention rule", a.Name),
		})
	}
	if err := b.SetEntryAt(badger.NewEntry(kv.NameKey(kv.SpaceMeta, "accounts"), binary.BigEndian.AppendUint32(nil, uint32(last))), r.newest+1); err != nil {
		return err
	}
	return b.Flush()
}

// noteOpen notes the open exchanges of an account, so that they are ended as interrupted: the record of their end is
// lost, or the note.
func (r *recovery) noteOpen(b *badger.WriteBatch, tx *badger.Txn, number kv.AccountNumber) error {
	return eachItemOf(tx, kv.SpaceKeyOf(kv.SpaceExchange, number), func(key, value []byte) error {
		var info record.ExchangeInfo
		_, id, ok := kv.SplitExchangeKey(key)
		if ok && record.Decode(value, &info) == nil && info.Outcome == record.OutcomeOpen {
			return b.SetEntryAt(badger.NewEntry(kv.ExchangeKey(kv.SpaceOpen, number, id), []byte{}), r.newest+1)
		}
		return nil
	})
}

// accountFromExchanges makes the record of an account from its exchanges; false: there are none.
func accountFromExchanges(tx *badger.Txn, number kv.AccountNumber) (a identity.AccountRecord, there bool) {
	a.Number = number
	_ = eachItemOf(tx, kv.SpaceKeyOf(kv.SpaceExchange, number), func(key, value []byte) error {
		there = true
		var info record.ExchangeInfo
		if _, id, ok := kv.SplitExchangeKey(key); ok && a.Created.IsZero() {
			a.Created = id.Time().UTC()
		}
		if record.Decode(value, &info) == nil && info.Account != "" {
			a.Name = info.Account
			return io.EOF
		}
		return nil
	})
	return a, there
}

// eachItemOf visits records, and skips unreadable ones.
func eachItemOf(tx *badger.Txn, prefix []byte, visit func(key, value []byte) error) error {
	for item := range kv.Items(tx, prefix, nil) {
		if value, err := item.ValueCopy(nil); err == nil {
			if err := visit(item.Key(), value); err != nil {
				return err
			}
		}
	}
	return nil
}
