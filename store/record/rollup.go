package record

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
)

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
	RollupMade   = 0
	RollupErased = 1 // of all erased exchanges that began in the hour
)

const rollupVersion = 1

// Forget removes the times to the first byte of imported exchanges, which earlier versions counted.
func (r *Rollup) Forget(of *RollupOf) {
	if of.KeyID == ImportedKey {
		r.FirstByte = [firstByteSteps]int64{}
	}
}

// FirstByteBucket returns the index in [Rollup.FirstByte] of a time to the first byte.
func FirstByteBucket(took time.Duration) int {
	return min(bits.Len64(uint64((took-1)/firstByteStep)), firstByteSteps-1)
}

// Add adds other exchanges.
func (r *Rollup) Add(other *Rollup) {
	r.Requests = codec.AddCounts(r.Requests, other.Requests)
	r.Errors = codec.AddCounts(r.Errors, other.Errors)
	r.Usage.Add(&other.Usage)
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

// Add adds the tokens of others.
func (u *UsageInfo) Add(other *UsageInfo) {
	u.count(other, 1)
	u.Estimated = u.Estimated || other.Estimated
}

// count adds the tokens of others, or subtracts them if sign is -1.
func (u *UsageInfo) count(other *UsageInfo, sign int64) {
	own, others := u.Numbers(), other.Numbers()
	for i, n := range others {
		*own[i] = codec.AddCounts(*own[i], sign**n)
	}
}

// Numbers returns the counters.
func (u *UsageInfo) Numbers() [6]*int64 {
	return [...]*int64{&u.InputUncached, &u.CacheRead, &u.CacheWrite, &u.CacheLong, &u.Output, &u.Reasoning}
}

// Numbers returns the counters in storage order.
func (r *Rollup) Numbers() [13]*int64 {
	return [...]*int64{
		&r.Requests, &r.Errors,
		&r.Usage.InputUncached, &r.Usage.CacheRead, &r.Usage.CacheWrite, &r.Usage.CacheLong, &r.Usage.Output, &r.Usage.Reasoning,
		(*int64)(&r.Cost.USD), (*int64)(&r.Cost.Notional), (*int64)(&r.Cost.Saved), &r.Cost.Unpriced, &r.Cost.Estimated,
	}
}

// Encode returns the record of a rollup.
func (r *Rollup) Encode() []byte {
	value := append(make([]byte, 0, 64), rollupVersion)
	for _, n := range r.Numbers() {
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

// ErrRollup is the error for a record or key of no rollup.
var ErrRollup = errors.New("the rollup cannot be read")

// DecodeRollup reads the record of a rollup.
func DecodeRollup(value []byte) (r Rollup, err error) {
	if len(value) == 0 || value[0] != rollupVersion {
		return r, ErrRollup
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
	for _, n := range r.Numbers() {
		if !next(n) {
			return r, ErrRollup
		}
	}
	for i := range r.FirstByte {
		if len(value) == 0 {
			break
		}
		if !next(&r.FirstByte[i]) {
			return r, ErrRollup
		}
	}
	r.Usage.Estimated = r.Cost.Estimated > 0
	return r, nil
}

// AppendHourPrefix appends the prefix of the keys of an hour's rollups.
func AppendHourPrefix(dst []byte, account kv.AccountNumber, hour time.Time, kind byte) []byte {
	return append(binary.BigEndian.AppendUint32(kv.AppendSpaceKey(dst, kv.SpaceRollup, account), uint32(hour.Unix()/3600)), kind)
}

// AppendRollupKey appends the key of an exchange's rollup.
func AppendRollupKey(key []byte, account kv.AccountNumber, info *ExchangeInfo) []byte {
	key = AppendHourPrefix(key, account, info.Started, RollupMade)
	who := info.KeyID
	if !info.Imported.IsZero() {
		who = ImportedKey
	}
	model := info.ModelSent
	if model == "" {
		model = info.ModelAsked
	}
	for _, part := range [...]string{who, info.Project, info.Client(), info.Provider, model} {
		part = part[:min(len(part), MaxModelName)]
		key = append(binary.AppendUvarint(key, uint64(len(part))), part...)
	}
	return key
}

// SplitRollupKey parses a key of a rollup.
func SplitRollupKey(key []byte) (of RollupOf, kind byte, ok bool) {
	const front = 1 + 4 + 4
	if len(key) <= front {
		return of, 0, false
	}
	of.Hour = time.Unix(int64(binary.BigEndian.Uint32(key[5:]))*3600, 0).UTC()
	kind = key[front]
	rest := key[front+1:]
	if kind != RollupMade {
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

// RollupQuery asks for rollups.
type RollupQuery struct {
	Account      string    // "": all
	Since, Until time.Time // hours that begin in this range; Until is exclusive; zero: no bound
}

// Raise takes over the counters of another one that are higher.
func (r *Rollup) Raise(other *Rollup) {
	own, others := r.Numbers(), other.Numbers()
	for i := range own {
		*own[i] = max(*own[i], *others[i])
	}
	for i, n := range other.FirstByte {
		r.FirstByte[i] = max(r.FirstByte[i], n)
	}
}

// FirstExchangeID returns an id below those of all exchanges that began at or after a time.
func FirstExchangeID(t time.Time) string {
	return kv.TimeIDAt(time.UnixMilli(max(t.UnixMilli(), 0))).Text(kv.ExchangePrefix)
}

// Keys returns the key range of the query's rollups of an account; end is exclusive.
func (q *RollupQuery) Keys(account AccountNumber) (first, end []byte) {
	first = kv.SpaceKeyOf(kv.SpaceRollup, account)
	end = kv.SpaceKeyOf(kv.SpaceRollup, account+1)
	if !q.Since.IsZero() {
		first = AppendHourPrefix(nil, account, q.Since.Add(time.Hour-1), RollupMade)
	}
	if !q.Until.IsZero() {
		end = AppendHourPrefix(nil, account, q.Until.Add(time.Hour-1), RollupMade)
	}
	return first, end
}
