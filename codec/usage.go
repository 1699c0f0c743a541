package codec

// Usage counts the tokens of an exchange. Counters are cumulative over a stream: the last report wins.
// Input is split so that it converts without loss into both styles: formats that count cached tokens inside
// the input (chat, responses, gemini) and those that count them beside it (messages).
type Usage struct {
	InputUncached int64 // prompt tokens that were neither read from nor written to a cache
	CacheRead     int64
	CacheWrite    int64
	Output        int64 // includes Reasoning
	Reasoning     int64
	Estimated     bool // the provider reported nothing; the figures are ours
}

// TotalInput is the whole prompt: uncached, read from and written to caches.
func (u Usage) TotalInput() int64 { return u.InputUncached + u.CacheRead + u.CacheWrite }

// Total is input and output together.
func (u Usage) Total() int64 { return u.TotalInput() + u.Output }

// IsZero reports whether nothing was reported.
func (u Usage) IsZero() bool { return u == Usage{} }

// SplitInput sets the input counters from a total that includes cached tokens, as chat, responses and gemini
// report it. A provider that already reports the exclusive form (cached > total) is clamped at zero, and a write
// count that does not fit beside the read count is taken as being outside the total.
func (u *Usage) SplitInput(total, read, write int64) {
	u.CacheRead, u.CacheWrite = read, write
	rest := total - read - write
	if rest < 0 {
		rest = max(total-read, 0)
	}
	u.InputUncached = rest
}
