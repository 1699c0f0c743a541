package catalog

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// Vectors are the vectors of the turns in a catalog, all made by one embedder. A trigger of the database notes the turns
// to embed, whichever version of the program digests them.
type Vectors struct{ catalog *database }

// Names of rows of meta: the embedder that made the vectors, and whether turns are to be embedded.
const (
	embedderName  = "embedder"
	embeddingName = "embedding"
)

// madeBy is a condition on the embedder, a parameter.
const madeBy = " exists (select from meta where name = '" + embedderName + "' and value = "

// Start has turns embedded, and searched by their likeness to the query. The centre that keeps the accounts decides
// whether they are: with nil they are not, nor if another embedder has made the stored vectors, until [Vectors.Rebuild]
// is called. It is called at most once.
func (v Vectors) Start(ctx context.Context, e search.Embedder) error {
	c := v.catalog
	if e != nil {
		var compares bool
		if err := c.pool.QueryRow(ctx, "select to_regprocedure('bit_count(bit)') is not null").Scan(&compares); err != nil {
			return unreadable(err)
		}
		if !compares {
			c.Log.Warn("searches are by words only: vectors need Postgres 14 or later")
			e = nil
		}
	}
	if !c.worker() {
		if err := v.choose(ctx, e); err != nil {
			return unreadable(err)
		}
	}
	if e == nil {
		return nil
	}
	made, err := search.NewVectors(e, c.Log)
	if err != nil {
		return err
	}
	c.likes.vectors.Store(made)
	Recalled{c}.Beside(func(life context.Context) {
		c.follow(life, c.likes.digested, "turns could not be embedded; retrying", v.embedSome)
	})
	return nil
}

// choose stores whether turns are embedded. Those that have no vector yet are noted when that begins.
func (v Vectors) choose(ctx context.Context, e search.Embedder) error {
	return v.catalog.update(ctx, func(tx pgx.Tx) error {
		var made *string
		err := tx.QueryRow(ctx, "select (select value from meta where name = $1) from pg_advisory_xact_lock($2, 0)", embedderName, lockSchema).Scan(&made)
		if err != nil {
			return err
		}
		if e == nil || made != nil && *made != e.Identity() {
			if e != nil {
				v.catalog.Log.Warn("searches are by words only: another embedder has made the stored vectors; rebuild them with: mneme reindex vectors",
					"stored", *made, "configured", e.Identity())
			}
			_, err := tx.Exec(ctx, "delete from meta where name = $1", embeddingName)
			return err
		}
		return begin(ctx, tx, e.Identity())
	})
}

// Rebuild has the vectors of all turns made again, by the present embedder.
func (v Vectors) Rebuild(ctx context.Context) error {
	made := v.catalog.likes.vectors.Load()
	if made == nil {
		return codec.Errorf(codec.KindUnsupported, "No embedder is configured (search.embedder).")
	}
	err := v.catalog.update(ctx, func(tx pgx.Tx) error {
		for _, statement := range [...]string{"delete from meta where name in ('" + embedderName + "', '" + embeddingName + "')", "truncate vectors"} {
			if _, err := tx.Exec(ctx, statement); err != nil {
				return err
			}
		}
		return begin(ctx, tx, made.Identity())
	})
	return unreadable(err)
}

// begin has turns embedded, unless they are already. Turns cannot change until the transaction ends, because a change of
// them that does not see it would not be noted.
func begin(ctx context.Context, tx pgx.Tx, identity string) error {
	done, err := tx.Exec(ctx, "insert into meta values ($1, 'yes') on conflict do nothing", embeddingName)
	if err != nil || done.RowsAffected() == 0 {
		return err
	}
	if _, err := tx.Exec(ctx, "insert into meta values ($1, $2) on conflict do nothing", embedderName, identity); err != nil {
		return err
	}
	if _, err := tx.Exec(ctx, "lock table turns in share mode"); err != nil {
		return err
	}
	_, err = tx.Exec(ctx, `insert into unembedded (account, exchange) select account, exchange from turns t where terms is not null
		and not exists (select from vectors v where v.account = t.account and v.exchange = t.exchange) order by 1, 2
		on conflict (account, exchange) do update set changed = excluded.changed, claimed = null`)
	return err
}

const (
	embeddedTurns = 64
	embedClaim    = 5 * time.Minute // how long turns stay claimed by a process that has died
)

