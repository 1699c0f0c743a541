package catalog_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/enginetest"
	"github.com/mnemeproxy/mneme/store/catalog/opensearch"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
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

// The age of exchanges is looked at by a centre that leads, and is replaced by another one before it can have any erased.
func TestACentreThatWasReplacedErasesNothingByAge(t *testing.T) {
	url, edge := postgrestest.Shared(t).Memory(t), openEngine(t, 0)
	check(t, edge.Shipping().Begin(t.Context()))
	var age atomic.Int64
	centre, err := catalog.Open(t.Context(), catalog.Options{
		URL: url, Centre: postgrestest.Centre, Cache: edge.Shared(), Digest: digest.Exchange,
		Retention: func(string) store.Retention { return store.Retention{MaxAge: time.Duration(age.Load())} },
	})
	check(t, err)
	t.Cleanup(centre.Close)
	kept := record(t, edge, 1)
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

// What finds candidates is the same for all centres that run. Another setting is refused until none of the others runs.
func TestACentreWithAnotherSearchEngineIsRefusedWhileOthersRun(t *testing.T) {
	url, accounts := postgrestest.Shared(t).Memory(t), openEngine(t, 0)
	open := func(node int, at string) (*catalog.Catalog, error) {
		o := catalog.Options{
			URL: url, Centre: postgrestest.Centre, Cache: accounts.Shared(), Retention: accounts.Archive().RetentionOf, Digest: digest.Exchange,
			Seat: catalog.Seat{Node: uint16(node), Name: fmt.Sprint("centre ", node), Store: fmt.Sprint("store ", node)},
		}
		if at != "postgres" {
			engine, err := opensearch.Open(at)
			check(t, err)
			o.Engine = engine
		}
		return catalog.Open(t.Context(), o)
	}
	starts := func(node int, at string) *catalog.Catalog {
		t.Helper()
		c, err := open(node, at)
		check(t, err)
		t.Cleanup(c.Close)
		return c
	}
	refused := func(node int, at, want string) {
		t.Helper()
		c, err := open(node, at)
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("centre %d is not refused, or not because %s: %v", node, want, err)
		}
	}
	const here, there = "http://mneme@127.0.0.1:1/here", "http://mneme@127.0.0.1:1/there" // nothing answers at either
	first, second := starts(1, "postgres"), starts(2, "postgres")
	first.Close()
	refused(3, here, "centre 2 runs with centre.search: postgres, and this one has http://127.0.0.1:1/here: give every centre the same")
	second.Close()
	third := starts(3, here)
	refused(1, "postgres", "centre 3 runs with centre.search: http://127.0.0.1:1/here, and this one has postgres")
	refused(1, there, "this one has http://127.0.0.1:1/there")
	starts(4, here).Close()
	third.Close()
	starts(1, there).Close()

	db := connect(t, url)
	_, err := db.Exec(t.Context(), "update mneme.centres set seen = now() where node = 1") // as if it had been killed
	check(t, err)
	refused(2, "postgres", "killed counts as running for 10s")
	_, err = db.Exec(t.Context(), "update mneme.centres set seen = now() - interval '10s' where node = 1")
	check(t, err)
	starts(2, "postgres")
}

// A centre that was without the database for a while counts as gone, so that another one may choose a search engine. The former one leads
// again, and knows nothing of the copies there.
func TestACentreCompletesNoErasureWhileCopiesAreInTheEngineOfAnother(t *testing.T) {
	url := postgrestest.Shared(t).Database(t)
	accounts := openEngine(t, 0)
	former := openCatalog(t, accounts, url)
	if done, err := catalog.DropCopies(t.Context(), former, 1); err != nil || !done {
		t.Errorf("without any engine, copies are gone: %v (%v)", done, err)
	}
	db := connect(t, url)
	_, err := db.Exec(t.Context(), "update mneme.centres set seen = now() - interval '1 minute'")
	check(t, err)
	id, err := accounts.Arrivals().ID(t.Context())
	check(t, err)
	other, err := catalog.Open(t.Context(), catalog.Options{
		URL: url, Centre: id, Cache: openEngine(t, 9).Shared(), Retention: accounts.Archive().RetentionOf, Digest: digest.Exchange,
		Seat: catalog.Seat{Node: 9, Name: "centre 9", Store: "store 9"}, Engine: enginetest.New(),
	})
	check(t, err)
	t.Cleanup(other.Close)
	if done, err := catalog.DropCopies(t.Context(), former, 1); err == nil || done || !strings.Contains(err.Error(), "centre.search") {
		t.Errorf("with copies in the engine of another centre, they are gone: %v (%v)", done, err)
	}
	if done, err := catalog.DropCopies(t.Context(), other, 1); err != nil || !done {
		t.Errorf("at that centre, they are gone: %v (%v)", done, err)
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	db, err := pgx.Connect(t.Context(), url)
	check(t, err)
	t.Cleanup(func() { _ = db.Close(context.Background()) })
	return db
}
