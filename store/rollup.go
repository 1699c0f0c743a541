package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math/bits"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// The usage and cost of exchanges are rolled up when they end: into one record per hour, key, project, client and model
// of an account, written with the commit of the end. Reports sum these up without reading exchanges. The records hold
// no content, and stay when exchanges are erased; erased exchanges are counted beside them, so that [Upkeep.Check] can
// compare them with the existing exchanges.

// Rollup is the usage and cost of a number of exchanges.
type Rollup struct {
	Requests int64     `json:"requests"`
	Errors   int64     `json:"errors,omitempty"` // that ended without a complete answer, except for clients that left
	Usage    UsageInfo `json:"usage"`
	Cost     Spending  `json:"cost"`

	// FirstByte counts answers by the time to their first byte: up to 50 ms, up to 100 ms, and so on, doubling. Those of
	// imported exchanges were not measured here and do not count.
	FirstByte [firstByteSteps]int64 `json:"-"`
}

// The first step of Rollup.FirstByte, and the number of steps. The last has no upper end, and begins at 51 s.
const (
	firstByteStep  = 50 * time.Millisecond
	firstByteSteps = 12
)

// RollupOf identifies what a rollup counts.
type RollupOf struct {
	Account  string    `json:"account"`
	Hour     time.Time `json:"hour"`
	KeyID    string    `json:"key,omitempty"` // [ImportedKey]: exchanges that were imported
	Project  string    `json:"project,omitempty"`
	Client   string    `json:"client,omitempty"`
	Provider string    `json:"provider,omitempty"`
	Model    string    `json:"model,omitempty"`
}

// ImportedKey replaces a key in the rollups of imported exchanges: nothing was spent on them here.
const ImportedKey = "imported"

// Kinds of rollups, in the byte after the hour in their keys.
const (
	rollupMade   = 0
	rollupErased = 1 // of all erased exchanges that began in the hour
)

const rollupVersion = 1

// exchangeRollup returns the rollup of one exchange.
func exchangeRollup(info *ExchangeInfo) Rollup {
	r := Rollup{Requests: 1}
	switch info.Outcome {
	case OutcomeUpstreamError, OutcomeInterrupted, OutcomeStopped, OutcomeRefused:
		r.Errors = 1
	}
	r.Usage.add(&info.Usage)
	r.Cost.count(info, 1)
	if info.Imported.IsZero() && info.Outcome == OutcomeComplete && info.FirstByte.After(info.Started) {
		r.FirstByte[firstByteBucket(info.FirstByte.Sub(info.Started))]++
	}
	return r
}

// forget removes the times to the first byte of imported exchanges, which earlier versions counted.
func (r *Rollup) forget(of *RollupOf) {
	if of.KeyID == ImportedKey {
		r.FirstByte = [firstByteSteps]int64{}
	}
}

func firstByteBucket(took time.Duration) int {
	return min(bits.Len64(uint64((took-1)/firstByteStep)), firstByteSteps-1)
}

// Add adds other exchanges.
func (r *Rollup) Add(other *Rollup) {
	r.Requests = codec.AddCounts(r.Requests, other.Requests)
	r.Errors = codec.AddCounts(r.Errors, other.Errors)
	r.Usage.add(&other.Usage)
	r.Cost.add(&other.Cost)
	for i, n := range other.FirstByte {
		r.FirstByte[i] = codec.AddCounts(r.FirstByte[i], n)
	}
}

// FirstByteQuantile estimates the time to the first byte that a share q of the answers stayed within; 0 if there are
// none.
func (r *Rollup) FirstByteQuantile(q float64) time.Duration {
	var all int64
	for _, n := range r.FirstByte {
		all += n
	}
	rank := q * float64(all)
	for i, n := range r.FirstByte {
		if n == 0 || rank > float64(n) {
			rank -= float64(n)
			continue
		}
		var from time.Duration
		if i > 0 {
			from = firstByteStep << (i - 1)
		}
		to := firstByteStep << i
		return from + time.Duration(rank/float64(n)*float64(to-from))
	}
	return 0
}

// add adds the tokens of others.
func (u *UsageInfo) add(other *UsageInfo) {
	u.count(other, 1)
	u.Estimated = u.Estimated || other.Estimated
}

// count adds the tokens of others, or subtracts them if sign is -1.
func (u *UsageInfo) count(other *UsageInfo, sign int64) {
	own, others := u.numbers(), other.numbers()
	for i, n := range others {
		*own[i] = codec.AddCounts(*own[i], sign**n)
	}
}

// numbers returns the counters.
func (u *UsageInfo) numbers() [6]*int64 {
	return [...]*int64{&u.InputUncached, &u.CacheRead, &u.CacheWrite, &u.CacheLong, &u.Output, &u.Reasoning}
}

// numbers returns the counters in storage order.
func (r *Rollup) numbers() [13]*int64 {
	return [...]*int64{
		&r.Requests, &r.Errors,
		&r.Usage.InputUncached, &r.Usage.CacheRead, &r.Usage.CacheWrite, &r.Usage.CacheLong, &r.Usage.Output, &r.Usage.Reasoning,
		(*int64)(&r.Cost.USD), (*int64)(&r.Cost.Notional), (*int64)(&r.Cost.Saved), &r.Cost.Unpriced, &r.Cost.Estimated,
	}
}

func (r *Rollup) encode() []byte {
	value := append(make([]byte, 0, 64), rollupVersion)
	for _, n := range r.numbers() {
		value = binary.AppendVarint(value, *n)
	}
	last := len(r.FirstByte)
	for last > 0 && r.FirstByte[last-1] == 0 {
		last--
	}
	for _, n := range r.FirstByte[:last] {
		value = binary.AppendVarint(value, n)
	}
	return value
}

