package identity

import (
	"errors"
	"math"
	"strconv"
	"strings"
)

// USD is an amount of money in billionths of a US dollar. As JSON it is a number of dollars, without rounding.
type USD int64

// Dollar is one US dollar.
const Dollar USD = 1e9

// String writes the amount as a decimal number of dollars, without a sign of the currency and without needless zeros.
func (u USD) String() string { return string(u.append(nil)) }

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
