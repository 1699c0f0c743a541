package identity

import (
	"context"
	"encoding/binary"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Account owns exchanges, sessions, service keys and provider credentials.
type Account struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Budget            // of all its keys together
}

// AccountRecord is the stored record of an account.
type AccountRecord struct {
	Account
	Number    kv.AccountNumber `json:"number"`
	Retention *Retention       `json:"retention,omitempty"` // nil: the server's
}

var accountNames = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// IsAccountName reports whether a name is valid for an account.
func IsAccountName(name string) bool { return accountNames.MatchString(name) }

// AccountTable holds all accounts in memory.
type AccountTable struct {
	db kv.DB

	terms rosterTerms // also of what belongs to the accounts

	changing sync.Mutex // held from reading a record to storing its change

	mu     sync.RWMutex
	byName map[string]AccountRecord
}

// LoadAccounts reads the accounts of a store.
func LoadAccounts(db kv.DB) (*AccountTable, error) {
	t := &AccountTable{db: db, byName: make(map[string]AccountRecord)}
	return t, kv.EachRecord(db, []byte{kv.SpaceAccount}, func(_ []byte, record []byte) error {
		var a AccountRecord
		if err := kv.DecodeRecord(record, &a); err != nil {
			return err
		}
		t.byName[a.Name] = a
		return nil
	})
}

// Find returns the number of the account with a name.
func (t *AccountTable) Find(name string) (kv.AccountNumber, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	a, ok := t.byName[name]
	return a.Number, ok
}

// Has reports whether there is an account with the number.
func (t *AccountTable) Has(number kv.AccountNumber) bool { return t.Name(number) != "" }

// Name returns the name of an account; "" if there is none with the number.
func (t *AccountTable) Name(number kv.AccountNumber) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, a := range t.byName {
		if a.Number == number {
			return a.Name
		}
	}
	return ""
}

// Get returns the record of the account with a name.
func (t *AccountTable) Get(name string) (AccountRecord, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	a, ok := t.byName[name]
	return a, ok
}

// Put adds an account, or replaces the one with its name, after it has been stored.
func (t *AccountTable) Put(a AccountRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byName[a.Name] = a
}

// replace replaces the record with its number, if it exists.
func (t *AccountTable) replace(a AccountRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before, ok := t.byName[a.Name]; ok && before.Number == a.Number {
		t.byName[a.Name] = a
	}
}

// Remove removes an account from the table, and returns it.
func (t *AccountTable) Remove(name string) (a AccountRecord, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, ok = t.byName[name]
	delete(t.byName, name)
	return a, ok
}

// Numbers returns the numbers of all accounts, in no order.
func (t *AccountTable) Numbers() []kv.AccountNumber {
	t.mu.RLock()
	defer t.mu.RUnlock()
	numbers := make([]kv.AccountNumber, 0, len(t.byName))
	for _, a := range t.byName {
		numbers = append(numbers, a.Number)
	}
	return numbers
}

// All returns the records of all accounts, in no order.
func (t *AccountTable) All() []AccountRecord {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Values(t.byName))
}

// Number returns the number of an account; [codec.KindNotFound] if there is none of that name.
func (t *AccountTable) Number(name string) (kv.AccountNumber, error) {
	number, ok := t.Find(name)
	if !ok {
		return 0, codec.Errorf(codec.KindNotFound, "no account %q", name)
	}
	return number, nil
}

// change stores what set changes in an account. what names it in the error.
func (t *AccountTable) change(ctx context.Context, name, what string, set func(*AccountRecord) error) (AccountRecord, error) {
	if err := t.terms.own(); err != nil {
		return AccountRecord{}, err
	}
	if shared := t.terms.shared.Load(); shared != nil {
		var a AccountRecord
		err := shared.change(ctx, func() (_ []RosterChange, err error) {
			if a, err = t.changed(name, set); err != nil {
				return nil, err
			}
			c, err := shared.account(a)
			return []RosterChange{c}, err
		})
		return a, err
	}
	t.changing.Lock()
	defer t.changing.Unlock()
	a, err := t.changed(name, set)
	if err != nil {
		return a, err
	}
	if err := t.db.UpdateOf(ctx, a.Number, func(tx kv.Txn) error { return putAccount(tx, a) }); err != nil {
		return a, kv.AsStorageError(err, "the %s could not be stored", what)
	}
	t.replace(a)
	return a, nil
}

