package record

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
)

// USD is an amount of money in billionths of a US dollar. As JSON it is a number of dollars, without rounding.
type USD int64

// Dollar is one US dollar.
const Dollar USD = 1e9

// String writes the amount as a decimal number of dollars, without a sign of the currency and without needless zeros.
func (u USD) String() string { return string(u.append(nil)) }

// Rounded writes the amount in dollars and cents, and a smaller one with two significant digits: "$12.50", "$0.0042".
func (u USD) Rounded() string {
	value := float64(u) / float64(Dollar)
	switch {
	case u == 0:
		return "$0"
	case value < 0.01 && value > -0.01:
		return fmt.Sprintf("$%.*f", 1-int(math.Floor(math.Log10(math.Abs(value)))), value)
	}
	return fmt.Sprintf("$%.2f", value)
}

func (u USD) append(dst []byte) []byte {
	n := uint64(u)
	if u < 0 {
		dst, n = append(dst, '-'), -n
	}
	dst = strconv.AppendUint(dst, n/uint64(Dollar), 10)
	rest := n % uint64(Dollar)
	if rest == 0 {
		return dst
	}
	digits := strconv.AppendUint(nil, rest+uint64(Dollar), 10) // a leading 1 keeps the zeros
	digits[0] = '.'
	return append(dst, strings.TrimRight(string(digits), "0")...)
}

// MarshalJSON writes a number.
func (u USD) MarshalJSON() ([]byte, error) { return u.append(nil), nil }

// UnmarshalJSON reads a number of dollars.
func (u *USD) UnmarshalJSON(text []byte) (err error) {
	*u, err = ParseUSD(string(text))
	return err
}

var errNoUSD = errors.New("an amount of money is a number of US dollars, such as 12.50")

// ParseUSD reads a decimal number of dollars. Digits beyond a billionth of a dollar are cut off.
func ParseUSD(text string) (USD, error) {
	digits, negative := strings.CutPrefix(text, "-")
	if strings.ContainsAny(digits, "eE") { // as other writers of JSON shorten small numbers
		return parseExponent(text)
	}
	whole, fraction, _ := strings.Cut(digits, ".")
	fraction = (fraction + "000000000")[:9]
	dollars, err := strconv.ParseUint(whole, 10, 64)
	parts, failed := strconv.ParseUint(fraction, 10, 64)
	if err != nil || failed != nil || dollars > uint64(math.MaxInt64/Dollar)-1 {
		return 0, errNoUSD
	}
	amount := USD(dollars)*Dollar + USD(parts)
	if negative {
		amount = -amount
	}
	return amount, nil
}

func parseExponent(text string) (USD, error) {
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || math.IsNaN(value) || math.Abs(value) > float64(math.MaxInt64/Dollar)-1 {
		return 0, errNoUSD
	}
	return USD(math.Round(value * float64(Dollar))), nil
}

// Cost is the cost of one exchange, computed when it ended.
type Cost struct {
	USD       USD    `json:"usd"`
	Saved     USD    `json:"saved_usd,omitempty"` // by caches: the discount on reads minus the surcharge on writes
	Price     string `json:"price"`               // the row of the price list and its date, "claude-opus-5-5@2026-09-22"
	Estimated bool   `json:"estimated,omitempty"` // the tokens are estimated, or the price list lacks the tier
	Notional  bool   `json:"notional,omitempty"`  // paid by the caller's own credential, which may be a subscription: this is the list price
}

// Spending is the cost of a number of exchanges.
type Spending struct {
	USD       USD   `json:"usd"`                    // with credentials of the account or the server
	Notional  USD   `json:"notional_usd,omitempty"` // the list price of what callers' own credentials paid
	Saved     USD   `json:"saved_usd,omitempty"`    // by caches
	Unpriced  int64 `json:"unpriced,omitempty"`     // exchanges with tokens but no price
	Estimated int64 `json:"estimated,omitempty"`    // exchanges whose cost is an estimate
}

// Count adds an ended exchange, or subtracts it if sign is -1.
func (s *Spending) Count(info *ExchangeInfo, sign int64) {
	cost := info.Cost
	switch {
	case cost == nil && info.Usage.tokens() > 0:
		s.Unpriced += sign
	case cost == nil:
	case cost.Notional:
		s.Notional = addUSD(s.Notional, USD(sign)*cost.USD)
	default:
		s.USD = addUSD(s.USD, USD(sign)*cost.USD)
	}
	if cost != nil {
		s.Saved = addUSD(s.Saved, USD(sign)*cost.Saved)
		if cost.Estimated {
			s.Estimated += sign
		}
	}
}

// add adds other spending.
func (s *Spending) add(other *Spending) {
	s.USD = addUSD(s.USD, other.USD)
	s.Notional = addUSD(s.Notional, other.Notional)
	s.Saved = addUSD(s.Saved, other.Saved)
	s.Unpriced = codec.AddCounts(s.Unpriced, other.Unpriced)
	s.Estimated = codec.AddCounts(s.Estimated, other.Estimated)
}

func addUSD(a, b USD) USD { return USD(codec.AddCounts(int64(a), int64(b))) }

// tokens returns the sum of all counts.
func (u *UsageInfo) tokens() int64 { return codec.Usage(*u).Total() }
