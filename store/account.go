package store

import (
	"context"
	"encoding/binary"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Account owns exchanges, sessions, service keys and provider credentials.
type Account struct {
	Name    string    `json:"name"`
	Created time.Time `json:"created"`
	Budget            // of all its keys together
}

type accountRecord struct {
	Account
	Number    kv.AccountNumber `json:"number"`
	Retention *Retention       `json:"retention,omitempty"` // nil: the server's
}

var accountName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// accountTable is all accounts, in memory.
type accountTable struct {
	changing sync.Mutex // held from reading a record to storing what has changed in it

	mu     sync.RWMutex
	byName map[string]accountRecord
}

func (t *accountTable) load(db *badger.DB) error {
	t.byName = make(map[string]accountRecord)
	return kv.EachRecord(db, []byte{kv.SpaceAccount}, func(_ []byte, record []byte) error {
		var a accountRecord
		if err := decodeRecord(record, &a); err != nil {
			return err
		}
		t.byName[a.Name] = a
		return nil
	})
}

func (t *accountTable) number(name string) (kv.AccountNumber, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	a, ok := t.byName[name]
	return a.Number, ok
}

// has reports whether there is an account with the number.
func (t *accountTable) has(number kv.AccountNumber) bool { return t.name(number) != "" }

// name gives the name of an account; "" if there is none with the number.
func (t *accountTable) name(number kv.AccountNumber) string {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, a := range t.byName {
		if a.Number == number {
			return a.Name
		}
	}
	return ""
}

func (t *accountTable) get(name string) (accountRecord, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	a, ok := t.byName[name]
	return a, ok
}

func (t *accountTable) put(a accountRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.byName[a.Name] = a
}

// replace puts a record in the place of the one with its number, if that is there.
func (t *accountTable) replace(a accountRecord) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if before, ok := t.byName[a.Name]; ok && before.Number == a.Number {
		t.byName[a.Name] = a
	}
}

func (t *accountTable) remove(name string) (a accountRecord, ok bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	a, ok = t.byName[name]
	delete(t.byName, name)
	return a, ok
}

func (t *accountTable) numbers() []kv.AccountNumber {
	t.mu.RLock()
	defer t.mu.RUnlock()
	numbers := make([]kv.AccountNumber, 0, len(t.byName))
	for _, a := range t.byName {
		numbers = append(numbers, a.Number)
	}
	return numbers
}

func (t *accountTable) all() []accountRecord {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Values(t.byName))
}

// Create makes an account. A name is 1 to 64 of a-z, 0-9, '.', '_' and '-', and begins with a letter or digit.
// A name that is taken is [codec.KindConflict].
func (s Accounts) Create(name string) (Account, error) {
	if !accountName.MatchString(name) {
		return Account{}, codec.Invalid("name", "%q is not an account name: use 1 to 64 of a-z, 0-9, '.', '_', '-', beginning with a letter or digit", name)
	}
	if _, taken := s.accounts.number(name); taken {
		return Account{}, codec.Errorf(codec.KindConflict, "account %q exists already", name)
	}
	account := accountRecord{Account: Account{Name: name, Created: time.Now().UTC()}}
	err := s.update(context.Background(), func(g *gathering, w *write) error {
		if g.has(kv.NameKey(kv.SpaceAccount, name)) {
			return codec.Errorf(codec.KindConflict, "account %q exists already", name)
		}
		if last := g.get(kv.NameKey(kv.SpaceMeta, "accounts")); len(last) == 4 {
			account.Number = kv.AccountNumber(binary.BigEndian.Uint32(last))
		}
		account.Number++
		value, err := encodeRecord(account)
		if err != nil {
			return err
		}
		g.put(w, kv.NameKey(kv.SpaceMeta, "accounts"), binary.BigEndian.AppendUint32(nil, uint32(account.Number)))
		g.put(w, kv.NameKey(kv.SpaceAccount, name), value)
		return nil
	})
	if err != nil {
		return Account{}, kv.AsStorageError(err, "account %q could not be created", name)
	}
	s.accounts.put(account)
	return account.Account, nil
}

// List lists all accounts by name.
func (s Accounts) List() []Account {
	records := s.accounts.all()
	accounts := make([]Account, len(records))
	for i, a := range records {
		accounts[i] = a.Account
	}
	slices.SortFunc(accounts, func(a, b Account) int { return strings.Compare(a.Name, b.Name) })
	return accounts
}

// Budget is what an account may spend.
func (s Accounts) Budget(account string) Budget {
	a, _ := s.accounts.get(account)
	return a.Budget
}

// SetBudget bounds what an account may spend, from the next request on.
func (s Accounts) SetBudget(ctx context.Context, account string, set func(*Budget)) (Account, error) {
	s.accounts.changing.Lock()
	defer s.accounts.changing.Unlock()
	a, ok := s.accounts.get(account)
	if !ok {
		return Account{}, codec.Errorf(codec.KindNotFound, "no account %q", account)
	}
	set(&a.Budget)
	if err := a.Budget.check(); err != nil {
		return Account{}, err
	}
	if err := s.putAccount(ctx, a); err != nil {
		return Account{}, kv.AsStorageError(err, "the budget could not be stored")
	}
	return a.Account, nil
}

// putAccount stores what has changed of an account.
func (s *core) putAccount(ctx context.Context, a accountRecord) error {
	value, err := encodeRecord(a)
	if err != nil {
		return err
	}
	err = s.updateOf(ctx, a.Number, func(g *gathering, w *write) error {
		g.put(w, kv.NameKey(kv.SpaceAccount, a.Name), value)
		return nil
	})
	if err == nil {
		s.accounts.replace(a)
	}
	return err
}

// Number gives the number of an account; [codec.KindNotFound] if there is none of that name.
func (s Accounts) Number(account string) (AccountNumber, error) {
	return s.numberOf(account)
}
