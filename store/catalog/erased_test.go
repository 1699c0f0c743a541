package catalog_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/ship"
)

// What was erased before there was a log is in it: edges that have it are to erase it, too.
func TestADatabaseOfTheFirstVersionGetsALogOfWhatWasErased(t *testing.T) {
	accounts := openEngine(t, 0)
	url := postgrestest.Shared(t).Memory(t)
	openCatalog(t, accounts, url).Close()
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	number, err := accounts.Accounts().Number("acme")
	if err != nil {
		t.Fatal(err)
	}
	erased := []string{record(t, accounts, 0), record(t, accounts, 1)}
	makeOlder(t, db, 1)
	if _, err := db.Exec(t.Context(), "insert into mneme.tombs select $1, unnest($2::text[])", int64(number), erased); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time it has it
		c := openCatalog(t, accounts, url)
		var given []string
		for mark := (ship.ErasedMark{}); ; {
			page, upTo, err := c.Erased().After(mark, 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(page) == 0 {
				break
			}
			if page[0].Account != "acme" {
				t.Errorf("%s was erased of %q", page[0].Exchange, page[0].Account)
			}
			given, mark = append(given, page[0].Exchange), upTo
		}
		if !slices.Equal(given, erased) {
			t.Errorf("the log has %v, and %v was erased", given, erased)
		}
		if page, _, err := c.Erased().After(ship.ErasedMark{Number: 2, Tail: ship.Tail{1}}, 10); err != nil || len(page) != 2 {
			t.Errorf("after an entry that the log does not have it gives %v (%v)", page, err)
		}
		if latest, err := c.Erased().Latest(); err != nil || latest.IsZero() {
			t.Errorf("the edges are not asked about it (%v)", err)
		}
		c.Close()
	}
}
