package catalog_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// openWorker opens the memory of a centre without its accounts.
func openWorker(t *testing.T, url string) *catalog.Catalog {
	t.Helper()
	id, err := catalog.CentreOf(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	w, err := catalog.Open(t.Context(), catalog.Options{URL: url, Centre: id, Digest: digest.Exchange})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Close)
	return w
}

// firstFrame records an exchange at an edge, and gives the frame with it.
func firstFrame(t *testing.T, edge *engine.Engine) (f ship.Frame) {
	t.Helper()
	if err := edge.Shipping().Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	stored(t, edge, 0)
	f, err := edge.Shipping().Next(t.Context(), 0)
	if err != nil || len(f.Entries) != 1 {
		t.Fatalf("a frame of %d entries (%v)", len(f.Entries), err)
	}
	return f
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come about that %s", what)
		}
	}
}

func knows(c *catalog.Catalog, account, exchange string) bool {
	_, err := c.Exchange(account, exchange)
	return err == nil
}

func TestAWorkerKeepsAndDigestsWithTheAccountsOfTheCentre(t *testing.T) {
	accounts := openEngine(t, 0)
	url := postgrestest.Shared(t).Database(t)
	if _, err := catalog.CentreOf(t.Context(), url); err == nil {
		t.Error("a database without a memory has a centre")
	}
	centre := openCatalog(t, accounts, url)
	worker := openWorker(t, url)
	edge := openEngine(t, 1)
	f := firstFrame(t, edge)
	eventually(t, "the worker has the account", func() bool {
		_, err := worker.Exchanges("acme", record.ExchangeQuery{})
		return err == nil
	})
	if taken, err := worker.Take(t.Context(), &f, func([]shipped.Refused) error { return nil }); err != nil || !taken {
		t.Fatalf("the worker takes the frame: %v (%v)", taken, err)
	}
	centre.Close() // the worker goes on without
	if err := worker.Wait(t.Context(), "acme"); err != nil {
		t.Error(err)
	}
	page, err := worker.Exchanges("acme", record.ExchangeQuery{})
	if err != nil || len(page.Data) != 1 || page.Data[0].Session == "" {
		t.Fatalf("it has %+v (%v)", page.Data, err)
	}
	timeline, err := worker.Timeline("acme", page.Data[0].Session, record.TimelineQuery{})
	if err != nil || len(timeline.Data) != 1 || timeline.Data[0].Turn == nil {
		t.Errorf("the timeline is %+v (%v)", timeline.Data, err)
	}
}

// What a worker cannot keep is in the database, where any centre tries it again.
func TestWhatAWorkerRefusesIsTakenByTheCentreOnceItsAccountIsThere(t *testing.T) {
	accounts := openEngine(t, 0)
	url := postgrestest.Shared(t).Memory(t)
	centre := openCatalog(t, accounts, url)
	worker := openWorker(t, url)
	f := firstFrame(t, openEngine(t, 1))
	f.Entries[0].Account = "later"
	told := 0
	taken, err := worker.Take(t.Context(), &f, func(refused []shipped.Refused) error { told += len(refused); return nil })
	if err != nil || !taken || told != 1 {
		t.Fatalf("the frame is taken: %v, %d refused (%v)", taken, told, err)
	}
	waits := func(want int) {
		t.Helper()
		if err := catalog.AsideOf(centre).Retry(t.Context()); err != nil {
			t.Error(err)
		}
		if n, err := catalog.AsideOf(worker).Count(t.Context()); err != nil || n != want {
			t.Errorf("%d entries are aside, want %d (%v)", n, want, err)
		}
	}
	waits(1)
	if _, err := accounts.Accounts().Create("later"); err != nil {
		t.Fatal(err)
	}
	// The record says another account: it stays aside for that, and is not kept for the wrong one.
	waits(1)
	if knows(centre, "later", f.Entries[0].Exchange) || knows(centre, "acme", f.Entries[0].Exchange) {
		t.Error("an exchange is kept that says that it is of another account")
	}
}

// A worker that has not heard yet that an account was deleted puts nothing back.
func TestAWorkerKeepsNothingOfAnAccountThatIsDeleted(t *testing.T) {
	accounts := openEngine(t, 0)
	url := postgrestest.Shared(t).Memory(t)
	centre := openCatalog(t, accounts, url)
	worker := openWorker(t, url)
	eventually(t, "the worker has the account", func() bool {
		_, err := worker.Exchanges("acme", record.ExchangeQuery{})
		return err == nil
	})
	f := firstFrame(t, openEngine(t, 1))
	if err := centre.DeleteAccount(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	refused := 0
	if _, err := worker.Take(t.Context(), &f, func(r []shipped.Refused) error { refused += len(r); return nil }); err != nil || refused != 1 {
		t.Errorf("%d of one exchange are refused (%v)", refused, err)
	}
}

// An edge still has an exchange of an account that was deleted, and ships it when there is another account of that name.
func TestALaterAccountOfANameGetsNothingOfADeletedOne(t *testing.T) {
	accounts, edge := openEngine(t, 0), openEngine(t, 1)
	centre := openCatalog(t, accounts, postgrestest.Shared(t).Memory(t))
	kept := 0
	take := func(f ship.Frame) (refused []shipped.Refused) {
		t.Helper()
		taken, err := centre.Take(t.Context(), &f, func(r []shipped.Refused) error { refused = r; return nil })
		if err != nil || !taken {
			t.Fatalf("the frame is taken: %v (%v)", taken, err)
		}
		kept += len(f.Entries) - len(refused)
		return refused
	}
	f := firstFrame(t, edge)
	take(f)
	late := stored(t, edge, 1)
	check(t, centre.DeleteAccount(t.Context(), "acme"))
	_, err := accounts.Accounts().Create("acme")
	check(t, err)
	g, err := edge.Shipping().Next(t.Context(), f.Last)
	check(t, err)
	if refused := take(g); len(refused) != 1 || !errors.Is(refused[0].Reason, shipped.ErrForeign) {
		t.Errorf("of the exchange of the deleted account %+v is refused", refused)
	}
	if err := centre.Retry(t.Context(), &g.Entries[0]); !errors.Is(err, shipped.ErrForeign) {
		t.Errorf("it is tried again with %v", err)
	}
	since := stored(t, edge, 2)
	h, err := edge.Shipping().Next(t.Context(), g.Last)
	check(t, err)
	take(h)
	page, err := centre.Exchanges("acme", record.ExchangeQuery{})
	if err != nil || len(page.Data) != 1 || page.Data[0].ID != since || kept != 2 {
		t.Errorf("the later account has %+v, want what was recorded since, and not %s (%v)", page.Data, late, err)
	}
}

// arriving is a centre that exchanges arrive at.
type arriving interface {
	Take(ctx context.Context, f *ship.Frame, aside func([]shipped.Refused) error) (taken bool, err error)
	Retry(ctx context.Context, e *ship.Entry) error
	Exchanges(account string, q record.ExchangeQuery) (record.ExchangePage, error)
}
