package codec

import (
	"math"

	"github.com/mnemeproxy/mneme/codec/scan"
)

// MaxTokens is the largest token count that is believed. It is far above what any model can read or write, and keeps the
// counts of one exchange from overflowing when they are added.
const MaxTokens = 1 << 40

// ReadTokens reads a token count that a provider or a client's history reports: a whole number from 0 to [MaxTokens].
// Anything else counts as absent.
func ReadTokens(v []byte) (n int64, ok bool) {
	n, ok = scan.Int(v)
	if !ok || n < 0 || n > MaxTokens {
		return 0, false
	}
	return n, true
}

// AddCounts adds two counts. A sum that does not fit stays at the largest or smallest number, so that totals never wrap.
func AddCounts(a, b int64) int64 {
	sum := a + b
	switch {
	case a > 0 && b > 0 && sum < 0:
		return math.MaxInt64
	case a < 0 && b < 0 && sum >= 0:
		return math.MinInt64
	}
	return sum
}

// Usage counts the tokens of an exchange. Counters are cumulative over a stream: the last report wins. Input is split
// so that it converts without loss into both styles: formats that include cached tokens in the input (chat, responses,
// gemini) and those that count them separately (messages).
type Usage struct {
	InputUncached int64 // prompt tokens that were neither read from nor written to a cache
	CacheRead     int64
	CacheWrite    int64
	CacheLong     int64 // the part of CacheWrite with the longer of the provider's two lifetimes, which costs more
	Output        int64 // includes Reasoning
	Reasoning     int64
	Tier          Tier // the service tier reported by the provider
	Estimated     bool // the provider reported nothing; these are estimates
}

// TotalInput returns the whole prompt: uncached, read from and written to caches.
func (u Usage) TotalInput() int64 {
	return AddCounts(AddCounts(u.InputUncached, u.CacheRead), u.CacheWrite)
}

// Total returns input and output together.
func (u Usage) Total() int64 { return AddCounts(u.TotalInput(), u.Output) }

// IsZero reports whether nothing was reported.
func (u Usage) IsZero() bool { return u == Usage{Tier: u.Tier} }

// SplitInput sets the input counters from a total that includes cached tokens, as chat, responses and gemini report it.
// If a provider reports the exclusive form (cached > total), the result is clamped at zero. A write count that does not
// fit next to the read count is taken as being outside the total.
func (u *Usage) SplitInput(total, read, write int64) {
	u.CacheRead, u.CacheWrite = read, write
	rest := total - read - write
	if rest < 0 {
		rest = max(total-read, 0)
	}
	u.InputUncached = rest
}
