package catalog_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/record"
)

// A centre is replaced by another one while it does not notice. What only the leader may commit it does not commit from then on.
func TestACentreThatWasReplacedCompletesNoErasure(t *testing.T) {
	url := postgrestest.Shared(t).Memory(t)
	centre := openCatalog(t, openEngine(t, 0), url)
	lead := catalog.LeadOf(centre)
	eventually(t, "it leads", lead.Leads)
	db := connect(t, url)
	_, err := db.Exec(t.Context(), "update mneme.leader set term = term + 1, process = 'other', name = 'other', until = 'infinity'")
	check(t, err)
	asked, err := centre.Erase(t.Context(), "acme", record.Selection{All: true}, false)
	check(t, err)
	eventually(t, "it notices who leads", func() bool { return !lead.Leads() && lead.Leader() == "other" && lead.Terms() == 2 })
	if e, err := centre.Erasure("acme", asked.ID); err != nil || e.State == record.ErasureDone {
		t.Errorf("the receipt says %+v (%v)", e, err)
	}
	_, err = db.Exec(t.Context(), "update mneme.leader set until = '-infinity'")
	check(t, err)
	eventually(t, "it leads again, and completes the erasure", func() bool {
		e, err := centre.Erasure("acme", asked.ID)
		return err == nil && e.State == record.ErasureDone && lead.Terms() == 3
	})
}

// The age of exchanges is looked at by a centre that leads, and is replaced by another one before it can have any erased.
func TestACentreThatWasReplacedErasesNothingByAge(t *testing.T) {
	url, edge := postgrestest.Shared(t).Memory(t), openEngine(t, 0)
	check(t, edge.Shipping().Begin(t.Context()))
	var age atomic.Int64
	centre, err := catalog.Open(t.Context(), catalog.Options{
		URL: url, Centre: postgrestest.Centre, Cache: edge.Shared(), Digest: digest.Exchange,
		Retention: func(string) identity.Retention { return identity.Retention{MaxAge: time.Duration(age.Load())} },
	})
	check(t, err)
	t.Cleanup(centre.Close)
	kept := stored(t, edge, 1)
	frame, err := edge.Shipping().Next(t.Context(), 0)
	check(t, err)
	_, err = centre.Take(t.Context(), &frame, noneAside)
	check(t, err)
	check(t, centre.Wait(t.Context(), "acme"))

	db, other := connect(t, url), connect(t, url)
	replacing, err := other.Begin(t.Context())
	check(t, err)
	_, err = replacing.Exec(t.Context(), "update mneme.leader set term = term + 1, process = 'other', name = 'other', until = 'infinity'")
	check(t, err)
	age.Store(1) // only now, since the centre led rightly before
	expired := make(chan error, 1)
	go func() { expired <- catalog.Expire(t.Context(), centre, "acme") }()
	eventually(t, "it waits for who leads", func() (waits bool) {
		check(t, db.QueryRow(t.Context(), `select exists (select from pg_stat_activity where datname = current_database()
			and wait_event_type = 'Lock' and query like '%from leader for share')`).Scan(&waits))
		return waits
	})
	check(t, replacing.Commit(t.Context()))
	if err := <-expired; !errors.Is(err, catalog.ErrReplaced) {
		t.Errorf("the retention is carried out: %v", err)
	}
	var erasures int
	check(t, db.QueryRow(t.Context(), "select count(*) from mneme.erasures").Scan(&erasures))
	if _, err := centre.ExchangeInfo("acme", kept); err != nil || erasures > 0 {
		t.Errorf("%d erasures are noted, and the exchange: %v", erasures, err)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), url)
	check(t, err)
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	return db
}
