package catalog_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/record"
)

// Tables of the version before objects counted their users are opened, in the midst of an erasure by a centre of that version: it has
// deleted an exchange, and not yet freed what that one used alone.
func TestObjectsOfAnEarlierVersionAreCounted(t *testing.T) {
	url, edge := postgrestest.Shared(t).Memory(t), openEngine(t, 0)
	check(t, edge.Shipping().Begin(t.Context()))
	db := connect(t, url)
	_, err := db.Exec(t.Context(), "set search_path = mneme")
	check(t, err)
	c := openCatalog(t, edge, url)
	question := func(word string) string {
		return strings.Repeat(word+" is a question that is long enough to be an object of its own ", 200)
	}
	kept, erased := ask(t, edge, question("kept")), ask(t, edge, question("erased"))
	ask(t, edge, question("kept"))
	f, err := edge.Shipping().Next(t.Context(), 0)
	check(t, err)
	take(t, c, &f)
	check(t, c.Wait(t.Context(), "acme"))
	c.Close()
	counts := func() (most, objects int) {
		t.Helper()
		check(t, db.QueryRow(t.Context(), "select max(users), count(*) from objects").Scan(&most, &objects))
		return most, objects
	}
	most, objects := counts()
	if most != 2 || objects < 2 {
		t.Fatalf("of %d objects one has %d users, want 2", objects, most)
	}
	uncount(t, db)
	_, err = db.Exec(t.Context(), "delete from exchanges where id = $1", erased)
	check(t, err)
	_, err = db.Exec(t.Context(), `insert into erasures select number, 'eras_0', false,
		'{"id":"eras_0","state":"running","reason":"retention","selection":{"exchanges":["'||$1||'"]}}' from accounts`, erased)
	check(t, err)

	c = openCatalog(t, edge, url)
	eventually(t, "the erasure is done", func() (done bool) {
		check(t, db.QueryRow(t.Context(), "select done from erasures where id = 'eras_0'").Scan(&done))
		return done
	})
	if m, left := counts(); m != most || left >= objects {
		t.Errorf("of %d objects %d are left, and one has %d users, want %d", objects, left, m, most)
	}
	if x, err := c.Exchange("acme", kept); err != nil || len(x.RawRequest) == 0 {
		t.Errorf("what is kept cannot be read: %v", err)
	}
	_, err = c.Erase(t.Context(), "acme", record.Selection{All: true}, false)
	check(t, err)
	eventually(t, "nothing is left", func() (none bool) {
		check(t, db.QueryRow(t.Context(), "select not exists (select from objects) and not exists (select from released)").Scan(&none))
		return none
	})
}

// uncount makes the tables those of the version before objects counted their users.
func uncount(t *testing.T, db *pgx.Conn) {
	t.Helper()
	_, err := db.Exec(t.Context(), `
		drop function mneme.count_users cascade; drop function mneme.release cascade;
		drop table mneme.released; alter table mneme.objects drop column users;
		update mneme.meta set value = '12' where name = 'version'`)
	check(t, err)
}
