//go:build unix

package catalog_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/catalog/pack/s3test"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/ship"
)

// BenchmarkGrown measures an account with many exchanges, most of them copies of rows: to take and digest more, to search, to
// erase a session of 14, and to make all turns again. It reports CPU times, and the longest time that a frame and a search took
// during an erasure and during reindex.
func BenchmarkGrown(b *testing.B) {
	server, service := postgrestest.Start(b, false), s3test.Start(b)
	for _, size := range []int{20_000, 200_000} {
		edge := openBenchEngine(b)
		address := server.Database(b)
		packs, err := pack.Open(b.Context(), service.Bucket(b), "centre", 64<<20)
		if err != nil {
			b.Fatal(err)
		}
		c, err := catalog.Open(b.Context(), catalog.Options{
			URL: address, Centre: "centre", Packs: packs, Cache: edge.Shared(),
			Retention: func(string) identity.Retention { return identity.Retention{} }, Digest: digest.Exchange,
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.Close)
		account, says, log := benchAccountNames()[0], newSpeaker(), &benchLog{edge: edge}
		recorded := 0
		say := func(session string) {
			recorded++
			o := record.Opening{Account: account, NativeSession: session}
			if session == "" {
				o.NativeSession = fmt.Sprint("agent-", recorded/14)
			}
			recordRequest(b, edge, o, []string{message("user", says.text(1900))}, says.text(400))
		}
		take := func(frames []*ship.Frame) {
			for _, f := range frames {
				if taken, err := c.Take(b.Context(), f, noneAside); err != nil || !taken {
					b.Fatal(taken, err)
				}
			}
		}
		wait := func() {
			if err := c.Wait(b.Context(), account); err != nil {
				b.Fatal(err)
			}
		}
		find := func() {
			if _, err := c.Search(b.Context(), account, &search.Request{Query: says.text(40)}); err != nil {
				b.Fatal(err)
			}
		}
		const seed = 4_000
		for range seed {
			say("")
		}
		take(log.frames(b, 256))
		wait()
		multiply(b, address, size/seed)
		// meanwhile takes frames and searches while work goes on, and reports the longest time of each.
		meanwhile := func(b *testing.B, goesOn func() bool) {
			var frame, found time.Duration
			for goesOn() {
				say("")
				frames, began := log.frames(b, 1), time.Now()
				take(frames)
				frame = max(frame, time.Since(began))
				began = time.Now()
				find()
				found = max(found, time.Since(began))
			}
			b.ReportMetric(float64(frame.Milliseconds()), "longest-frame-ms")
			b.ReportMetric(float64(found.Milliseconds()), "longest-search-ms")
		}
		cpu := func(b *testing.B, of string, times int, do func()) {
			own, database := ownCPU(), server.CPU(b)
			do()
			b.ReportMetric(float64((ownCPU()-own).Microseconds())/float64(times), "centre-µs/"+of)
			b.ReportMetric(float64((server.CPU(b)-database).Microseconds())/float64(times), "postgres-µs/"+of)
		}
		b.Run(fmt.Sprintf("exchanges=%d/take", size), func(b *testing.B) {
			for range b.N {
				say("")
			}
			frames := log.frames(b, 256)
			cpu(b, "exchange", b.N, func() { take(frames); wait() })
		})
		b.Run(fmt.Sprintf("exchanges=%d/search", size), func(b *testing.B) {
			times := min(b.N, 50)
			cpu(b, "search", times, func() {
				for range times {
					find()
				}
			})
		})
		b.Run(fmt.Sprintf("exchanges=%d/erase", size), func(b *testing.B) {
			for range 14 {
				say("to be erased")
			}
			take(log.frames(b, 256))
			wait()
			newest, err := c.Exchanges(account, record.ExchangeQuery{Limit: 1})
			if err != nil || len(newest.Data) == 0 {
				b.Fatal(newest, err)
			}
			session, err := c.Session(account, newest.Data[0].Session)
			if err != nil || session.Exchanges != 14 {
				sessions, _ := c.Sessions(account, record.SessionQuery{Limit: 3})
				b.Fatal(newest.Data[0], session, err, sessions)
			}
			began := time.Now()
			e, err := c.Erase(b.Context(), account, record.Selection{Sessions: []string{session.ID}}, false)
			if err != nil {
				b.Fatal(err)
			}
			meanwhile(b, func() bool {
				e, err := c.Erasure(account, e.ID)
				if err != nil {
					b.Fatal(err)
				}
				return e.State != record.ErasureDone
			})
			b.ReportMetric(float64(time.Since(began).Milliseconds()), "until-done-ms")
		})
		b.Run(fmt.Sprintf("exchanges=%d/reindex", size), func(b *testing.B) {
			began := time.Now()
			if err := c.Rebuild(b.Context()); err != nil {
				b.Fatal(err)
			}
			meanwhile(b, func() bool {
				status, err := c.Status(b.Context(), account)
				if err != nil {
					b.Fatal(err)
				}
				return status.Lag > 10 && time.Since(began) < longestReindex
			})
		})
	}
}

// longestReindex bounds for how long reindex is watched.
const longestReindex = 20 * time.Second

// multiply copies all rows of exchanges, turns, objects and sessions until there are so many times as many.
func multiply(b *testing.B, address string, times int) {
	b.Helper()
	db, err := pgx.Connect(b.Context(), address)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = db.Close(b.Context()) }()
	for _, statement := range [...]string{
		"set session_replication_role = replica", "set synchronous_commit = off",
		fmt.Sprintf(`insert into mneme.objects (account, ref, refs, value, pack, at, size, users)
			select account, substring(ref for 1) || sha256(ref || i::text::bytea), refs, value, pack, at, size, 1 from mneme.objects, generate_series(2, %d) i`, times),
		fmt.Sprintf(`insert into mneme.sessions (account, id, place, record)
			select account, id || '-' || i, place || '-' || i, record from mneme.sessions, generate_series(2, %d) i`, times),
		fmt.Sprintf(`insert into mneme.exchanges (account, id, session, kept, speaks, digested, request_bytes, response_bytes, record, refs, body, pack, at, size)
			select account, id || '-' || i, session || '-' || i, kept, speaks, true, request_bytes, response_bytes, record, refs, body, pack, at, size
			from mneme.exchanges, generate_series(2, %d) i`, times),
		fmt.Sprintf(`insert into mneme.turns (account, exchange, began, terms, record)
			select account, exchange || '-' || i, began - make_interval(hours => i), terms, record from mneme.turns, generate_series(2, %d) i`, times),
		"update mneme.packs set size = 1 << 30", // else they are joined, with all the copies that are in them
		"vacuum analyze", "checkpoint",
	} {
		if _, err := db.Exec(b.Context(), statement); err != nil {
			b.Fatalf("%s: %v", statement, err)
		}
	}
}
