package pack

import (
	"github.com/mnemeproxy/mneme/store/internal/cache"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// values holds recently written or read values.
type values struct{ cache.Map[spot, []byte] }

// spot is where a record begins. Packs are written once, so a spot always has the same value.
type spot struct {
	account kv.AccountNumber
	pack    ID
	at      int
}

// newValues returns the values of a generation of most bytes.
func newValues(most int) values {
	return values{cache.Map[spot, []byte]{Most: most, Size: sizeOf}}
}

// sizeOf returns the bytes that a value takes, with the approximate overhead of an entry.
func sizeOf(value []byte) int { return len(value) + 128 }

// put adds a value, which must not be changed afterwards.
func (v *values) put(at spot, value []byte) {
	if sizeOf(value) <= v.Most/4 {
		v.Put(at, value)
	}
}

// forget drops the values of a pack: deleted data must not be served.
func (v *values) forget(account kv.AccountNumber, pack ID) {
	v.DeleteFunc(func(at spot) bool { return at.account == account && at.pack == pack })
}
