package config

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
)

// Size is a number of bytes, above zero. Text form: a whole number with an optional unit, "64MiB", "64 KB", "1048576".
type Size int64

// Longest suffix first, so that "KiB" is not read as "B".
var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"KiB", 1 << 10},
	{"MiB", 1 << 20},
	{"GiB", 1 << 30},
	{"KB", 1e3},
	{"MB", 1e6},
	{"GB", 1e9},
	{"B", 1},
}

// UnmarshalText reads the text form. Units are read in any case; the binary and the decimal ones stay apart.
func (s *Size) UnmarshalText(text []byte) error {
	number, factor := strings.TrimSpace(string(text)), int64(1)
	for _, unit := range sizeUnits {
		if rest, found := cutSuffixFold(number, unit.name); found {
			number, factor = strings.TrimSpace(rest), unit.bytes
			break
		}
	}
	n, err := strconv.ParseInt(number, 10, 64)
	if err != nil || n <= 0 || n > math.MaxInt64/factor {
		return fmt.Errorf("%q is not a size; write a whole number above 0 with an optional unit, such as 64MiB or 512KB", text)
	}
	*s = Size(n * factor)
	return nil
}

// MarshalText writes the largest binary unit that divides the size.
func (s Size) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String returns the text form.
func (s Size) String() string {
	for i := 2; i >= 0; i-- {
		if unit := sizeUnits[i]; s != 0 && int64(s)%unit.bytes == 0 {
			return strconv.FormatInt(int64(s)/unit.bytes, 10) + unit.name
		}
	}
	return strconv.FormatInt(int64(s), 10)
}

func cutSuffixFold(s, suffix string) (string, bool) {
	if len(s) < len(suffix) || !strings.EqualFold(s[len(s)-len(suffix):], suffix) {
		return s, false
	}
	return s[:len(s)-len(suffix)], true
}

// Duration is a length of time above zero, written as Go writes it: "30s", "5m", "1h30m".
type Duration time.Duration

// UnmarshalText reads the text form. A bare number has no unit and is refused.
func (d *Duration) UnmarshalText(text []byte) error {
	v, err := ParseDuration(string(text))
	if err != nil || v <= 0 {
		return fmt.Errorf("%q is not a duration; write a number above 0 with a unit, such as 500ms, 30s, 5m or 7d", text)
	}
	*d = Duration(v)
	return nil
}

// maxDays is a century, which fits a time.Duration.
const maxDays = 36500

// ParseDuration is [time.ParseDuration] with days as a unit: 90d, 1d12h.
func ParseDuration(text string) (time.Duration, error) {
	number, rest, inDays := strings.Cut(text, "d")
	if !inDays {
		return time.ParseDuration(text)
	}
	days, err := strconv.Atoi(number)
	if err != nil || days < 0 || days > maxDays {
		return 0, fmt.Errorf("%q is not a number of days from 0 to %d", number, maxDays)
	}
	lasts := time.Duration(days) * 24 * time.Hour
	if rest == "" {
		return lasts, nil
	}
	more, err := time.ParseDuration(rest)
	return lasts + more, err
}

// MarshalText writes the text form.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String returns the text form without trailing zero units: "5m", not "5m0s".
func (d Duration) String() string {
	s := time.Duration(d).String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// Count is a number of things, above zero.
type Count int

// UnmarshalText reads decimal digits.
func (c *Count) UnmarshalText(text []byte) error {
	n, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 0)
	if err != nil || n <= 0 {
		return fmt.Errorf("%q is not a number above 0", text)
	}
	*c = Count(n)
	return nil
}

// MarshalText writes decimal digits.
func (c Count) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(c), 10), nil }

// Times is how often something may happen; 0 means never.
type Times int

// UnmarshalText reads decimal digits.
func (t *Times) UnmarshalText(text []byte) error {
	n, err := strconv.ParseUint(string(text), 10, 31)
	if err != nil {
		return fmt.Errorf("%q is not a number of times; write a whole number, or 0 for never", text)
	}
	*t = Times(n)
	return nil
}

// MarshalText writes decimal digits.
func (t Times) MarshalText() ([]byte, error) { return strconv.AppendInt(nil, int64(t), 10), nil }

// Dollars is an amount in US dollars, in billionths: "0.05", or "off" for an amount that is never reached.
type Dollars record.USD

const never = "off"

// UnmarshalText reads the text form.
func (d *Dollars) UnmarshalText(text []byte) error {
	if string(text) == never {
		*d = -1
		return nil
	}
	amount, err := record.ParseUSD(string(text))
	if err != nil || amount <= 0 {
		return fmt.Errorf("%q is not an amount; write US dollars above 0, such as 0.05, or %s", text, never)
	}
	*d = Dollars(amount)
	return nil
}

// MarshalText writes the text form.
func (d Dollars) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// String returns the text form; "" if no amount is set.
func (d Dollars) String() string {
	switch {
	case d < 0:
		return never
	case d == 0:
		return ""
	}
	return record.USD(d).String()
}

// Addresses are the addresses to listen on, each as [listen.Parse] reads it. In the file they are a list, or one text
// separated by commas, as in the environment and on the command line.
type Addresses []string

// UnmarshalText reads the comma-separated form.
func (a *Addresses) UnmarshalText(text []byte) error {
	*a = nil
	for address := range strings.SplitSeq(string(text), ",") {
		*a = append(*a, strings.TrimSpace(address))
	}
	return nil
}
