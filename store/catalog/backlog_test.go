package catalog_test

import (
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
)

// An exchange of an hour ago cannot be digested, because its session is locked, for which another connection waits too.
func TestTheBacklogSaysSinceWhenAndHowManyWait(t *testing.T) {
	url, edge := postgrestest.Shared(t).Memory(t), openEngine(t, 0)
	check(t, edge.Shipping().Begin(t.Context()))
	c := openCatalog(t, edge, url)
	ask(t, edge, "question")
	f, err := edge.Shipping().Next(t.Context(), 0)
	check(t, err)
	take(t, c, &f)
	check(t, c.Wait(t.Context(), "acme"))
	if b, err := catalog.BacklogOf(t.Context(), c); err != nil || b.Exchanges != 0 || b.Oldest != 0 {
		t.Errorf("nothing waits, and the backlog is %+v (%v)", b, err)
	}

	db, other := connect(t, url), connect(t, url)
	_, err = db.Exec(t.Context(), "insert into mneme.packs (account, pack, state) values (1, 1, 'begun'), (1, 2, 'going'), (1, 3, 'going'), (1, 4, 'kept')")
	check(t, err)
	holding, err := db.Begin(t.Context())
	check(t, err)
	_, err = holding.Exec(t.Context(), "select from mneme.sessions for update")
	check(t, err)
	_, err = other.Exec(t.Context(), "update mneme.exchanges set digested = false, kept = now() - interval '1 hour'")
	check(t, err)
	ended := make(chan error, 1)
	go func() {
		_, err := other.Exec(t.Context(), "select from mneme.sessions for update")
		ended <- err
	}()
	var b catalog.Backlog
	eventually(t, "a connection waits", func() bool {
		b, err = catalog.BacklogOf(t.Context(), c)
		check(t, err)
		return b.Locks > 0
	})
	if b.Begun != 1 || b.Going != 2 {
		t.Errorf("the backlog is %+v, want one pack that is begun, and two that go", b)
	}
	if b.Exchanges != 1 || b.Oldest < time.Hour || b.Oldest > 2*time.Hour {
		t.Errorf("the backlog is %+v, want one exchange of an hour ago", b)
	}
	check(t, holding.Commit(t.Context()))
	check(t, <-ended)
}
