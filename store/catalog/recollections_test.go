package catalog_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
)

// A request may be answered at a worker that has not heard yet that its account was deleted.
func TestWhatIsRecalledForADeletedAccountLeavesNoRows(t *testing.T) {
	accounts := openEngine(t, 0)
	url := postgrestest.Shared(t).Memory(t)
	centre := openCatalog(t, accounts, url)
	worker := openWorker(t, url)
	eventually(t, "the worker has the account", func() bool {
		_, err := worker.Exchanges("acme", store.ExchangeQuery{})
		return err == nil
	})
	f := firstFrame(t, openEngine(t, 1))
	if taken, err := centre.Take(t.Context(), &f, noneAside); err != nil || !taken {
		t.Fatalf("the frame is taken: %v (%v)", taken, err)
	}
	said := f.Entries[0].Exchange
	recollect := func(c *catalog.Catalog, place byte, quotes ...string) error {
		_, err := catalog.RecalledOf(c).Recollect(t.Context(), "acme", []store.RecollectionKey{{place}}, store.Recollection{Exchange: said, Text: "text", Quotes: quotes})
		return err
	}
	check(t, recollect(centre, 1, said))
	check(t, recollect(worker, 2))
	check(t, centre.DeleteAccount(t.Context(), "acme"))
	for name, c := range map[string]*catalog.Catalog{"centre": centre, "worker": worker} {
		if err := recollect(c, 3); err == nil || codec.AsError(err, "").Kind != codec.KindNotFound {
			t.Errorf("the %s stores what is recalled: %v", name, err)
		}
	}
	db, err := pgx.Connect(t.Context(), url)
	check(t, err)
	defer func() { _ = db.Close(context.Background()) }()
	var left int
	check(t, db.QueryRow(t.Context(), "select (select count(*) from mneme.recollections) + (select count(*) from mneme.quoted)").Scan(&left))
	if left != 0 {
		t.Errorf("%d rows are left", left)
	}
}
