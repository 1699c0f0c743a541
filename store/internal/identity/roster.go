package identity

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/badger/v4"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/wake"
)

// Roster is who may use a store, and on which terms: accounts with their budgets and retention, service keys, and the sealed
// credentials of accounts. The centre of a cluster gives its roster out, and edges follow it.
//
// One goroutine follows. The other methods may be called by any.
type Roster struct {
	db          kv.DB
	accounts    *AccountTable
	keys        *KeyTable
	credentials *Credentials
	master      *MasterKey
	changed     wake.Signal // the own one may have changed
}

// LoadRoster reads what is followed, where something is.
func LoadRoster(db kv.DB, accounts *AccountTable, keys *KeyTable, credentials *Credentials, master *MasterKey) (*Roster, error) {
	r := &Roster{db: db, accounts: accounts, keys: keys, credentials: credentials, master: master, changed: wake.New()}
	err := db.View(func(tx *badger.Txn) error {
		_, err := tx.Get(SharedKey)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err == nil {
			r.Share(nil)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return r, kv.EachRecord(db, givenKey(rosterKey), func(key, _ []byte) error {
		if k, ok := keys.byID[string(key[len(givenKey(rosterKey)):])]; ok {
			k.given = true
			keys.put(k)
		}
		return nil
	})
}

// RosterEntry is one account, key or credential, in a form that does not depend on the numbers of a store.
type RosterEntry struct {
	Name  string // which it is; no other entry has it
	Value []byte // nil: it is there no more
}

// Kinds of entries: their names begin with one of these. There is one entry of the last kind, the proof of the master key that
// has sealed the credentials.
const (
	rosterAccount    = "account/"    // and its name
	rosterKey        = "key/"        // and its id
	rosterCredential = "credential/" //nolint:gosec // and account/provider: a name, and no credential
	rosterMaster     = "master"
)

// rosterTerms are how the accounts and keys of a store depend on another's roster.
type rosterTerms struct {
	follows atomic.Bool // it is followed: nothing of it is changed here, unless it is shared
	shared  atomic.Pointer[sharing]
	offline atomic.Bool  // it is shared, and shared is nil
	until   atomic.Int64 // from when on its keys open nothing any more, in nanoseconds since 1970; 0: never
}

var (
	errOtherAccount = errors.New("an account of that name was deleted at the centre, and has its data here; delete it here, too: mneme account delete")
	errRosterEntry  = errors.New("an entry of the roster is not what it should be")

	// ErrOtherMasterKey is the error of a roster whose credentials this store cannot open.
	ErrOtherMasterKey = errors.New("the centre seals credentials with another master key; give this node the centre's, as MNEME_MASTER_KEY or as the file master.key")

	errFollows = codec.Errorf(codec.KindConflict,
		"this is an edge: accounts, keys, credentials and retention are those of its cluster's centre; change them there, and they hold here within seconds")
)

// LastOfRoster is the name of the entry that stands last: a roster without it is not all there.
const LastOfRoster = rosterMaster

// Changed is signaled when the roster may have changed since Entries was last called.
func (r *Roster) Changed() <-chan struct{} { return r.changed }

// Note signals a change where a key that was put leads to something of the roster. It follows the commit.
func (r *Roster) Note(key []byte) {
	if key[0] != kv.SpaceAccount && key[0] != kv.SpaceKey && key[0] != kv.SpaceCredential {
		return
	}
	r.changed.Notify()
}

// Entries returns the whole roster, accounts before what belongs to them.
func (r *Roster) Entries() (entries []RosterEntry, err error) {
	add := func(name string, value []byte) { entries = append(entries, RosterEntry{name, value}) }
	err = r.db.View(func(tx *badger.Txn) error {
		var accounts []AccountRecord
		err := kv.EachValue(context.Background(), tx, []byte{kv.SpaceAccount}, func(_, value []byte) error {
			var a AccountRecord
			if err := kv.DecodeRecord(value, &a); err != nil {
				return err
			}
			accounts = append(accounts, a)
			return nil
		})
		for _, a := range accounts {
			given := a
			given.Number = 0
			value, failed := kv.EncodeRecord(given)
			err = errors.Join(err, failed)
			add(rosterAccount+a.Name, value)
		}
		if err != nil {
			return err
		}
		err = kv.EachValue(context.Background(), tx, []byte{kv.SpaceKey}, func(key, value []byte) error {
			add(rosterKey+string(key[1:]), bytes.Clone(value))
			return nil
		})
		for i := range accounts {
			err = errors.Join(err, eachCredential(tx, &accounts[i], func(key []byte, place string) error {
				sealed, err := kv.Get(tx, key)
				add(rosterCredential+strings.ReplaceAll(place, "\x00", "/"), sealed)
				return err
			}))
		}
		proof, failed := kv.Get(tx, ProofKey)
		add(rosterMaster, proof)
		return errors.Join(err, failed)
	})
	if err != nil {
		return nil, kv.StorageError(err, "accounts and keys cannot be read; run mneme check")
	}
	return entries, nil
}

// Begin has the store follow another's roster: from here on nothing of it is changed here.
func (r *Roster) Begin() { r.accounts.terms.follows.Store(true) }

// Expire sets from when on the keys that were followed open nothing any more; zero: never.
func (r *Roster) Expire(at time.Time) {
	until := int64(0)
	if !at.IsZero() {
		until = at.UnixNano()
	}
	r.accounts.terms.until.Store(until)
}

var heardKey = kv.NameKey(kv.SpaceMeta, "heard")

// Heard is what [Roster.Hear] has noted; zero: nothing yet.
func (r *Roster) Heard() (at time.Time, err error) {
	err = r.db.View(func(tx *badger.Txn) error {
		value, err := kv.Get(tx, heardKey)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err == nil && len(value) != 8 {
			err = errRosterEntry
		}
		if err == nil {
			at = time.UnixMilli(int64(binary.BigEndian.Uint64(value)))
		}
		return err
	})
	if err != nil {
		return at, kv.StorageError(err, "when the centre was last heard cannot be read; run mneme check")
	}
	return at, nil
}

// Hear notes when the centre was last heard.
func (r *Roster) Hear(ctx context.Context, at time.Time) error {
	err := r.db.Update(ctx, func(tx kv.Txn) error {
		tx.Put(heardKey, binary.BigEndian.AppendUint64(nil, uint64(at.UnixMilli())))
		return nil
	})
	if err != nil {
		return kv.AsStorageError(err, "when the centre was last heard could not be noted")
	}
	return nil
}

// outdated reports whether what is followed is too old to be believed.
func (t *rosterTerms) outdated(now time.Time) bool {
	until := t.until.Load()
	return until != 0 && now.UnixNano() > until
}

// errOutdated is the error of a key that was followed, while what is followed is too old.
func errOutdated() error {
	e := codec.Errorf(codec.KindOverloaded, "this node has not heard of the cluster's centre for longer than cluster.identity_max_age, and does not know whether this key still holds")
	e.RetryAfter = 10 * time.Second
	return e
}

// given returns the stored value of an account of the followed roster; nil if the roster has no account of this name.
func given(tx kv.Txn, account string) []byte {
	value := tx.Get(givenKey(rosterAccount + account))
	if len(value) != givenAccount || [16]byte(value) == [16]byte{} {
		return nil
	}
	return value
}

// own refuses what would change a roster that is followed.
func (t *rosterTerms) own() error {
	switch {
	case !t.follows.Load() || t.shared.Load() != nil:
		return nil
	case t.offline.Load():
		return errShared
	}
	return errFollows
}

// Release forgets that an account was followed, as part of its deletion, unless the centre still has it.
func (r *Roster) Release(tx kv.Txn, account string) error {
	if err := r.accounts.terms.own(); err != nil && given(tx, account) != nil {
		return err
	}
	tx.Put(givenKey(rosterAccount+account), nil)
	return nil
}

func givenKey(name string) []byte { return kv.NameKey(kv.SpaceGiven, name) }

// followBatch is how many entries are taken over in one commit.
const followBatch = 500

// Follow takes over entries of the roster that is followed; whole says that they are all of it, and that what was followed
// before and is not among them is gone. What was made here stays, but for what has the same name. An account that is gone keeps
// its data; its keys are gone. An entry
// that cannot be taken is left as it is, and the error says so once the others are taken; [ErrOtherMasterKey] is that of
// credentials.
func (r *Roster) Follow(ctx context.Context, entries []RosterEntry, whole bool) error {
	r.keys.changing.Lock()
	defer r.keys.changing.Unlock()
	r.accounts.changing.Lock()
	defer r.accounts.changing.Unlock()
	r.master.mu.RLock()
	defer r.master.mu.RUnlock()
	if whole {
		gone, err := r.notAmong(entries)
		if err != nil {
			return err
		}
		entries = slices.Concat(entries, gone)
	}
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b RosterEntry) int { return cmp.Compare(rank(a.Name), rank(b.Name)) })
	opens := &sealer{aead: r.master.seal.aead, previous: r.master.before}
	var leftOut error
	for batch := range slices.Chunk(entries, followBatch) {
		f := following{Roster: r, sealer: opens}
		if err := f.commit(ctx, batch); err != nil {
			return err
		}
		leftOut = cmp.Or(leftOut, f.leftOut)
	}
	return leftOut
}

// rank orders accounts before what belongs to them.
func rank(name string) int {
	if strings.HasPrefix(name, rosterAccount) {
		return 0
	}
	return 1
}

// notAmong returns the entries followed before that are not among entries, as deleted ones.
func (r *Roster) notAmong(entries []RosterEntry) (gone []RosterEntry, err error) {
	names := make(map[string]bool, len(entries))
	for _, e := range entries {
		names[e.Name] = true
	}
	err = kv.EachRecord(r.db, []byte{kv.SpaceGiven}, func(key, _ []byte) error {
		if name := string(key[1:]); !names[name] {
			gone = append(gone, RosterEntry{Name: name})
		}
		return nil
	})
	if err != nil {
		return nil, kv.StorageError(err, "accounts and keys cannot be read; run mneme check")
	}
	return gone, nil
}

// following is a batch of entries on its way into the store.
type following struct {
	*Roster
	sealer    *sealer // opens what is sealed with the master key before, too: the centre may get the present one after this node
	arrived   []AccountRecord
	valid     []keyRecord
	withdrawn []string // ids of keys
	opened    []credentialName
	leftOut   error // why an entry is left out; nil: none is
}

// commit makes the entries durable, and then effective.
func (f *following) commit(ctx context.Context, entries []RosterEntry) error {
	err := f.db.Update(ctx, func(tx kv.Txn) error {
		for _, e := range entries {
			if err := f.take(tx, e); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return kv.AsStorageError(err, "accounts and keys of the centre could not be stored")
	}
	for _, a := range f.arrived {
		f.accounts.Put(a)
	}
	table := f.keys
	table.mu.Lock()
	for _, k := range f.valid {
		k.use = table.byID[k.ID].use
		table.put(k)
	}
	for _, id := range f.withdrawn {
		table.drop(id)
	}
	table.mu.Unlock()
	for _, name := range f.opened {
		f.credentials.opened.forget(name)
	}
	return nil
}

// take stores an entry that is not stored yet.
func (f *following) take(tx kv.Txn, e RosterEntry) error {
	sum := blake3.Sum256(e.Value)
	if e.Value != nil && bytes.HasPrefix(tx.Get(givenKey(e.Name)), sum[:16]) {
		return nil
	}
	if account, ok := strings.CutPrefix(e.Name, rosterAccount); ok {
		if err := f.takeAccount(tx, account, e.Value, sum); err != nil {
			f.leftOut = fmt.Errorf("account %s is left out: %w", account, err)
		}
		return nil
	}
	taken, err := true, errRosterEntry
	if id, ok := strings.CutPrefix(e.Name, rosterKey); ok {
		err = f.takeKey(tx, id, e.Value)
	} else if place, ok := strings.CutPrefix(e.Name, rosterCredential); ok {
		taken, err = f.takeCredential(tx, place, e.Value)
	} else if e.Name == rosterMaster {
		taken, err = false, nil
		if e.Value != nil && !f.proves(e.Value) {
			f.leftOut = ErrOtherMasterKey
		}
	}
	if err != nil {
		f.leftOut = fmt.Errorf("%s is left out: %w", e.Name, err)
		return nil
	}
	switch {
	case e.Value == nil:
		tx.Put(givenKey(e.Name), nil)
	case taken:
		tx.Put(givenKey(e.Name), sum[:16])
	}
	return nil
}

// What is kept of an account that was taken over: the hash of its entry, of zeroes once it is gone, and when it was created.
// Another account of the name of one that is gone is not to find the data of that.
const givenAccount = 16 + 8

// proves reports whether a proof was made with the master key of this node, or the one before it.
func (f *following) proves(proof []byte) bool {
	_, err := f.sealer.open(proof, masterKeyProof)
	return err == nil
}

func (f *following) takeAccount(tx kv.Txn, name string, value []byte, sum [32]byte) error {
	key := givenKey(rosterAccount + name)
	prior := tx.Get(key)
	if len(prior) != givenAccount {
		prior = nil
	}
	if value == nil {
		if prior != nil {
			tx.Put(key, append(make([]byte, 16), prior[16:]...))
		}
		return nil
	}
	var a AccountRecord
	if kv.DecodeRecord(value, &a) != nil || a.Name != name || !IsAccountName(name) || a.Budget.check() != nil {
		return errRosterEntry
	}
	given := binary.BigEndian.AppendUint64(sum[:16], uint64(a.Created.UnixNano()))
	if prior != nil && !bytes.Equal(prior[16:], given[16:]) {
		return errOtherAccount
	}
	var before AccountRecord
	switch stored := tx.Get(kv.NameKey(kv.SpaceAccount, name)); {
	case stored == nil:
		a.Number = nextAccount(tx)
	case kv.DecodeRecord(stored, &before) != nil:
		return errRosterEntry
	default:
		a.Number = before.Number
	}
	f.arrived = append(f.arrived, a)
	tx.Put(key, given)
	return putAccount(tx, a)
}

func (f *following) takeKey(tx kv.Txn, id string, value []byte) error {
	if value == nil {
		f.withdrawn = append(f.withdrawn, id)
		tx.Put(kv.NameKey(kv.SpaceKey, id), nil)
		tx.Put(kv.NameKey(kv.SpaceKeyUse, id), nil)
		return nil
	}
	k := keyRecord{given: true}
	if kv.DecodeRecord(value, &k) != nil || k.ID != id || len(k.Hash) != sha256.Size || k.Scopes&^(AllScopes|ScopeOperator) != 0 || k.Limits.check() != nil {
		return errRosterEntry
	}
	if given(tx, k.Account) == nil {
		return errOtherAccount
	}
	f.valid = append(f.valid, k)
	tx.Put(kv.NameKey(kv.SpaceKey, id), value)
	return nil
}

// takeCredential reports whether the credential is taken: one that this store cannot open is not.
func (f *following) takeCredential(tx kv.Txn, place string, sealed []byte) (taken bool, err error) {
	account, provider, ok := strings.Cut(place, "/")
	if !ok || !providerName.MatchString(provider) {
		return false, errRosterEntry
	}
	number, ok := f.accounts.Find(account)
	for _, a := range f.arrived {
		if a.Name == account {
			number, ok = a.Number, true
		}
	}
	if !ok {
		return false, nil
	}
	if sealed != nil {
		if given(tx, account) == nil {
			return false, errOtherAccount
		}
		fresh, err := f.sealer.reseal(sealed, credentialPlace(account, provider))
		if err != nil {
			f.leftOut = ErrOtherMasterKey
			return false, nil //nolint:nilerr // it is left out, which Follow says
		}
		if fresh != nil {
			sealed = fresh
		}
	}
	f.opened = append(f.opened, credentialName{number, provider})
	tx.Put(credentialKey(number, provider), sealed)
	return true, nil
}
