package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// A client asks the same once more. The second frame brings no objects, for all that it names is there.
func TestARequestThatIsRepeatedIsKept(t *testing.T) {
	accounts, edge := openEngine(t, 0), openEngine(t, 1)
	c := openCatalog(t, accounts, postgrestest.Shared(t).Memory(t))
	if err := edge.Shipping().Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	after := uint64(0)
	for range 2 {
		id := ask(t, edge, strings.Repeat("a long question ", 500))
		f, err := edge.Shipping().Next(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		if taken, err := c.Take(t.Context(), &f, noneAside); err != nil || !taken {
			t.Fatalf("a frame of %d objects is not kept (%v)", len(f.Entries[0].Objects), err)
		}
		if _, err := c.Exchange("acme", id); err != nil {
			t.Error(err)
		}
		after = f.Last
	}
}

func noneAside(refused []shipped.Refused) error {
	return fmt.Errorf("refused: %w", refused[0].Reason)
}
