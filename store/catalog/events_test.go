package catalog_test

import (
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/record"
)

// One centre takes and digests an exchange, and erases it. Who watches the account at another centre is told; who watches
// another account is not.
func TestWhatOneCentreCommitsIsToldAtEveryOther(t *testing.T) {
	edge := openEngine(t, 0)
	if _, err := edge.Accounts().Create("other"); err != nil {
		t.Fatal(err)
	}
	if err := edge.Shipping().Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	url := postgrestest.Shared(t).Memory(t)
	working, watched := openCatalog(t, edge, url), openCatalog(t, edge, url)
	sub, err := watched.Events.Subscribe("acme", 0)
	if err != nil {
		t.Fatal(err)
	}
	stranger, err := watched.Events.Subscribe("other", 0)
	if err != nil {
		t.Fatal(err)
	}
	id := ask(t, edge, "question")
	f, err := edge.Shipping().Next(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	if taken, err := working.Take(t.Context(), &f, noneAside); err != nil || !taken {
		t.Fatal("the frame is not taken: ", err)
	}
	var last uint64
	for _, kind := range []record.EventKind{record.ExchangeCompleted, record.TurnDigested} {
		e := next(t, sub)
		if e.Kind != kind || e.Exchange != id || e.Session == "" || e.Outcome != record.OutcomeComplete || e.Time.IsZero() {
			t.Errorf("got %+v, want %s of %s with its session", e, kind, id)
		}
		last = e.Seq
	}
	erasure, err := working.Erase(t.Context(), "acme", record.Selection{Exchanges: []string{id}}, false)
	if err != nil {
		t.Fatal(err)
	}
	if e := next(t, sub); e.Kind != record.ErasureCompleted || e.Erasure != erasure.ID {
		t.Errorf("got %+v, want the end of the erasure %s", e, erasure.ID)
	}
	again, err := watched.Events.Subscribe("acme", last)
	if err != nil {
		t.Fatal(err)
	}
	if e := next(t, again); again.Missed || e.Erasure != erasure.ID {
		t.Errorf("after event %d the next one is %+v", last, e)
	}
	stranger.Close()
	for e := range stranger.Events {
		t.Errorf("another account is told %+v", e)
	}
}

func TestWhoWatchesWhileTheDatabaseIsAwayIsToldThatEventsWereMissed(t *testing.T) {
	url := postgrestest.Shared(t).Memory(t)
	c := openCatalog(t, openEngine(t, 0), url)
	sub, err := c.Events.Subscribe("acme", 0)
	if err != nil {
		t.Fatal(err)
	}
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	if _, err := db.Exec(t.Context(), "select pg_terminate_backend(pid) from pg_stat_activity where query like 'listen %'"); err != nil {
		t.Fatal(err)
	}
	select {
	case e, more := <-sub.Events:
		if more {
			t.Fatalf("got %+v, want the end", e)
		}
	case <-time.After(time.Minute):
		t.Fatal("the subscription goes on without a connection")
	}
	again, err := c.Events.Subscribe("acme", 1)
	if err != nil || !again.Missed {
		t.Errorf("missed: %v, %v; want true", again.Missed, err)
	}
}

// next waits for an event.
func next(t *testing.T, sub *record.Subscription) record.Event {
	t.Helper()
	select {
	case e, more := <-sub.Events:
		if !more {
			t.Fatal("the subscription has ended")
		}
		return e
	case <-time.After(time.Minute):
		t.Fatal("nothing is told")
	}
	return record.Event{}
}
