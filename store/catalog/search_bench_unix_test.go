//go:build unix

package catalog_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/internal/identity"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// BenchmarkSearch is what a search of an account of so many turns costs a centre and its database.
func BenchmarkSearch(b *testing.B) {
	server := postgrestest.Start(b, false)
	for _, turns := range []int{2_000, 20_000} {
		edge := openBenchEngine(b)
		address := server.Database(b)
		c, err := catalog.Open(b.Context(), catalog.Options{
			URL: address, Centre: "centre", Cache: edge.Shared(),
			Retention: func(string) identity.Retention { return identity.Retention{} }, Digest: digest.Exchange,
		})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(c.Close)
		account, says := benchAccountNames()[0], newSpeaker()
		for range turns {
			recordRequest(b, edge, record.Opening{Account: account}, []string{message("user", says.text(2000))}, says.text(1000))
		}
		for _, f := range framesOf(b, edge, 256) {
			if taken, err := c.Take(b.Context(), f, noneAside); err != nil || !taken {
				b.Fatal(taken, err)
			}
		}
		if err := c.Wait(b.Context(), account); err != nil {
			b.Fatal(err)
		}
		tidy(b, address)
		for _, asked := range []struct {
			name    string
			request func() *search.Request
		}{
			{"rare=1", func() *search.Request { return &search.Request{Query: says.rareWord()} }},
			{"common=8", func() *search.Request { return &search.Request{Query: says.text(40)} }},
			{"common=8/sessions", func() *search.Request {
				return &search.Request{Query: says.text(40), Granularity: search.Sessions}
			}},
			{"rare=2,common=6", func() *search.Request {
				return &search.Request{Query: strings.Join([]string{says.rareWord(), says.text(30), says.rareWord()}, " ")}
			}},
			{"recall/words", func() *search.Request { return demanding(says.text(50), false) }},
			{"recall/name", func() *search.Request { return demanding(says.text(40)+" E_"+says.rareWord()+"_9", true) }},
		} {
			b.Run(fmt.Sprintf("turns=%d/%s", turns, asked.name), func(b *testing.B) {
				centre, database := ownCPU(), server.CPU(b)
				for b.Loop() {
					if _, err := c.Search(b.Context(), account, asked.request()); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64((ownCPU()-centre).Microseconds())/float64(b.N), "centre-µs/search")
				b.ReportMetric(float64((server.CPU(b)-database).Microseconds())/float64(b.N), "postgres-µs/search")
			})
		}
	}
}

// demanding asks as recall does.
func demanding(query string, name bool) *search.Request {
	return &search.Request{
		Query: query, Syntax: search.Plain, Mode: search.Lexical, Limit: 12, Filter: search.Filter{And: search.Within(time.Now().Add(-time.Hour), time.Time{})},
		Demand: &lexical.Demand{Share: 0.35, Name: name, Enough: func(c lexical.Covered) bool { return c.Share >= 0.7 }},
	}
}

// tidy does what the database would do in the background while searches are measured.
func tidy(b *testing.B, address string) {
	connection, err := pgx.Connect(b.Context(), address)
	if err == nil {
		_, err = connection.Exec(b.Context(), "vacuum analyze")
		_ = connection.Close(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
}

// rareWord returns one of the words that few texts have.
func (s *speaker) rareWord() string { return s.words[len(s.words)-1-int(s.often.Uint64())] }
