package catalog_test

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/record"
)

// An exchange arrives that refers to what an erased one has used alone. A worker completes no erasures, so the test does.
func TestWhatIsUsedAgainBeforeAnErasureEndsIsNotFreed(t *testing.T) {
	url := postgrestest.Shared(t).Memory(t)
	openCatalog(t, openEngine(t, 0), url).Close()
	worker, edge, db := openWorker(t, url), openEngine(t, 1), connect(t, url)
	check(t, edge.Shipping().Begin(t.Context()))
	question := strings.Repeat("a question that is long enough to be an object of its own ", 200)
	erased := ask(t, edge, question)
	f, err := edge.Shipping().Next(t.Context(), 0)
	check(t, err)
	take(t, worker, &f)
	receipt, err := worker.Erase(t.Context(), "acme", record.Selection{Exchanges: []string{erased}}, false)
	check(t, err)
	announced(t, url)
	eventually(t, "the exchange is erased", func() bool {
		_, err := worker.ExchangeInfo("acme", erased)
		return err != nil
	})
	var account record.AccountNumber
	check(t, db.QueryRow(t.Context(), "select number from mneme.accounts").Scan(&account))
	again := ask(t, edge, question)
	f, err = edge.Shipping().Next(t.Context(), f.Last)
	check(t, err)
	take(t, worker, &f)
	check(t, catalog.FreeObjects(t.Context(), worker, account, receipt.ID))
	if x, err := worker.Exchange("acme", again); err != nil || len(x.RawRequest) == 0 {
		t.Errorf("what was asked again cannot be read: %v", err)
	}
}