// embedSome embeds some turns of the account that has waited longest. Those that it cannot embed are claimed no longer, also
// if this process is being stopped.
func (v Vectors) embedSome(ctx context.Context) (more bool, err error) {
	c, made := v.catalog, v.catalog.likes.vectors.Load()
	lasting, cancel := outlasting(ctx)
	defer cancel()
	number, marked, err := v.claim(lasting, made)
	if err == nil && len(marked) == 0 {
		err = v.lookForOther(ctx, made)
	}
	if err != nil || len(marked) == 0 {
		return false, err
	}
	ids := slices.Collect(maps.Keys(marked))
	stored, rests, err := v.embed(ctx, made, number, ids)
	if err == nil && !rests {
		err = v.keep(ctx, made.Identity(), number, stored, marked)
	}
	if err != nil || rests {
		_, failed := c.pool.Exec(lasting, "update unembedded set claimed = null where account = $1 and exchange = any($2)", int64(number), ids)
		return rests && ctx.Err() == nil, cmp.Or(err, failed)
	}
	return true, nil
}

// embed returns the vectors of turns of an account. rests reports that the embedder has failed: the account rests, and
// others go on.
func (v Vectors) embed(ctx context.Context, made *search.Vectors, number record.AccountNumber, ids []string) (stored []search.StoredVector, rests bool, err error) {
	turns, err := v.catalog.entries(ctx, "x.id = any($2)", int64(number), ids)
	if err != nil {
		return nil, false, err
	}
	marks, err := v.marks(ctx, number, ids)
	if err != nil {
		return nil, false, err
	}
	stored, failed := made.Embed(ctx, v.catalog.accounts.nameOf(number), number, turns, marks)
	return stored, failed != nil, nil
}

// outlasting returns a context that ends [leavingTime] after another one.
func outlasting(ctx context.Context) (context.Context, context.CancelFunc) {
	lasting, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() { time.AfterFunc(leavingTime, cancel) })
	return lasting, func() {
		stop()
		cancel()
	}
}

// lookForOther notes whether turns are embedded by another embedder, and reports it once.
func (v Vectors) lookForOther(ctx context.Context, made *search.Vectors) error {
	c := v.catalog
	var other string
	err := c.pool.QueryRow(ctx, "select value from meta where name = $1 and value <> $2 and exists (select from meta where name = $3)",
		embedderName, made.Identity(), embeddingName).Scan(&other)
	if err := unlessMissing(err); err != nil {
		return err
	}
	if before := c.likes.other.Swap(&other); other != "" && (before == nil || *before != other) {
		c.Log.Warn("this process embeds no turns: another embedder makes the stored vectors; set search.embedder to that one here too, or change over at the centre with: mneme reindex vectors",
			"stored", other, "configured", made.Identity())
	}
	return nil
}

// Idle reports whether this process embeds nothing because the stored vectors are made by another embedder than its own.
func (v Vectors) Idle() bool {
	other := v.catalog.likes.other.Load()
	return other != nil && *other != ""
}

// claim claims the newest turns of an account to be embedded, and returns the numbers of their changes.
func (v Vectors) claim(ctx context.Context, made *search.Vectors) (account record.AccountNumber, marked map[string]int64, err error) {
	resting := []int64{} // never null
	for _, number := range made.Resting() {
		resting = append(resting, int64(number))
	}
	rows, err := v.catalog.pool.Query(ctx, `
		with first as (
			select account from unembedded where (claimed is null or claimed < now() - $1::interval) and account <> all($2) and`+madeBy+`$3)
			order by changed limit 1
		), taken as (
			select u.account, u.exchange from unembedded u join first using (account) where claimed is null or claimed < now() - $1::interval
			order by u.exchange desc limit $4 for update of u skip locked
		)
		update unembedded u set claimed = clock_timestamp() from taken t where u.account = t.account and u.exchange = t.exchange
		returning u.account, u.exchange, u.changed`, embedClaim, resting, made.Identity(), embeddedTurns)
	if err != nil {
		return 0, nil, err
	}
	marked = make(map[string]int64)
	var number, changed int64
	var exchange string
	_, err = pgx.ForEachRow(rows, []any{&number, &exchange, &changed}, func() error {
		account, marked[exchange] = record.AccountNumber(number), changed
		return nil
	})
	return account, marked, err
}

