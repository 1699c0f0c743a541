package identity

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
)

// Unlimited as one of [Limits] lets a key do without a limit that the server sets for keys of no limit of their own.
const Unlimited = -1

// Limits bound what callers with one key may use. In a key's own, 0 leaves it to the server's and [Unlimited] is no limit; in the
// server's, and once joined by [Limits.Or], 0 is no limit.
type Limits struct {
	RequestsPerMinute int64 `json:"requests_per_minute,omitempty"`
	TokensPerMinute   int64 `json:"tokens_per_minute,omitempty"` // input of every kind, read from caches too, and output
	Concurrent        int64 `json:"concurrent,omitempty"`        // exchanges at a time
	TokensPerMonth    int64 `json:"tokens_per_month,omitempty"`  // counted as per minute, in a month of UTC
	Repeats           int64 `json:"repeats,omitempty"`           // the same calls with the same results in a row; the next request is refused
	StalledTokens     int64 `json:"stalled_tokens,omitempty"`    // sent by an agent that repeats itself since its last new result; likewise
	Budget
}

// Budget bounds what may be spent in a day and in a month of UTC, and within any few minutes. 0 is no bound, and in a key's
// own leaves it to the server's; [NoBudget] in a key's own is no bound.
type Budget struct {
	Day          record.USD `json:"budget_usd_day,omitempty"`
	Month        record.USD `json:"budget_usd_month,omitempty"`
	Burst        record.USD `json:"budget_usd_burst,omitempty"`
	BurstMinutes int64      `json:"burst_minutes,omitempty"` // in which Burst may be spent; 0: [BurstMinutes]
}

// Within how many minutes a burst is spent, if its budget does not say so, and at most.
const (
	BurstMinutes     = 10
	MostBurstMinutes = 24 * 60
)

// BurstWindow returns the minutes in which a burst may be spent; 0 without a bound.
func (b *Budget) BurstWindow() int64 {
	switch {
	case b.Burst <= 0:
		return 0
	case b.BurstMinutes <= 0:
		return BurstMinutes
	}
	return min(b.BurstMinutes, MostBurstMinutes)
}

// FewestRepeats is the lowest [Limits.Repeats].
const FewestRepeats = 4

// NoBudget is [Unlimited] for a budget: minus one dollar.
const NoBudget = -record.Dollar

func (b Budget) or(other Budget) Budget {
	return Budget{
		Day:   record.USD(or(int64(b.Day), int64(other.Day))),
		Month: record.USD(or(int64(b.Month), int64(other.Month))),
		Burst: record.USD(or(int64(b.Burst), int64(other.Burst))), BurstMinutes: or(b.BurstMinutes, other.BurstMinutes),
	}
}

func (b Budget) check() error {
	for _, amount := range [...]record.USD{b.Day, b.Month, b.Burst} {
		if amount < 0 && amount != NoBudget {
			return codec.Invalid("budget", "a budget is an amount of US dollars above 0, 0 for the server's own, or -1 for none")
		}
	}
	if b.BurstMinutes < 0 || b.BurstMinutes > MostBurstMinutes {
		return codec.Invalid("budget.burst_minutes", "burst_minutes is at most %d, a day; 0 is %d", MostBurstMinutes, BurstMinutes)
	}
	return nil
}

// Or returns the limits of a key: those of l that are set, otherwise others, those of the server. The result has no
// negative member.
func (l Limits) Or(others Limits) Limits {
	return Limits{
		RequestsPerMinute: or(l.RequestsPerMinute, others.RequestsPerMinute),
		TokensPerMinute:   or(l.TokensPerMinute, others.TokensPerMinute),
		Concurrent:        or(l.Concurrent, others.Concurrent),
		TokensPerMonth:    or(l.TokensPerMonth, others.TokensPerMonth),
		Repeats:           or(l.Repeats, others.Repeats),
		StalledTokens:     or(l.StalledTokens, others.StalledTokens),
		Budget:            l.Budget.or(others.Budget),
	}
}

func or(own, other int64) int64 {
	if own == 0 {
		own = other
	}
	return max(own, 0)
}

func (l Limits) check() error {
	for _, limit := range []struct {
		name  string
		value int64
	}{
		{"requests_per_minute", l.RequestsPerMinute},
		{"tokens_per_minute", l.TokensPerMinute},
		{"concurrent", l.Concurrent},
		{"tokens_per_month", l.TokensPerMonth},
		{"repeats", l.Repeats},
		{"stalled_tokens", l.StalledTokens},
	} {
		if limit.value < Unlimited {
			return codec.Invalid("limits."+limit.name, "a limit is a number above 0, 0 for the server's own, or %d for none", Unlimited)
		}
	}
	if l.Repeats > 0 && l.Repeats < FewestRepeats {
		return codec.Invalid("limits.repeats", "repeats is at least %d: agents make the same call two or three times for good reasons", FewestRepeats)
	}
	return l.Budget.check()
}