var errRollup = errors.New("the rollup cannot be read")

func decodeRollup(value []byte) (r Rollup, err error) {
	if len(value) == 0 || value[0] != rollupVersion {
		return r, errRollup
	}
	value = value[1:]
	next := func(n *int64) bool {
		var size int
		*n, size = binary.Varint(value)
		if size <= 0 {
			return false
		}
		value = value[size:]
		return true
	}
	for _, n := range r.numbers() {
		if !next(n) {
			return r, errRollup
		}
	}
	for i := range r.FirstByte {
		if len(value) == 0 {
			break
		}
		if !next(&r.FirstByte[i]) {
			return r, errRollup
		}
	}
	r.Usage.Estimated = r.Cost.Estimated > 0
	return r, nil
}

// appendHourPrefix appends the prefix of the keys of an hour's rollups.
func appendHourPrefix(dst []byte, account kv.AccountNumber, hour time.Time, kind byte) []byte {
	return append(binary.BigEndian.AppendUint32(kv.AppendSpaceKey(dst, kv.SpaceRollup, account), uint32(hour.Unix()/3600)), kind)
}

// appendRollupKey appends the key of an exchange's rollup.
func appendRollupKey(key []byte, account kv.AccountNumber, info *ExchangeInfo) []byte {
	key = appendHourPrefix(key, account, info.Started, rollupMade)
	who := info.KeyID
	if !info.Imported.IsZero() {
		who = ImportedKey
	}
	model := info.ModelSent
	if model == "" {
		model = info.ModelAsked
	}
	for _, part := range [...]string{who, info.Project, info.Client(), info.Provider, model} {
		part = part[:min(len(part), maxModelName)]
		key = append(binary.AppendUvarint(key, uint64(len(part))), part...)
	}
	return key
}

// splitRollupKey parses a key of a rollup.
func splitRollupKey(key []byte) (of RollupOf, kind byte, ok bool) {
	const front = 1 + 4 + 4
	if len(key) <= front {
		return of, 0, false
	}
	of.Hour = time.Unix(int64(binary.BigEndian.Uint32(key[5:]))*3600, 0).UTC()
	kind = key[front]
	rest := key[front+1:]
	if kind != rollupMade {
		return of, kind, true
	}
	for _, part := range [...]*string{&of.KeyID, &of.Project, &of.Client, &of.Provider, &of.Model} {
		size, n := binary.Uvarint(rest)
		if n <= 0 || uint64(len(rest)-n) < size {
			return of, kind, false
		}
		*part = strings.ToValidUTF8(string(rest[n:n+int(size)]), "\uFFFD")
		rest = rest[n+int(size):]
	}
	return of, kind, true
}

// rollUp counts an ended exchange.
func (g *commitGroup) rollUp(w *operation, account kv.AccountNumber, info *ExchangeInfo) {
	r := exchangeRollup(info)
	g.addRollup(w, g.keep(appendRollupKey(g.sought[:0], account, info)), &r)
}

// rollUpErased counts an erased exchange.
func (g *commitGroup) rollUpErased(w *operation, account kv.AccountNumber, info *ExchangeInfo) {
	r := exchangeRollup(info)
	g.addRollup(w, appendHourPrefix(nil, account, info.Started, rollupErased), &r)
}

func (g *commitGroup) addRollup(w *operation, key []byte, r *Rollup) {
	if stored := g.get(key); stored != nil {
		if before, err := decodeRollup(stored); err == nil { // otherwise it starts over, and a check says so
			r.Add(&before)
		}
	}
	g.put(w, key, r.encode())
}

// RollupQuery asks for rollups.
type RollupQuery struct {
	Account      string    // "": all
	Since, Until time.Time // hours that begin in this range; Until is exclusive; zero: no bound
}

// Rollups visits the rollups, account by account and hour by hour.
func (s Accounts) Rollups(ctx context.Context, q RollupQuery, visit func(RollupOf, *Rollup)) error {
	accounts := s.accounts.All()
	if q.Account != "" {
		a, ok := s.accounts.Get(q.Account)
		if !ok {
			_, err := s.accounts.Number(q.Account)
			return err
		}
		accounts = []identity.AccountRecord{a}
	}
	err := s.view(func(tx *badger.Txn) error {
		for _, a := range accounts {
			if err := eachRollup(ctx, tx, a.Number, &q, func(of RollupOf, r *Rollup) {
				of.Account = a.Name
				visit(of, r)
			}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return kv.AsStorageError(err, "the usage cannot be read; run mneme check")
	}
	return nil
}

func eachRollup(ctx context.Context, tx *badger.Txn, account kv.AccountNumber, q *RollupQuery, visit func(RollupOf, *Rollup)) error {
	options := badger.DefaultIteratorOptions
	options.Prefix = kv.SpaceKeyOf(kv.SpaceRollup, account)
	first := options.Prefix
	if !q.Since.IsZero() {
		first = appendHourPrefix(nil, account, q.Since.Add(time.Hour-1), rollupMade)
	}
	var end []byte
	if !q.Until.IsZero() {
		end = appendHourPrefix(nil, account, q.Until.Add(time.Hour-1), rollupMade)
	}
	for item := range kv.Scan(tx, options, first) {
		if err := ctx.Err(); err != nil {
			return err
		}
		key := item.Key()
		if end != nil && bytes.Compare(key, end) >= 0 {
			return nil
		}
		of, kind, ok := splitRollupKey(key)
		if !ok || kind != rollupMade {
			continue
		}
		if err := item.Value(func(value []byte) error {
			if r, err := decodeRollup(value); err == nil { // otherwise a check says so
				r.forget(&of)
				visit(of, &r)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}
