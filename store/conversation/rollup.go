package conversation

import (
	"bytes"

	"github.com/mnemeproxy/mneme/store/record"
)

// RollupOf returns the rollup of one exchange.
func RollupOf(info *record.ExchangeInfo) record.Rollup {
	r := record.Rollup{Requests: 1}
	switch info.Outcome {
	case record.OutcomeUpstreamError, record.OutcomeInterrupted, record.OutcomeStopped, record.OutcomeRefused:
		r.Errors = 1
	}
	r.Usage.Add(&info.Usage)
	r.Cost.Count(info, 1)
	if info.Imported.IsZero() && info.Outcome == record.OutcomeComplete && info.FirstByte.After(info.Started) {
		r.FirstByte[record.FirstByteBucket(info.FirstByte.Sub(info.Started))]++
	}
	return r
}

// Rollups are rollups of an account that are made from its exchanges, by the keys of their records.
type Rollups map[string]*record.Rollup

// RollupReader returns the stored records under keys.
type RollupReader func(keys [][]byte) (records map[string][]byte, err error)

// Count counts an exchange.
func (u Rollups) Count(account record.AccountNumber, info *record.ExchangeInfo) {
	r, key := RollupOf(info), string(record.AppendRollupKey(nil, account, info))
	if sum := u[key]; sum != nil {
		sum.Add(&r)
		return
	}
	u[key] = &r
}

// AddTo returns the records that replace stored ones once these are added to them.
func (u Rollups) AddTo(read RollupReader) (changed map[string][]byte, err error) {
	return u.join(read, (*record.Rollup).Add)
}

// Raise returns the records that replace stored ones that are made again from all their exchanges. None becomes lower:
// what erased exchanges have used is on record nowhere else.
func (u Rollups) Raise(read RollupReader) (changed map[string][]byte, err error) {
	return u.join(read, (*record.Rollup).Raise)
}

// join has each rollup take over its stored one, and returns the records that differ from what is stored. A stored one
// that cannot be read is replaced.
func (u Rollups) join(read RollupReader, take func(own, stored *record.Rollup)) (changed map[string][]byte, err error) {
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
		stored, ok := records[key]
		if before, err := record.DecodeRollup(stored); ok && err == nil {
			take(r, &before)
		}
		if encoded := r.Encode(); !ok || !bytes.Equal(encoded, stored) {
			changed[key] = encoded
		}
	}
	return changed, nil
}

// ReadRollup reads a record of [Rollups], without the name of the account.
func ReadRollup(key, stored []byte) (of record.RollupOf, r record.Rollup, err error) {
	of, kind, ok := record.SplitRollupKey(key)
	if !ok || kind != record.RollupMade {
		return of, r, record.ErrRollup
	}
	r, err = record.DecodeRollup(stored)
	return of, r, err
}
