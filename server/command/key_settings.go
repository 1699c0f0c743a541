package command

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// KeySettings are the flags for the changeable settings of a key.
type KeySettings struct {
	Expires           *Lifetime        `placeholder:"TIME" help:"When it expires, from now, such as 90d or 12h, or never."`
	RequestsPerMinute *Limit           `placeholder:"N" help:"Requests per minute; none: no limit; default: the server's limit."`
	TokensPerMinute   *Limit           `placeholder:"N" help:"Tokens per minute, of prompts and answers."`
	Concurrent        *Limit           `placeholder:"N" help:"Concurrent exchanges."`
	TokensPerMonth    *Limit           `placeholder:"N" help:"Tokens per calendar month (UTC)."`
	Repeats           *Limit           `placeholder:"N" help:"Refuse an agent that made the same calls with the same results N times in a row."`
	StalledTokens     *Limit           `placeholder:"N" help:"Refuse an agent that repeats itself and has sent N tokens since its last new result."`
	BudgetUSDDay      *Budget          `name:"budget-usd-day" placeholder:"USD" help:"US dollars per day (UTC)."`
	BudgetUSDMonth    *Budget          `name:"budget-usd-month" placeholder:"USD" help:"US dollars per calendar month (UTC)."`
	BudgetUSDBurst    *Budget          `name:"budget-usd-burst" placeholder:"USD" help:"US dollars within the last minutes, against runaways; see --burst-minutes."`
	BurstMinutes      *Limit           `placeholder:"N" help:"Minutes of a burst; default: 10."`
	Models            *Models          `placeholder:"MODELS" help:"Models that it may use, separated by commas, such as gpt-5-mini,claude-*; all: every model."`
	Recall            *store.KeyRecall `placeholder:"WHEN" help:"Put recalled text into its requests: on (needs the scope read), off, or default (as configured)."`
	TrustTrace        *bool            `negatable:"" help:"Continue the traces of its callers."`
}

// asked returns the settings in the flags, with lifetimes counted from now.
func (s *KeySettings) asked(now time.Time) api.KeySettings {
	asked := api.KeySettings{Models: (*store.Models)(s.Models), Recall: s.Recall, TrustTrace: s.TrustTrace}
	if s.Expires != nil {
		at := s.Expires.from(now)
		asked.Expires = &at
	}
	limits := api.LimitChange{
		RequestsPerMinute: (*int64)(s.RequestsPerMinute), TokensPerMinute: (*int64)(s.TokensPerMinute),
		Concurrent: (*int64)(s.Concurrent), TokensPerMonth: (*int64)(s.TokensPerMonth), Repeats: (*int64)(s.Repeats), StalledTokens: (*int64)(s.StalledTokens),
		BudgetChange: api.BudgetChange{Day: (*record.USD)(s.BudgetUSDDay), Month: (*record.USD)(s.BudgetUSDMonth), Burst: (*record.USD)(s.BudgetUSDBurst), BurstMinutes: (*int64)(s.BurstMinutes)},
	}
	if limits != (api.LimitChange{}) {
		asked.Limits = &limits
	}
	return asked
}

// Lifetime is how long something lasts from now; 0 is forever.
type Lifetime time.Duration

// UnmarshalText reads anything that [config.ParseDuration] reads, and "never".
func (l *Lifetime) UnmarshalText(text []byte) error {
	if string(text) == "never" {
		*l = 0
		return nil
	}
	lasts, err := config.ParseDuration(string(text))
	if err != nil || lasts <= 0 {
		return fmt.Errorf("%q is not a duration; write 90d, 12h or never", text)
	}
	*l = Lifetime(lasts)
	return nil
}

// from returns when a lifetime that begins at now ends; zero for never.
func (l Lifetime) from(now time.Time) time.Time {
	if l == 0 {
		return time.Time{}
	}
	return now.Add(time.Duration(l))
}

// Limit is one of a key's limits, in the numbers of [store.Limits].
type Limit int64

// UnmarshalText reads a number above 0, "none", and "default" for the server's.
func (l *Limit) UnmarshalText(text []byte) error {
	switch string(text) {
	case "none":
		*l = store.Unlimited
		return nil
	case "default":
		*l = 0
		return nil
	}
	n, err := strconv.ParseInt(string(text), 10, 64)
	if err != nil || n <= 0 {
		return fmt.Errorf("%q is not a limit; write a number above 0, none, or default for the server's", text)
	}
	*l = Limit(n)
	return nil
}

// Models are the models that a key may ask for.
type Models store.Models

// UnmarshalText reads names separated by commas, or "all".
func (m *Models) UnmarshalText(text []byte) error {
	models, err := store.ParseModels(string(text))
	*m = Models(models)
	return err
}

// limitsLine writes a key's own limits.
func limitsLine(l store.Limits) string {
	var parts []string
	for _, limit := range []struct {
		n    int64
		unit string
	}{
		{l.RequestsPerMinute, "requests/min"},
		{l.TokensPerMinute, "tokens/min"},
		{l.Concurrent, "at a time"},
		{l.TokensPerMonth, "tokens/month"},
		{l.Repeats, "repeats"},
		{l.StalledTokens, "stalled tokens"},
	} {
		switch {
		case limit.n > 0:
			parts = append(parts, fmt.Sprintf("%d %s", limit.n, limit.unit))
		case limit.n < 0:
			parts = append(parts, "any "+limit.unit)
		}
	}
	return strings.Join(append(parts, budgetParts(l.Budget)...), ", ")
}

func budgetParts(b store.Budget) (parts []string) {
	for _, limit := range []struct {
		amount record.USD
		unit   string
	}{{b.Day, "/day"}, {b.Month, "/month"}, {b.Burst, fmt.Sprintf("/%d min", b.BurstWindow())}} {
		switch {
		case limit.amount > 0:
			parts = append(parts, fmt.Sprintf("$%v%s", limit.amount, limit.unit))
		case limit.amount < 0:
			parts = append(parts, "any $"+limit.unit)
		}
	}
	return parts
}

// Budget is an amount of US dollars, in the numbers of [store.Budget].
type Budget record.USD

// UnmarshalText reads an amount above 0, "none", and "default" for the server's.
func (b *Budget) UnmarshalText(text []byte) error {
	switch string(text) {
	case "none":
		*b = Budget(store.NoBudget)
		return nil
	case "default":
		*b = 0
		return nil
	}
	amount, err := record.ParseUSD(strings.TrimPrefix(string(text), "$"))
	if err != nil || amount <= 0 {
		return fmt.Errorf("%q is not a budget; write US dollars such as 100 or 12.50, none, or default for the server's", text)
	}
	*b = Budget(amount)
	return nil
}
