package store

import (
	"bytes"
	"time"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Rollups are rollups of an account that are made from its exchanges, by the keys of their records.
type Rollups map[string]*Rollup

// RollupReader returns the stored records under keys.
type RollupReader func(keys [][]byte) (records map[string][]byte, err error)

// Count counts an exchange.
func (u Rollups) Count(account AccountNumber, info *ExchangeInfo) {
	r, key := exchangeRollup(info), string(appendRollupKey(nil, account, info))
	if sum := u[key]; sum != nil {
		sum.Add(&r)
		return
	}
	u[key] = &r
}

// AddTo returns the records that replace stored ones once these are added to them.
func (u Rollups) AddTo(read RollupReader) (changed map[string][]byte, err error) {
	return u.join(read, (*Rollup).Add)
}

// Raise returns the records that replace stored ones that are made again from all their exchanges. None becomes lower:
// what erased exchanges have used is on record nowhere else.
func (u Rollups) Raise(read RollupReader) (changed map[string][]byte, err error) {
	return u.join(read, (*Rollup).raise)
}

// join has each rollup take over its stored one, and returns the records that differ from what is stored. A stored one
// that cannot be read is replaced.
func (u Rollups) join(read RollupReader, take func(own, stored *Rollup)) (changed map[string][]byte, err error) {
	keys := make([][]byte, 0, len(u))
	for key := range u {
		keys = append(keys, []byte(key))
	}
	records, err := read(keys)
	if err != nil {
		return nil, err
	}
	changed = make(map[string][]byte, len(u))
	for key, r := range u {
		record, ok := records[key]
		if before, err := decodeRollup(record); ok && err == nil {
			take(r, &before)
		}
		if encoded := r.encode(); !ok || !bytes.Equal(encoded, record) {
			changed[key] = encoded
		}
	}
	return changed, nil
}

// raise takes over the counters of another one that are higher.
func (r *Rollup) raise(other *Rollup) {
	own, others := r.numbers(), other.numbers()
	for i := range own {
		*own[i] = max(*own[i], *others[i])
	}
	for i, n := range other.FirstByte {
		r.FirstByte[i] = max(r.FirstByte[i], n)
	}
}

// ReadRollup reads a record of [Rollups], without the name of the account.
func ReadRollup(key, record []byte) (of RollupOf, r Rollup, err error) {
	of, kind, ok := splitRollupKey(key)
	if !ok || kind != rollupMade {
		return of, r, errRollup
	}
	r, err = decodeRollup(record)
	return of, r, err
}

// FirstExchangeID returns an id below those of all exchanges that began at or after a time.
func FirstExchangeID(t time.Time) string {
	return kv.TimeIDAt(time.UnixMilli(max(t.UnixMilli(), 0))).Text(kv.ExchangePrefix)
}
