package catalog_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
)

// A centre is replaced by another one while it does not notice. What only the leader may commit it does not commit from then on.
func TestACentreThatWasReplacedCompletesNoErasure(t *testing.T) {
	url := postgrestest.Start(t, false).Database(t)
	centre := openCatalog(t, openEngine(t, 0), url)
	lead := catalog.LeadOf(centre)
	eventually(t, "it leads", lead.Leads)
	db, err := pgx.Connect(t.Context(), url)
	check(t, err)
	defer func() { _ = db.Close(t.Context()) }()
	_, err = db.Exec(t.Context(), "update mneme.leader set term = term + 1, process = 'other', name = 'other', until = 'infinity'")
	check(t, err)
	asked, err := centre.Erase(t.Context(), "acme", store.Selection{All: true}, false)
	check(t, err)
	eventually(t, "it notices who leads", func() bool { return !lead.Leads() && lead.Leader() == "other" && lead.Terms() == 2 })
	if e, err := centre.Erasure("acme", asked.ID); err != nil || e.State == store.ErasureDone {
		t.Errorf("the receipt says %+v (%v)", e, err)
	}
	_, err = db.Exec(t.Context(), "update mneme.leader set until = '-infinity'")
	check(t, err)
	eventually(t, "it leads again, and completes the erasure", func() bool {
		e, err := centre.Erasure("acme", asked.ID)
		return err == nil && e.State == store.ErasureDone && lead.Terms() == 3
	})
}
