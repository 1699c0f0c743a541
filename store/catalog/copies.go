package catalog

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search"
)

const (
	changedTurns = 128             // in one request to the engine
	copyClaim    = 5 * time.Minute // how long changes stay claimed by a process that has died, and when refused ones are tried again
	dropAgain    = time.Hour       // after which copies of a deleted account are looked for once more, if a process was late with some
)

// chooseEngine stores which engine changes are noted for, as the centres that keep the accounts say. Another one is refused while a
// centre that has the stored one runs. Creating the triggers waits for the transactions that change turns, so that the first fill sees
// what they have changed.
func (c *Catalog) chooseEngine(ctx context.Context, tx pgx.Tx) error {
	if c.worker() {
		return nil
	}
	on, noted, err := notedEngine(ctx, tx, "")
	if err == nil {
		err = c.refuseEngine(ctx, tx, noted)
	}
	if err != nil {
		return err
	}
	var statements []string
	switch {
	case c.Engine == nil && on:
		statements = []string{
			"drop trigger copied on turns", "drop trigger copied on vectors", "truncate unindexed, leaving",
			"delete from meta where name in ('" + fillName + "', '" + engineName + "')",
		}
	case c.Engine != nil && !on:
		statements = []string{
			"create trigger copied after insert or delete or update of terms on turns for each row execute function copy_again()",
			"create trigger copied after insert or delete or update of value on vectors for each row execute function copy_again()",
			"insert into meta values ('" + fillName + "', '" + noFill + "')",
		}
	}
	if c.Engine != nil { // after the database was restored, versions continue above those that the engine has
		statements = append(statements, `select setval('changes', greatest((select last_value from changes), (extract(epoch from clock_timestamp()) * 1000000)::bigint))`)
	}
	for _, statement := range statements {
		if _, err := tx.Exec(ctx, statement); err != nil {
			return err
		}
	}
	if c.Engine != nil {
		_, err = tx.Exec(ctx, "insert into meta values ($1, $2) on conflict (name) do update set value = excluded.value", engineName, c.Engine.Name())
	}
	return err
}

// What [notedEngine] calls the database, and an engine that a centre of an earlier version has chosen.
const (
	databaseName  = "postgres"
	unnamedEngine = "OpenSearch"
)

// notedEngine returns whether changes are noted for an engine, and what finds candidates. schema has the tables, with its dot; "": it is
// that of the connection.
func notedEngine(ctx context.Context, q querier, schema string) (on bool, name string, err error) {
	err = q.QueryRow(ctx, "select exists (select from "+schema+"meta where name = $1), coalesce((select value from "+schema+"meta where name = $2), $3)",
		fillName, engineName, unnamedEngine).Scan(&on, &name)
	if !on {
		name = databaseName
	}
	return on, name, err
}

// sameEngine reports whether what is noted and what is wanted are the same, as far as is known.
func sameEngine(noted, wanted string) bool {
	return noted == wanted || noted == unnamedEngine && wanted != databaseName
}

// engineName returns what this process takes candidates from.
func (c *Catalog) engineName() string {
	if c.Engine == nil {
		return databaseName
	}
	return c.Engine.Name()
}

// checkEngine returns an error if the noted engine is another one than that of this process. A centre that was without the database for
// longer than [aliveFor] counted as gone, and others may have chosen an engine meanwhile.
func (c *Catalog) checkEngine(ctx context.Context) error {
	_, noted, err := notedEngine(ctx, c.pool, "")
	if err == nil && !sameEngine(noted, c.engineName()) {
		err = fmt.Errorf("the memory is used with centre.search: %s, and this process has %s: give it the same, and start it again", noted, c.engineName())
	}
	return err
}

// refuseEngine returns an error if this centre would have others use another engine than the noted one.
func (c *Catalog) refuseEngine(ctx context.Context, tx pgx.Tx, noted string) error {
	wanted := c.engineName()
	if sameEngine(noted, wanted) {
		return nil
	}
	var other *string
	err := tx.QueryRow(ctx, "select min(name) from centres where node <> $1 and seen > clock_timestamp() - $2::interval", int32(c.Seat.Node), aliveFor).Scan(&other)
	if err != nil || other == nil {
		return err
	}
	return fmt.Errorf("%s runs with centre.search: %s, and this one has %s: give every centre the same, stop all of them, then start them again; one that was killed counts as running for %s",
		*other, noted, wanted, aliveFor)
}

