package identity

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"regexp"
	"slices"
	"sync"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/redact"
)

const maxCredential = 8 << 10

var providerName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func credentialKey(account kv.AccountNumber, provider string) []byte {
	return append(kv.SpaceKeyOf(kv.SpaceCredential, account), provider...)
}

// credentialPlace is what a sealed credential is bound to.
func credentialPlace(account, provider string) string { return account + "\x00" + provider }

// Credentials are the accounts' credentials at providers. They are never recorded.
type Credentials struct {
	db       kv.DB
	accounts *AccountTable
	master   *MasterKey
	redact   *redact.Redactor // nil: nothing is masked
	log      *slog.Logger
	opened   openedCredentials
}

// NewCredentials returns the credentials of accounts, sealed with the master key. redactor masks them by value; nil:
// nothing is masked.
func NewCredentials(db kv.DB, accounts *AccountTable, master *MasterKey, redactor *redact.Redactor, log *slog.Logger) *Credentials {
	return &Credentials{db: db, accounts: accounts, master: master, redact: redactor, log: log}
}

// Set stores the account's own credential for a provider, encrypted, replacing an earlier one.
func (s *Credentials) Set(account, provider, secret string) error {
	number, ok := s.accounts.Find(account)
	switch {
	case !ok:
		return codec.Errorf(codec.KindNotFound, "no account %q", account)
	case s.accounts.terms.own() != nil:
		return s.accounts.terms.own()
	case !providerName.MatchString(provider):
		return codec.Invalid("provider", "%q is not a provider's name", provider)
	case secret == "" || len(secret) > maxCredential:
		return codec.Invalid("secret", "a credential has 1 to %d characters", maxCredential)
	}
	s.master.mu.RLock()
	defer s.master.mu.RUnlock()
	sealed := s.master.seal.seal(secret, credentialPlace(account, provider))
	if shared := s.accounts.terms.shared.Load(); shared != nil {
		return shared.change(context.Background(), func() ([]RosterChange, error) { return shared.credential(account, provider, sealed), nil })
	}
	defer s.opened.forget(credentialName{number, provider})
	err := s.db.UpdateOf(context.Background(), number, func(tx kv.Txn) error {
		tx.Put(credentialKey(number, provider), sealed)
		return nil
	})
	if err != nil {
		return kv.AsStorageError(err, "the credential could not be stored")
	}
	return nil
}

// Remove deletes the account's credential for a provider; [codec.KindNotFound] if there is none.
func (s *Credentials) Remove(account, provider string) error {
	number, ok := s.accounts.Find(account)
	if !ok {
		return codec.Errorf(codec.KindNotFound, "no account %q", account)
	}
	if err := s.accounts.terms.own(); err != nil {
		return err
	}
	missing := codec.Errorf(codec.KindNotFound, "account %q has no credential for %q", account, provider)
	if shared := s.accounts.terms.shared.Load(); shared != nil {
		if list, err := s.List(account); err != nil || !slices.Contains(list, provider) {
			return cmp.Or[error](err, missing)
		}
		return shared.change(context.Background(), func() ([]RosterChange, error) { return shared.credential(account, provider, nil), nil })
	}
	defer s.opened.forget(credentialName{number, provider})
	err := s.db.Update(context.Background(), func(tx kv.Txn) error {
		key := credentialKey(number, provider)
		if !tx.Has(key) {
			return missing
		}
		tx.Put(key, nil)
		return nil
	})
	if err != nil {
		return kv.AsStorageError(err, "the credential could not be removed")
	}
	return nil
}

// Get returns the account's credential for a provider; ok is false if there is none.
func (s *Credentials) Get(account, provider string) (secret string, ok bool, err error) {
	number, known := s.accounts.Find(account)
	if !known {
		return "", false, nil
	}
	name := credentialName{number, provider}
	opened, changes, known := s.opened.look(name)
	if known {
		return opened.secret, opened.set, nil
	}
	if opened, err = s.open(name, credentialPlace(account, provider)); err != nil {
		return "", false, kv.StorageError(err, "the credential of account %q for %q cannot be read: set it again", account, provider)
	}
	s.opened.keep(name, opened, changes)
	return opened.secret, opened.set, nil
}

func (s *Credentials) open(name credentialName, place string) (openedCredential, error) {
	s.master.mu.RLock()
	defer s.master.mu.RUnlock()
	var sealed []byte
	err := s.db.View(func(tx *badger.Txn) (err error) {
		sealed, err = kv.Get(tx, credentialKey(name.account, name.provider))
		return err
	})
	if errors.Is(err, badger.ErrKeyNotFound) {
		return openedCredential{}, nil
	}
	if err != nil {
		return openedCredential{}, err
	}
	secret, err := s.master.seal.open(sealed, place)
	return openedCredential{secret: secret, set: true}, err
}

// openedCredentials caches lookups, because every request needs a credential and most accounts have none of their own:
// reading that from the database costs 3 µs and wakes two of its goroutines.
//
// A change of a credential removes it from here once the change is committed, and before the caller returns.
type openedCredentials struct {
	mu      sync.RWMutex
	changes uint64 // how many credentials have been set or removed
	opened  map[credentialName]openedCredential
	masked  map[kv.AccountNumber]*maskedCredentials // of accounts
}

// maskedCredentials are all credentials of an account.
type maskedCredentials struct {
	list     []string
	redactor *redact.Redactor // masks them
}

type credentialName struct {
	account  kv.AccountNumber // numbers are not given again
	provider string
}

type openedCredential struct {
	secret string
	set    bool // false: the account is known to have none
}

// maxOpened bounds the cache, at some 100 bytes per entry.
const maxOpened = 16 << 10

// look returns the cached credential, and the number of changes so far.
func (o *openedCredentials) look(name credentialName) (c openedCredential, changes uint64, known bool) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	c, known = o.opened[name]
	return c, o.changes, known
}

// keep caches what was read from the database after changes changes; after another change it may be outdated, and is
// not kept.
func (o *openedCredentials) keep(name credentialName, c openedCredential, changes uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changes != changes {
		return
	}
	if o.opened == nil || len(o.opened) >= maxOpened {
		o.opened = make(map[credentialName]openedCredential)
	}
	o.opened[name] = c
}

func (o *openedCredentials) forget(name credentialName) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changes++
	delete(o.opened, name)
	delete(o.masked, name.account)
}

// lookMasked returns the credentials of an account, nil if unknown, and the number of changes so far.
func (o *openedCredentials) lookMasked(account kv.AccountNumber) (m *maskedCredentials, changes uint64) {
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.masked[account], o.changes
}

// keepMasked is keep for all credentials of an account.
func (o *openedCredentials) keepMasked(account kv.AccountNumber, m *maskedCredentials, changes uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changes != changes {
		return
	}
	if o.masked == nil || len(o.masked) >= maxOpened {
		o.masked = make(map[kv.AccountNumber]*maskedCredentials)
	}
	o.masked[account] = m
}

// List lists the names of the providers that the account has a credential for.
func (s *Credentials) List(account string) ([]string, error) {
	number, ok := s.accounts.Find(account)
	if !ok {
		return nil, codec.Errorf(codec.KindNotFound, "no account %q", account)
	}
	var names []string
	err := s.db.View(func(tx *badger.Txn) error {
		prefix := kv.SpaceKeyOf(kv.SpaceCredential, number)
		for item := range kv.Items(tx, prefix, nil) {
			names = append(names, string(item.Key()[len(prefix):]))
		}
		return nil
	})
	if err != nil {
		return nil, kv.StorageError(err, "the credentials of account %q cannot be listed", account)
	}
	return names, nil
}
