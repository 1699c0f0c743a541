package record_test

import (
	"testing"

	"github.com/mnemeproxy/mneme/store/record"
)

func TestSmallAmountsKeepTwoDigits(t *testing.T) {
	for amount, want := range map[record.USD]string{
		0:                  "$0",
		1:                  "$0.0000000010",
		42 * 100_000:       "$0.0042",
		-42 * 100_000:      "$-0.0042",
		10_000_000:         "$0.01",
		12 * record.Dollar: "$12.00",
		2_294_999_999:      "$2.29",
		-3 * record.Dollar: "$-3.00",
	} {
		if got := amount.Rounded(); got != want {
			t.Errorf("%d is written as %s, want %s", amount, got, want)
		}
	}
}