// copySome has the engine change some copies.
func (c *Catalog) copySome(ctx context.Context) (more bool, err error) {
	if c.copies.resting() {
		return false, nil
	}
	fill, err := c.fill(ctx)
	changed := 0
	if err == nil && fill != "" {
		if err = c.dropAccounts(ctx, 0); err == nil {
			changed, err = c.change(ctx, fill, 0)
		}
	}
	var failed *engineError
	switch {
	case errors.As(err, &failed) && ctx.Err() == nil:
		c.engineFailed(failed.cause)
		return false, nil
	case err == nil && fill != "" && changed < changedTurns && c.copies.succeed():
		c.Log.Info("the search engine is back, and has what it had missed")
	}
	return changed > 0, err
}

// fill returns what the copies of the engine belong to, once they belong to this memory; "" if they do not, or changes are not noted.
// The centre has all turns noted if there are none.
func (c *Catalog) fill(ctx context.Context) (string, error) {
	var wanted string
	err := c.pool.QueryRow(ctx, "select value from meta where name = $1", fillName).Scan(&wanted)
	if err != nil {
		return "", unlessMissing(err)
	}
	if known, fresh := c.copies.known(); fresh && known == wanted {
		return wanted, nil
	}
	if wanted != noFill {
		there, err := c.Engine.Fill(ctx)
		if err != nil {
			return "", ofEngine(err)
		}
		if there == wanted {
			c.copies.found(wanted)
			return wanted, nil
		}
	}
	if c.worker() {
		return "", nil // the centre begins
	}
	return c.refill(ctx, wanted)
}

// refill has an empty engine, and all turns noted for it.
func (c *Catalog) refill(ctx context.Context, former string) (fill string, err error) {
	if err := c.checkEngine(ctx); err != nil {
		return "", err
	}
	err = c.update(ctx, func(tx pgx.Tx) error {
		var present string
		err := tx.QueryRow(ctx, "select value from meta where name = $1 for update", fillName).Scan(&present)
		if err != nil || present != former { // another process has begun
			return unlessMissing(err)
		}
		next := strings.ToLower(rand.Text())
		if err := c.Engine.Begin(ctx, c.centre, next); err != nil {
			return ofEngine(err)
		}
		if _, err := tx.Exec(ctx, "update meta set value = $2 where name = $1", fillName, next); err != nil {
			return err
		}
		_, err = tx.Exec(ctx, `insert into unindexed (account, exchange, noted) select account, exchange, '-infinity' from turns where terms is not null
			on conflict (account, exchange) do update set changed = nextval('changes'), noted = '-infinity', claimed = null`)
		if err == nil {
			fill = next
		}
		return err
	})
	if err != nil || fill == "" {
		return "", err
	}
	c.Log.Info("the search engine is filled from the database; until an account is complete there, its searches take candidates from Postgres")
	c.copies.found(fill)
	return fill, nil
}

// change has copies changed, of one account only that of turns that are gone; 0: of all. It returns how many it has tried to.
func (c *Catalog) change(ctx context.Context, fill string, account store.AccountNumber) (tried int, err error) {
	changes, err := c.claimChanges(ctx, fill, account)
	if err != nil || len(changes) == 0 {
		return 0, err
	}
	if err := c.readChanges(ctx, changes); err != nil {
		return 0, err
	}
	outcomes, err := c.Engine.Put(ctx, changes)
	if err == nil && len(outcomes) != len(changes) {
		err = errors.New("the search engine does not say what has become of all changes")
	}
	if err != nil {
		outcomes = make([]Outcome, len(changes))
		for i := range outcomes {
			outcomes[i] = CopyLater
		}
	}
	failed := ofEngine(err)
	if err := c.settleChanges(context.WithoutCancel(ctx), fill, changes, outcomes); err != nil {
		return 0, err
	}
	for i, o := range outcomes {
		switch {
		case o == CopyLater && failed == nil:
			failed = ofEngine(errors.New("it could not take all changes"))
		case o == CopyRefused:
			c.copies.refused.Add(1)
			c.Log.Error("the search engine refuses a turn; searches of the account use Postgres until it takes it", "account", changes[i].Account, "exchange", changes[i].Exchange)
		}
	}
	return len(changes), failed
}

