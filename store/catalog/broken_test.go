package catalog_test

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/ship"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// The oldest exchange to digest is in a bucket that cannot be read.
func TestAnAccountThatCannotBeReadHoldsUpNoOther(t *testing.T) {
	url, accounts, edge := postgrestest.Shared(t).Memory(t), openEngine(t, 0), openEngine(t, 1)
	first := openCatalogThat(t, accounts, url, digest.Exchange)
	for _, e := range []interface {
		Create(name string) (store.Account, error)
	}{accounts.Accounts(), edge.Accounts()} {
		_, err := e.Create("other")
		check(t, err)
	}
	check(t, edge.Shipping().Begin(t.Context()))
	askAs(t, edge, "acme", "question")
	f, err := edge.Shipping().Next(t.Context(), 0)
	check(t, err)
	take(t, first, &f)
	check(t, first.Wait(t.Context(), "acme"))
	first.Close()
	db := connect(t, url)
	_, err = db.Exec(t.Context(), "update mneme.exchanges set digested = false, body = null, pack = 1, at = 0, size = 1")
	check(t, err)

	c := openCatalog(t, accounts, url)
	askAs(t, edge, "other", "question")
	f, err = edge.Shipping().Next(t.Context(), f.Last)
	check(t, err)
	take(t, c, &f)
	check(t, c.Wait(t.Context(), "other"))
	var waiting int
	check(t, db.QueryRow(t.Context(), "select count(*) from mneme.exchanges where not digested").Scan(&waiting))
	if waiting != 1 {
		t.Errorf("%d exchanges wait for the bucket, want one", waiting)
	}
}

func TestAnEntryWithAnImpossibleNameIsPutAside(t *testing.T) {
	for name, spoil := range map[string]func(*ship.Entry){
		"account":  func(e *ship.Entry) { e.Account = "ac\x00me" },
		"exchange": func(e *ship.Entry) { e.Exchange = strings.Replace(e.Exchange, "0", "\x00", 1) },
		"no UTF-8": func(e *ship.Entry) { e.Account = "ac\xffme" },
	} {
		t.Run(name, func(t *testing.T) {
			c, edge := openCatalog(t, openEngine(t, 0), postgrestest.Shared(t).Memory(t)), openEngine(t, 1)
			check(t, edge.Shipping().Begin(t.Context()))
			ask(t, edge, "first")
			good := ask(t, edge, "second")
			f, err := edge.Shipping().Next(t.Context(), 0)
			check(t, err)
			spoil(&f.Entries[0])
			refused := 0
			taken, err := c.Take(t.Context(), &f, func(r []shipped.Refused) error { refused += len(r); return nil })
			if err != nil || !taken || refused != 1 {
				t.Fatalf("the frame is taken: %v, %d refused (%v)", taken, refused, err)
			}
			if _, err := c.ExchangeInfo("acme", good); err != nil {
				t.Errorf("what came with it is not there: %v", err)
			}
		})
	}
}
