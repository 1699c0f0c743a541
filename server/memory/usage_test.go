package memory_test

import (
	"context"
	"testing"

	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// books have one exchange of each key.
type books []store.Key

func (b books) List(string) []store.Key { return b }

func (b books) Rollups(_ context.Context, _ record.RollupQuery, f func(record.RollupOf, *record.Rollup)) error {
	for _, k := range append(b, store.Key{ID: "key_gone"}) {
		f(record.RollupOf{Account: "acme", KeyID: k.ID}, &record.Rollup{Requests: 1})
	}
	return nil
}

func TestUsageByKeyHasTheLabelsOfKeys(t *testing.T) {
	b := books{{ID: "key_1", Label: "ci"}, {ID: "key_2"}}
	for _, by := range [][]string{{"key"}, {"account", "key"}, {"account"}} {
		u, err := memory.ReadUsage(t.Context(), b, &memory.UsageQuery{By: by, Keys: b})
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range u.Data {
			want := ""
			if line.Key == "key_1" {
				want = "ci"
			}
			if line.Label != want {
				t.Errorf("by %v: the label of %q is %q, want %q", by, line.Key, line.Label, want)
			}
		}
	}
}