// marks returns the marks of the stored vectors of turns.
func (v Vectors) marks(ctx context.Context, account record.AccountNumber, ids []string) (map[string][]byte, error) {
	marks := make(map[string][]byte)
	return marks, readInto(ctx, v.catalog.pool, marks, "select exchange, substring(value for $3) from vectors where account = $1 and exchange = any($2)", int64(account), ids, search.VectorMark)
}

// keep stores the vectors of turns that have not changed since they were claimed, unless another embedder is to make them
// by now, and removes the notes of those turns. Another process may have embedded the others.
func (v Vectors) keep(ctx context.Context, identity string, account record.AccountNumber, stored []search.StoredVector, marked map[string]int64) error {
	var done []string
	var changes []int64
	for id, changed := range marked {
		done, changes = append(done, id), append(changes, changed)
	}
	return v.catalog.update(ctx, func(tx pgx.Tx) error {
		err := tx.QueryRow(ctx, "select from meta where name = $1 and value = $2 for share", embedderName, identity).Scan()
		if err != nil {
			return unlessMissing(err)
		}
		// An erasure deletes exchanges first, and then what belongs to them.
		if _, err := tx.Exec(ctx, "select from exchanges where account = $1 and id = any($2) order by id for key share", int64(account), done); err != nil {
			return err
		}
		rows, err := tx.Query(ctx, `delete from unembedded u using unnest($2::text[], $3::bigint[]) d (exchange, changed)
			where u.account = $1 and u.exchange = d.exchange and u.changed = d.changed returning u.exchange`, int64(account), done, changes)
		if err != nil {
			return err
		}
		same, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			return err
		}
		return put(ctx, tx, account, slices.DeleteFunc(slices.Clone(stored), func(s search.StoredVector) bool { return !slices.Contains(same, s.Exchange) }))
	})
}

// put stores vectors of turns, and deletes those of turns that have none.
func put(ctx context.Context, tx pgx.Tx, account record.AccountNumber, stored []search.StoredVector) error {
	var ids, without []string
	var signs []pgtype.Bits
	var values [][]byte
	for _, s := range stored {
		if s.Value == nil {
			without = append(without, s.Exchange)
			continue
		}
		ids, values = append(ids, s.Exchange), append(values, s.Value)
		signs = append(signs, bitsOf(s.Signs))
	}
	batch := new(pgx.Batch)
	if len(ids) > 0 {
		batch.Queue(`insert into vectors (account, exchange, signs, value) select $1, n.* from unnest($2::text[], $3::varbit[], $4::bytea[]) n
			on conflict (account, exchange) do update set signs = excluded.signs, value = excluded.value`, int64(account), ids, signs, values)
	}
	if len(without) > 0 {
		batch.Queue("delete from vectors where account = $1 and exchange = any($2)", int64(account), without)
	}
	return tx.SendBatch(ctx, batch).Close()
}

func bitsOf(signs []byte) pgtype.Bits {
	return pgtype.Bits{Bytes: append([]byte{}, signs...), Len: int32(8 * len(signs)), Valid: true}
}

// Waiting returns how many turns are to be embedded, at most 100,000.
func (v Vectors) Waiting(ctx context.Context) (turns int, err error) {
	if v.catalog.likes.vectors.Load() == nil {
		return 0, nil
	}
	err = v.catalog.pool.QueryRow(ctx, "select count(*) from (select from unembedded limit $1) x", mostUndigested).Scan(&turns)
	return turns, unreadable(err)
}

// status returns the state of the vectors of an account; nil if turns are not embedded.
func (v Vectors) status(ctx context.Context, account int64) (*search.VectorStatus, error) {
	made := v.catalog.likes.vectors.Load()
	if made == nil {
		return nil, nil //nolint:nilnil // there are none
	}
	s := &search.VectorStatus{Embedder: made.Identity()}
	var known bool
	err := v.catalog.pool.QueryRow(ctx, `select count(*) filter (where length(signs) > 0), coalesce(sum(length(value)), 0),
		(select count(*) from unembedded where account = $1), `+madeBy+"$2) from vectors where account = $1", account, made.Identity()).
		Scan(&s.Documents, &s.Bytes, &s.Lag, &known)
	s.Done, s.Total, s.Building = s.Documents, s.Documents+s.Lag, s.Lag > manyUnembedded
	if !known {
		s.Error = errOtherEmbedder.Message
	}
	return s, err
}

var errOtherEmbedder = codec.Errorf(codec.KindUnsupported, "another embedder has made the stored vectors; rebuild them with: mneme reindex vectors")

