package catalog_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/search"
)

// An answer that left out the sessions behind the last that is ranked would look complete.
func TestASearchForMoreSessionsThanAreRankedIsRefused(t *testing.T) {
	c := openCatalog(t, openEngine(t, 0), postgrestest.Shared(t).Memory(t))
	r := &search.Request{Query: "mutex", Granularity: search.Sessions, Limit: 20, Offset: search.MostSessions}
	_, err := c.Search(t.Context(), "acme", r)
	if codec.AsError(err, "").Kind != codec.KindUnsupported || !strings.Contains(err.Error(), fmt.Sprint(search.MostSessions)) {
		t.Errorf("the error is %v, want one that says how many sessions there are", err)
	}
	r.Offset -= r.Limit
	if _, err := c.Search(t.Context(), "acme", r); err != nil {
		t.Errorf("the last page is refused: %v", err)
	}
}
