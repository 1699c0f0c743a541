package catalog_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// fill adds exchanges to the account with the first number, up to so many, as copies of one: each with its turn, the terms of which
// are common ones, and with six objects, and with a session for each fourteen. They are kept for a year longer than others.
func fill(t *testing.T, db *pgx.Conn, from, to int) {
	t.Helper()
	for _, statement := range [...]string{
		`create temporary table if not exists one as select * from exchanges order by id limit 1`,
		`create temporary table if not exists its as select t.* from turns t join one on t.exchange = one.id`,
		`create temporary table if not exists its_session as select s.* from sessions s join one on s.id = one.session`,
		`insert into objects (account, ref, refs, value)
			select account, '\x00'::bytea || sha256(i::text::bytea), '', '\x00' from one, generate_series($1::int * 6, $2::int * 6 - 1, 2) i`,
		`insert into objects (account, ref, refs, value)
			select account, '\x00'::bytea || sha256(i::text::bytea), '\x00'::bytea || sha256((i - 1)::text::bytea), '\x00'
			from one, generate_series($1::int * 6 + 1, $2::int * 6 - 1, 2) i`,
		`insert into exchanges (account, id, session, kept, speaks, digested, request_bytes, response_bytes, record, refs, body)
			select account, 'exch_' || i, 'sess_' || i / 14, kept + make_interval(days => 365, secs => i), speaks, true, request_bytes, response_bytes, record,
				'\x00'::bytea || sha256((i * 6 + 1)::text::bytea), body
			from one, generate_series($1::int, $2::int - 1) i`,
		`insert into sessions (account, id, place, record)
			select account, 'sess_' || i, i::text, record from its_session, generate_series(($1::int + 13) / 14, ($2::int - 1) / 14) i`,
		`insert into links (account, key, session) select account, sha256(i::text::bytea), 'sess_' || i / 14 from one, generate_series($1::int, $2::int - 1) i`,
		`insert into histories (account, session, hash, note)
			select account, 'sess_' || i / 14, sha256(i::text::bytea), '' from one, generate_series($1::int, $2::int - 1) i`,
		`insert into turns (account, exchange, began, terms, record)
			select account, 'exch_' || i, began - make_interval(secs => i), terms, record from its, generate_series($1::int, $2::int - 1) i`,
	} {
		args := []any{from, to}
		if !strings.Contains(statement, "$1") {
			args = nil
		}
		_, err := db.Exec(t.Context(), statement, args...)
		check(t, err)
	}
	_, err := db.Exec(t.Context(), "vacuum analyze")
	check(t, err)
}

// What arrives is taken, digested, found and erased, by request and by age, in an account of one size, and in one four times as large. No statement reads more in the
// latter: the heights of indexes are the same.
func TestStatementsReadWhatTheyNeedHoweverLargeTheAccountIs(t *testing.T) {
	server := postgrestest.Shared(t)
	url := server.Memory(t)
	accounts, db := openEngine(t, 0), connect(t, url)
	_, err := db.Exec(t.Context(), `set search_path = mneme; do $$ declare part regclass; begin
		for part in select oid from pg_class where relkind = 'r' and relispartition loop
			execute format('alter table %s set (autovacuum_enabled = off)', part); -- it changes what others read, at any time
		end loop; end $$`)
	check(t, err)
	after := uint64(0)
	check(t, accounts.Shipping().Begin(t.Context()))
	says := func(c *catalog.Catalog, session string, turns int) (first string) {
		history := ""
		for turn := range turns {
			said := fmt.Sprintf(`{"role":"user","content":"question %d of %s: %s"}`, turn, session, strings.Repeat(session+" ", 400))
			id := askAbout(t, accounts, session, history+said)
			history += said + `,{"role":"assistant","content":"answer"},`
			if turn == 0 {
				first = id
			}
			f, err := accounts.Shipping().Next(t.Context(), after)
			check(t, err)
			take(t, c, &f)
			after = f.Last
			check(t, c.Wait(t.Context(), "acme")) // no two are digested together
		}
		x, err := c.ExchangeInfo("acme", first)
		check(t, err)
		return x.Session
	}
	c := openCatalog(t, accounts, url)
	says(c, "first", 1)
	c.Close()

	explained := server.Explained(url)
	work := func(name string) map[string]int {
		var age atomic.Int64
		c, err := catalog.Open(t.Context(), catalog.Options{
			URL: explained, Centre: postgrestest.Centre, Cache: accounts.Shared(), Digest: digest.Exchange,
			Retention: func(string) identity.Retention { return identity.Retention{MaxAge: time.Duration(age.Load())} },
		})
		check(t, err)
		defer c.Close()
		says(c, name+"-warm", 2) // reads the tables' descriptions
		return server.Buffers(t, explained, func() {
			session := says(c, name, 14)
			says(c, name+"-old", 14)
			page, err := c.Search(t.Context(), "acme", &search.Request{Query: "question of " + name + " and its first answer"})
			if check(t, err); len(page.Data) == 0 {
				t.Error("nothing is found")
			}
			receipt, err := c.Erase(t.Context(), "acme", record.Selection{Sessions: []string{session}}, false)
			check(t, err)
			eventually(t, "the erasure is done", func() bool {
				e, err := c.Erasure("acme", receipt.ID)
				check(t, err)
				if e.State == record.ErasureDone && (e.Exchanges != 14 || e.Objects < 14) {
					t.Errorf("erased are %d exchanges and %d objects", e.Exchanges, e.Objects)
				}
				return e.State == record.ErasureDone
			})
			age.Store(1)
			eventually(t, "retention has erased the others", func() (is bool) {
				_ = catalog.Expire(t.Context(), c, "acme") // fails unless the centre leads by now
				check(t, db.QueryRow(t.Context(), `select not exists (select from exchanges where kept < now()) and not exists
					(select from erasures where not done)`).Scan(&is))
				return is
			})
		})
	}
	const size = 3_000
	fill(t, db, 0, size)
	small := work("small")
	fill(t, db, size, 4*size)
	large := work("large")
	if len(small) < 40 {
		t.Fatalf("%d statements were noted", len(small))
	}
	for statement, buffers := range large {
		const pages = 24 // by which the same work differs, since tables and indexes grow in pages
		if before, both := small[statement]; both && buffers > before+before/10+pages {
			t.Errorf("a statement reads %d buffers, and %d in an account four times as large: %s", before, buffers, statement)
		}
	}
}

func askAbout(t *testing.T, e *engine.Engine, chatKey, messages string) (id string) {
	t.Helper()
	body := []byte(`{"model":"m","messages":[`)
	o := record.Opening{Account: "acme", Surface: codec.Chat, Format: codec.Chat, ModelAsked: "m", ChatKey: chatKey, ContentType: "application/json"}
	for i, m := range strings.SplitAfter(messages, "},") {
		m = strings.TrimSuffix(m, ",")
		if i > 0 {
			body = append(body, ',')
		}
		o.Spans = append(o.Spans, codec.Span{Start: len(body), End: len(body) + len(m)})
		body = append(body, m...)
	}
	o.Body = append(body, `]}`...)
	r, err := e.Begin(t.Context(), &o)
	check(t, err)
	_, err = r.Write([]byte(`{"choices":[{"message":{"role":"assistant","content":"answer"}}]}`))
	check(t, err)
	check(t, r.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200}))
	return r.ID()
}