// claimChanges claims the oldest changes.
func (c *Catalog) claimChanges(ctx context.Context, fill string, account store.AccountNumber) ([]Change, error) {
	rows, err := c.pool.Query(ctx, `
		with taken as (
			select account, exchange from unindexed u where (claimed is null or claimed < now() - $1::interval)
				and ($2 = 0 or account = $2 and not exists (select from turns t where t.account = u.account and t.exchange = u.exchange and terms is not null))
				and exists (select from meta where name = $3 and value = $4)
			order by changed limit $5 for update skip locked
		)
		update unindexed u set claimed = clock_timestamp() from taken t where u.account = t.account and u.exchange = t.exchange
		returning u.account, u.exchange, u.changed`, copyClaim, int64(account), fillName, fill, changedTurns)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (change Change, err error) {
		var number int64
		err = row.Scan(&number, &change.Exchange, &change.Version)
		change.Account = store.AccountNumber(number)
		return change, err
	})
}

// readChanges reads the present state of the turns.
func (c *Catalog) readChanges(ctx context.Context, changes []Change) error {
	accounts, exchanges := make([]int64, len(changes)), make([]string, len(changes))
	for i := range changes {
		accounts[i], exchanges[i] = int64(changes[i].Account), changes[i].Exchange
	}
	rows, err := c.pool.Query(ctx, `
		select n.place, t.began, tsvector_to_array(t.terms), v.value, coalesce((select value from meta where name = $3), '')
		from unnest($1::bigint[], $2::text[]) with ordinality n (account, exchange, place)
		join turns t on t.account = n.account and t.exchange = n.exchange and t.terms is not null
		left join vectors v on v.account = n.account and v.exchange = n.exchange and length(v.signs) > 0`, accounts, exchanges, embedderName)
	if err != nil {
		return err
	}
	var place int
	var began time.Time
	var terms []string
	var vector search.StoredVector
	var embedder string
	_, err = pgx.ForEachRow(rows, []any{&place, &began, &terms, &vector.Value, &embedder}, func() error {
		change := &changes[place-1]
		change.Turn = &Copied{Began: began, Terms: make([]string, len(terms)), Codes: vector.Codes()}
		if change.Turn.Codes != nil {
			change.Turn.Embedder = embedder
		}
		prefix := lexemePrefix(change.Account)
		for i, term := range terms {
			change.Turn.Terms[i] = strings.TrimPrefix(term, prefix)
		}
		return nil
	})
	return err
}

// settleChanges removes the notes of changes that are made and have not been followed by others, and gives up the claims of those to
// make later.
func (c *Catalog) settleChanges(ctx context.Context, fill string, changes []Change, outcomes []Outcome) error {
	var accounts, versions []int64
	var exchanges []string
	var done []bool
	for i, o := range outcomes {
		if o != CopyRefused {
			accounts, exchanges = append(accounts, int64(changes[i].Account)), append(exchanges, changes[i].Exchange)
			versions, done = append(versions, changes[i].Version), append(done, o == CopyDone)
		}
	}
	_, err := c.pool.Exec(ctx, `
		with outcome as (select * from unnest($1::bigint[], $2::text[], $3::bigint[], $4::bool[]) o (account, exchange, changed, done)),
		made as (
			delete from unindexed u using outcome o where o.done and u.account = o.account and u.exchange = o.exchange and u.changed = o.changed
				and exists (select from meta where name = $5 and value = $6)
		)
		update unindexed u set claimed = null from outcome o
		where not o.done and u.account = o.account and u.exchange = o.exchange and u.changed = o.changed`,
		accounts, exchanges, versions, done, fillName, fill)
	return err
}

