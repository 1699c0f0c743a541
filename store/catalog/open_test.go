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
	do("update mneme.meta set value = '10' where name = 'version'")
	mustFail(url, "one", "export the memory with the program that made them (mneme export)")
}

// Tables of the first version may note changes of turns for a search engine.
func TestTablesOfTheFirstVersionNoteNothingForASearchEngine(t *testing.T) {
	url, accounts := postgrestest.Shared(t).Memory(t), openEngine(t, 0)
	openCatalog(t, accounts, url).Close()
	db := connect(t, url)
	uncount(t, db)
	_, err := db.Exec(t.Context(), `
		create table mneme.unindexed (account bigint, exchange text);
		create table mneme.leaving (account bigint primary key);
		create sequence mneme.changes;
		create function mneme.copy_again() returns trigger language plpgsql set search_path from current as $$ begin
			insert into mneme.unindexed values (new.account, new.exchange);
			return null;
		end $$;
		create trigger copied after insert or delete or update of terms on mneme.turns for each row execute function mneme.copy_again();
		insert into mneme.meta values ('fill', 'new'), ('engine', 'OpenSearch');
		update mneme.meta set value = '11' where name = 'version'`)
	check(t, err)
	for range 2 {
		c := openCatalog(t, accounts, url)
		edge := openEngine(t, 1)
		f := firstFrame(t, edge)
		if taken, err := c.Take(t.Context(), &f, noneAside); err != nil || !taken {
			t.Fatalf("a frame is taken: %v (%v)", taken, err)
		}
		check(t, c.Wait(t.Context(), "acme"))
		c.Close()
	}
	var left int
	check(t, db.QueryRow(t.Context(), `select count(*) from pg_class where relname in ('unindexed', 'leaving', 'changes') and relnamespace = 'mneme'::regnamespace`).Scan(&left))
	if left != 0 {
		t.Errorf("%d of its tables are left", left)
	}
}
