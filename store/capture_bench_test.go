package store

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/blob"
	"github.com/mnemeproxy/mneme/store/record"
)

// BenchmarkCapture is the life of an exchange from Begin to Finish, many at a time.
func BenchmarkCapture(b *testing.B) {
	for _, size := range []struct {
		name            string
		request, answer int
	}{{"small", 300, 700}, {"40KB", 30_000, 10_000}} {
		b.Run(size.name, func(b *testing.B) {
			s := openStore(b, Options{})
			mustAccount(b, s, "acme")
			a := newAgent(7)
			text := a.words(1 << 20)
			var n atomic.Uint64
			b.SetBytes(int64(size.request + size.answer))
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(p *testing.PB) {
				rng := rand.New(rand.NewPCG(1, n.Add(1)))
				ctx := context.Background()
				body := make([]byte, 0, size.request+100)
				for p.Next() {
					// No two requests are alike: the prompt begins at a random place.
					at := rng.IntN(len(text) - size.request - 100)
					body = append(body[:0], `{"model":"m","messages":[`...)
					start := len(body)
					body = append(body, `{"role":"user","content":"`...)
					body = append(body, text[at:at+size.request-60]...)
					body = append(body, `"}`...)
					spans := []codec.Span{{Start: start, End: len(body)}}
					body = append(body, "]}"...)
					c, err := s.Begin(ctx, &record.Opening{Account: "acme", Surface: codec.Chat, Format: codec.Chat, Provider: "openai", ModelAsked: "m", Body: body, Spans: spans})
					if err != nil {
						b.Fatal(err)
					}
					if err := c.Recorded(ctx); err != nil {
						b.Fatal(err)
					}
					at = rng.IntN(len(text) - size.answer)
					if _, err := c.Write([]byte(text[at : at+size.answer])); err != nil {
						b.Fatal(err)
					}
					if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200}); err != nil {
						b.Fatal(err)
					}
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "exchanges/s")
		})
	}
}

// BenchmarkIdleWriter is what one exchange alone waits for: the commit of its opening, and that of its end.
func BenchmarkIdleWriter(b *testing.B) {
	s := openStore(b, Options{})
	mustAccount(b, s, "acme")
	ctx := context.Background()
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"hi"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		c, err := s.Begin(ctx, &record.Opening{Account: "acme", Surface: codec.Chat, Body: body, ChatKey: "k"})
		if err != nil {
			b.Fatal(err)
		}
		if err := c.Recorded(ctx); err != nil {
			b.Fatal(err)
		}
		if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkBegin is what the request path pays for a 300 KB body of an agent's session: cutting, hashing, looking up,
// and copying what is new. The history is known but for the last two messages, or all of it is new.
func BenchmarkBegin(b *testing.B) {
	s := openStore(b, Options{})
	mustAccount(b, s, "acme")
	account, _ := s.accounts.Find("acme")
	a := newAgent(3)
	for len(a.request()) < 300_000 {
		a.turn()
	}
	captureBody(b, s, "acme", a.request(), nil)
	a.turn()
	next := a.request()
	for _, c := range []struct {
		name string
		body []byte
	}{{"known", next}, {"new", []byte(strings.ReplaceAll(string(next), "e", "x"))}} {
		spans := blocksOf(b, next)
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.body)))
			b.ReportAllocs()
			for b.Loop() {
				s.planner.Plan(account, &blob.Body{Bytes: c.body, Blocks: spans, Prints: codec.Fingerprints(nil, "acme", c.body, spans)}).Release()
			}
		})
	}
}

// BenchmarkWrite is what the pump pays to note a chunk of an answer.
func BenchmarkWrite(b *testing.B) {
	s := openStore(b, Options{})
	mustAccount(b, s, "acme")
	ctx := context.Background()
	c, err := s.Begin(ctx, &record.Opening{Account: "acme", Surface: codec.Chat})
	if err != nil {
		b.Fatal(err)
	}
	chunk := []byte(newAgent(5).words(170))
	b.SetBytes(int64(len(chunk)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Write(chunk); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
		b.Fatal(err)
	}
}
