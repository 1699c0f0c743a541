package catalog

import (
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
)

// accountsEach is how often accounts are read that other processes have created or deleted.
const accountsEach = time.Second

// accounts are the accounts in the database, whose numbers are those of the rows. Numbers are never reused. The store beside a
// centre has numbers of its own.
type accounts struct {
	mu      sync.Mutex
	numbers map[string]record.AccountNumber
}

// Number returns the number of an account; [codec.KindNotFound] if there is none.
func (a *accounts) Number(account string) (record.AccountNumber, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	number, ok := a.numbers[account]
	if !ok {
		return 0, codec.Errorf(codec.KindNotFound, "no account %q", account)
	}
	return number, nil
}

// names returns the names of all accounts, in order.
func (a *accounts) names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.numbers))
}

// nameOf returns the name of an account; "" if it was deleted.
func (a *accounts) nameOf(number record.AccountNumber) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, n := range a.numbers {
		if n == number {
			return name
		}
	}
	return ""
}