// changed returns the record of an account as it becomes.
func (t *AccountTable) changed(name string, set func(*AccountRecord) error) (AccountRecord, error) {
	a, ok := t.Get(name)
	if !ok {
		return a, codec.Errorf(codec.KindNotFound, "no account %q", name)
	}
	err := set(&a)
	return a, err
}

// Accounts are the owners of memory, with their budgets.
type Accounts struct{ table *AccountTable }

// Accounts returns the operations on accounts.
func (t *AccountTable) Accounts() Accounts { return Accounts{t} }

// Create creates an account. A name is 1 to 64 of a-z, 0-9, '.', '_' and '-', and begins with a letter or digit. The
// error for an existing name is [codec.KindConflict].
func (s Accounts) Create(name string) (Account, error) {
	if err := s.table.terms.own(); err != nil {
		return Account{}, err
	}
	if !IsAccountName(name) {
		return Account{}, codec.Invalid("name", "%q is not an account name: use 1 to 64 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit", name)
	}
	account := AccountRecord{Account: Account{Name: name, Created: time.Now().UTC()}}
	free := func() error {
		if _, taken := s.table.Find(name); taken {
			return codec.Errorf(codec.KindConflict, "account %q exists already", name)
		}
		return nil
	}
	if shared := s.table.terms.shared.Load(); shared != nil {
		return account.Account, shared.change(context.Background(), func() ([]RosterChange, error) {
			if err := free(); err != nil {
				return nil, err
			}
			c, err := shared.account(account)
			return []RosterChange{c}, err
		})
	}
	if err := free(); err != nil {
		return Account{}, err
	}
	err := s.table.db.Update(context.Background(), func(tx kv.Txn) error {
		if tx.Has(kv.NameKey(kv.SpaceAccount, name)) {
			return codec.Errorf(codec.KindConflict, "account %q exists already", name)
		}
		account.Number = nextAccount(tx)
		return putAccount(tx, account)
	})
	if err != nil {
		return Account{}, kv.AsStorageError(err, "account %q could not be created", name)
	}
	s.table.Put(account)
	return account.Account, nil
}

// nextAccount assigns a number.
func nextAccount(tx kv.Txn) kv.AccountNumber {
	key, number := kv.NameKey(kv.SpaceMeta, "accounts"), uint32(1)
	if last := tx.Get(key); len(last) == 4 {
		number += binary.BigEndian.Uint32(last)
	}
	tx.Put(key, binary.BigEndian.AppendUint32(nil, number))
	return kv.AccountNumber(number)
}

func putAccount(tx kv.Txn, a AccountRecord) error {
	value, err := kv.EncodeRecord(a)
	if err == nil {
		tx.Put(kv.NameKey(kv.SpaceAccount, a.Name), value)
	}
	return err
}

// List lists all accounts by name.
func (s Accounts) List() []Account {
	records := s.table.All()
	accounts := make([]Account, len(records))
	for i, a := range records {
		accounts[i] = a.Account
	}
	slices.SortFunc(accounts, func(a, b Account) int { return strings.Compare(a.Name, b.Name) })
	return accounts
}

// Budget returns an account's budget.
func (s Accounts) Budget(account string) Budget {
	a, _ := s.table.Get(account)
	return a.Budget
}

// SetBudget sets an account's budget, from the next request on.
func (s Accounts) SetBudget(ctx context.Context, account string, set func(*Budget)) (Account, error) {
	a, err := s.table.change(ctx, account, "budget", func(a *AccountRecord) error {
		set(&a.Budget)
		return a.Budget.check()
	})
	if err != nil {
		return Account{}, err
	}
	return a.Account, nil
}

// Number returns the number of an account; [codec.KindNotFound] if there is none of that name.
func (s Accounts) Number(account string) (kv.AccountNumber, error) { return s.table.Number(account) }

// Retention bounds what is kept of an account. A zero member is no bound.
type Retention struct {
	MaxAge   time.Duration `json:"max_age,omitempty"`   // since an exchange began, or was imported
	MaxBytes int64         `json:"max_bytes,omitempty"` // in the database; the oldest exchanges go first
}

// SetRetention sets an account's own rules; nil restores the server's.
func (s Accounts) SetRetention(ctx context.Context, account string, r *Retention) error {
	if r != nil && (r.MaxAge < 0 || r.MaxBytes < 0) {
		return codec.Errorf(codec.KindInvalidRequest, "a retention rule cannot be negative")
	}
	_, err := s.table.change(ctx, account, "retention rule", func(a *AccountRecord) error {
		a.Retention = r
		return nil
	})
	return err
}
