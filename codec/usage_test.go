package codec_test

import (
	"math"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

func TestOnlyCountsThatAModelCanReachAreBelieved(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "7": 7, "7.0": 7, "1e3": 1000, "1099511627776": 1 << 40,
		"-1": -1, "1099511627777": -1, "9223372036854775807": -1, "9223372036854775808": -1, "1e300": -1, "7.5": -1,
		`"7"`: -1, "null": -1, "true": -1, "[7]": -1, "": -1,
	} {
		n, ok := codec.ReadTokens([]byte(text))
		if ok != (want >= 0) || n != max(want, 0) {
			t.Errorf("%q is read as %d, %t", text, n, ok)
		}
	}
}

func TestSumsOfCountsStayAtTheLargestNumber(t *testing.T) {
	for _, c := range [][3]int64{
		{1, 2, 3},
		{-1, 2, 1},
		{math.MaxInt64, 1, math.MaxInt64},
		{math.MaxInt64, math.MaxInt64, math.MaxInt64},
		{math.MinInt64, -1, math.MinInt64},
		{math.MinInt64, math.MinInt64, math.MinInt64},
		{math.MinInt64, math.MaxInt64, -1},
	} {
		if got := codec.AddCounts(c[0], c[1]); got != c[2] {
			t.Errorf("%d + %d is %d, not %d", c[0], c[1], got, c[2])
		}
	}
	u := codec.Usage{InputUncached: math.MaxInt64, CacheRead: 1, CacheWrite: math.MaxInt64, Output: 1}
	if u.Total() != math.MaxInt64 {
		t.Errorf("the total is %d", u.Total())
	}
}
