package catalog_test

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
)

func TestADatabaseThatCannotBeOpenedIsNotTouchedAndTheErrorSaysWhatToDo(t *testing.T) {
	server := postgrestest.Start(t, false)
	url := server.Database(t)
	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(t.Context()) }()
	do := func(statement string) {
		t.Helper()
		if _, err := db.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	mustFail := func(url, centre, want string) {
		t.Helper()
		c, err := catalog.Open(t.Context(), catalog.Options{URL: url, Centre: centre, Cache: openEngine(t, 0).Shared()})
		if err == nil {
			c.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("it is opened, or the error is not about %q: %v", want, err)
		}
	}
	mustFail("postgres://mneme:hunter2@127.0.0.1:port/memory", "one", "write postgres://")
	mustFail("postgres://mneme:hunter2@127.0.0.1:1/memory", "one", "cannot be reached")
	mustFail(strings.Replace(url, "memory_", "absent_", 1), "one", "createdb")
	do("create role weak login password 'hunter2'")
	mustFail(strings.Replace(url, "mneme@", "weak:hunter2@", 1), "one", "GRANT CREATE")

	openCatalog(t, openEngine(t, 0), url).Close()
	mustFail(url, "another", "another centre")
	do("update mneme.meta set value = '99' where name = 'version'")
	mustFail(url, "one", "use a later one")
}