// Limits of a search by likeness.
const (
	alikeTurns     = 800  // compared in full
	manyUnembedded = 1000 // a search says so
)

// compare adds the turns whose vectors are most like the query to the candidates of a search, and has them compared in
// full. It does nothing for a search by words.
func (c *database) compare(ctx context.Context, account string, find *candidates, ids []string) ([]string, error) {
	v, number, wanted := c.likes.vectors.Load(), find.account, find.wanted
	text := wanted.Likes(v)
	if text == "" {
		return ids, nil
	}
	q, err := v.Query(ctx, account, number, text)
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		wanted.Compare(v, nil, nil, nil, "", err)
		return ids, nil
	}
	var known, many bool
	err = c.pool.QueryRow(ctx, "select "+madeBy+"$1), (select count(*) from (select from unembedded where account = $2 limit $3) x) = $3",
		v.Identity(), int64(number), manyUnembedded).Scan(&known, &many)
	if err != nil {
		return nil, err
	}
	if !known {
		wanted.Compare(v, nil, nil, nil, "", errOtherEmbedder)
		return ids, nil
	}
	alike, err := find.alike(ctx, q)
	if err != nil {
		return nil, err
	}
	for _, id := range alike {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	stored, err := storedVectors(ctx, c.pool, number, "exchange = any($2)", ids)
	if err != nil {
		return nil, err
	}
	centre, err := c.likes.centres.of(ctx, c.pool, number, v)
	if err != nil {
		return nil, err
	}
	note := ""
	if many {
		note = "vectors: more than 1,000 turns have not been embedded yet"
	}
	wanted.Compare(v, q, centre, stored, note, nil)
	return ids, nil
}

// alike returns the turns whose vectors share most signs with a query.
func (c *candidates) alike(ctx context.Context, q *search.VectorQuery) ([]string, error) {
	w, demanded := c.wanted, ""
	if w.Demanded != nil {
		if demanded = tsquery(c.account, w.Demanded); demanded == "" {
			return nil, nil // no turn satisfies it
		}
	}
	within := ""
	arguments := []any{int64(c.account), bitsOf(q.Signs), alikeTurns}
	if demanded != "" || !w.Since.IsZero() || !w.Until.IsZero() {
		within = ` and exists (select from turns t where t.account = $1 and t.exchange = v.exchange and ($4 = '' or terms @@ $4::tsquery)
			and ($5::timestamptz <= '0002-01-01' or began >= $5) and ($6::timestamptz <= '0002-01-01' or began < $6))`
		arguments = append(arguments, demanded, w.Since, w.Until)
	}
	return c.ids(ctx, `select exchange from vectors v where account = $1 and length(signs) = length($2::varbit)`+within+`
		order by bit_count(signs # $2::varbit), exchange desc limit $3`, arguments...)
}

func storedVectors(ctx context.Context, pool *pgxpool.Pool, account record.AccountNumber, where string, argument any) ([]search.StoredVector, error) {
	rows, err := pool.Query(ctx, "select exchange, value from vectors where account = $1 and length(signs) > 0 and "+where, int64(account), argument)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (s search.StoredVector, err error) {
		return s, row.Scan(&s.Exchange, &s.Value)
	})
}

const (
	sampledVectors = 1024
	centreStays    = 10 * time.Minute // of a full sample; a smaller account may change within a search or two
	maxCentres     = 1000
)

// of returns the centre of the vectors of an account.
func (l *centres) of(ctx context.Context, pool *pgxpool.Pool, account record.AccountNumber, v *search.Vectors) ([]float32, error) {
	l.mu.Lock()
	known, ok := l.list[account]
	l.mu.Unlock()
	if ok && known.embedder == v.Identity() && time.Now().Before(known.until) {
		return known.value, nil
	}
	sample, err := storedVectors(ctx, pool, account, "exchange in (select exchange from vectors where account = $1 and length(signs) > 0 order by md5(exchange) limit $2)", sampledVectors)
	if err != nil {
		return nil, err
	}
	values := make([][]byte, len(sample))
	for i := range sample {
		values[i] = sample[i].Value
	}
	fresh := centre{embedder: v.Identity(), until: time.Now().Add(centreStays)}
	if fresh.value, err = v.Centre(values); err != nil || len(sample) < sampledVectors {
		return fresh.value, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.list == nil || len(l.list) >= maxCentres {
		l.list = make(map[record.AccountNumber]centre)
	}
	l.list[account] = fresh
	return fresh.value, nil
}
