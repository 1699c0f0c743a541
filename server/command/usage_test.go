package command

import (
	"testing"

	"github.com/mnemeproxy/mneme/store/record"
)

// What has no price did not cost nothing.
func TestACostWithoutAPriceIsNotZero(t *testing.T) {
	for _, c := range []struct {
		spending record.Spending
		want     string
	}{
		{record.Spending{Unpriced: 1}, "?"},
		{record.Spending{USD: 1_500_000_000, Unpriced: 1}, "~$1.50"},
		{record.Spending{USD: 1_500_000_000, Estimated: 1}, "~$1.50"},
		{record.Spending{Notional: 1_500_000_000}, "$1.50"},
	} {
		if got := dollars(&c.spending); got != c.want {
			t.Errorf("%+v is written as %s, want %s", c.spending, got, c.want)
		}
	}
}