// dropCopies has the copies of erased turns of an account deleted. done is false if another process is still changing some. It fails if
// the copies are in another engine, of which this process knows nothing.
func (c *Catalog) dropCopies(ctx context.Context, account store.AccountNumber) (done bool, err error) {
	if err := c.checkEngine(ctx); err != nil {
		return false, err
	}
	if c.Engine == nil {
		return true, nil
	}
	if c.copies.resting() {
		return false, nil
	}
	fill, err := c.fill(ctx)
	for tried := 1; tried > 0 && fill != "" && err == nil; {
		tried, err = c.change(ctx, fill, account)
	}
	if err == nil {
		err = c.pool.QueryRow(ctx, `select not exists (select from unindexed u where account = $1
			and not exists (select from turns t where t.account = $1 and t.exchange = u.exchange and terms is not null))`, int64(account)).Scan(&done)
	}
	if err == nil && done {
		err = ofEngine(c.Engine.Refresh(ctx))
	}
	var failed *engineError
	if errors.As(err, &failed) && ctx.Err() == nil {
		c.engineFailed(failed.cause)
		return false, nil
	}
	return done && err == nil, err
}

// waitForCopies returns when the engine has the turns of an account that are noted by now, or fails: searches do without it then.
func (c *Catalog) waitForCopies(ctx context.Context, account int64) error {
	if c.Engine == nil {
		return nil
	}
	var last *time.Time // those noted again later keep the time of their first note
	if err := c.pool.QueryRow(ctx, "select max(noted) from unindexed where account = $1 and noted >= now() - $2::interval", account, lateNote).Scan(&last); err != nil {
		return unreadable(err)
	}
	for waiting := last != nil; waiting; {
		err := c.pool.QueryRow(ctx, "select exists (select from unindexed where account = $1 and noted between now() - $3::interval and $2)",
			account, last, lateNote).Scan(&waiting)
		if err != nil {
			return unreadable(err)
		}
		if c.copies.resting() {
			return nil
		}
		c.copies.noted.Notify()
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), context.Cause(ctx))
		case <-time.After(waitLook):
		}
	}
	if err := c.Engine.Refresh(ctx); err != nil && ctx.Err() == nil {
		c.engineFailed(err)
	}
	return ctx.Err()
}

// dropAccounts has the copies of deleted accounts deleted: of one that was deleted just now, or for 0 of those that are due.
func (c *Catalog) dropAccounts(ctx context.Context, account store.AccountNumber) error {
	rows, err := c.pool.Query(ctx, "select account from leaving where case when $1 = 0 then again <= now() else account = $1 end", int64(account))
	if err != nil {
		return err
	}
	due, err := pgx.CollectRows(rows, pgx.RowTo[int64])
	if err != nil {
		return err
	}
	for _, number := range due {
		done, err := c.Engine.DropAccount(ctx, store.AccountNumber(number))
		if err == nil && !done {
			err = errors.New("it has not deleted all of a deleted account yet")
		}
		if err != nil {
			return ofEngine(err)
		}
		_, err = c.pool.Exec(ctx, `with gone as (delete from leaving where account = $1 and since < now() - $2::interval)
			update leaving set again = now() + $2::interval where account = $1 and since >= now() - $2::interval`, number, dropAgain)
		if err != nil {
			return err
		}
	}
	return nil
}

// dropAccount is dropAccounts for an account that was deleted just now.
func (c *Catalog) dropAccount(ctx context.Context, account store.AccountNumber) error {
	err := c.dropAccounts(ctx, account)
	var failed *engineError
	if errors.As(err, &failed) {
		e := codec.Errorf(codec.KindStorage, "the account is deleted, but the search engine still has turns of it: they are deleted there as soon as it answers")
		e.Cause, e.RetryAfter = failed.cause, firstRest
		return e
	}
	return err
}

// Copies is what the search engine of a catalog has of its turns.
type Copies struct{ catalog *Catalog }

// CopiesOf returns the part of a catalog for its engine.
func CopiesOf(c *Catalog) Copies { return Copies{c} }

// Waiting returns how many turns the engine has yet to take or delete, for all processes, at most 100,000.
func (k Copies) Waiting(ctx context.Context) (turns int, err error) {
	err = k.catalog.pool.QueryRow(ctx, "select count(*) from (select from unindexed limit $1) x", mostUndigested).Scan(&turns)
	return turns, unreadable(err)
}

// Failures returns how often the engine has failed, and how many turns it has refused, since this process began.
func (k Copies) Failures() (failed, refused int64) {
	return k.catalog.copies.failures.Load(), k.catalog.copies.refused.Load()
}
