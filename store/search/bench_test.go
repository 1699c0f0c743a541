package search

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mnemeproxy/mneme/bench/cputime"
	"github.com/mnemeproxy/mneme/store/record"
)

// BenchmarkSearch asks an account of 100,000 turns of 600 bytes, with words as frequent as in prose, and with a vector of
// 768 dimensions for each. What it reports is the processor time of whole searches, snippets included.
func BenchmarkSearch(b *testing.B) {
	const documents, size = 100_000, 600
	m := openMemoryWith(b, b.TempDir(), Options{Embedder: scattered{}})
	words := newWriter()
	var filling errgroup.Group
	filling.SetLimit(32) // so that commits are shared
	for n := range documents {
		said := talk(words.text(size/8)+fmt.Sprintf("E%d", n), words.text(size-size/8))
		filling.Go(func() error {
			_, err := captureScript(m.store, "acme", said, func(o *record.Opening) { o.ExternalSession = fmt.Sprint(n / 500) })
			return err
		})
	}
	m.ok(filling.Wait())
	ctx, cancel := context.WithTimeout(b.Context(), 20*time.Minute)
	defer cancel()
	m.ok(m.index.WaitVectors(ctx, "acme"))
	sessions := Request{Query: "sessions", Mode: Lexical, Granularity: Sessions}
	for len(m.search("acme", sessions).Degraded) > 0 { // until all are taken up, and nothing goes on behind the searches
	}
	for _, mode := range []Mode{Lexical, Hybrid} {
		for _, kind := range []struct {
			name string
			ask  func() string
		}{
			{"name", func() string { return fmt.Sprintf("E%d", rand.IntN(documents)) }},
			{"words=1", func() string { return words.question(1) }},
			{"words=3", func() string { return words.question(3) }},
			{"words=10", func() string { return words.question(10) }},
		} {
			b.Run(fmt.Sprintf("%s/%s", mode, kind.name), func(b *testing.B) {
				began, searches := cputime.Used(), 0
				for b.Loop() {
					searches++
					_, err := m.index.Search(b.Context(), "acme", &Request{Query: kind.ask(), Mode: mode})
					m.ok(err)
				}
				b.ReportMetric(float64((cputime.Used()-began).Microseconds())/float64(searches), "cpu-us/op")
			})
		}
	}
}

// writer makes text with words as frequent as in prose: Zipf's law over 50,000 of them.
type writer struct{ zipf *rand.Zipf }

func newWriter() *writer {
	return &writer{rand.NewZipf(rand.New(rand.NewPCG(1, 2)), 1.1, 8, 50_000)}
}

func (w *writer) word() string {
	n := w.zipf.Uint64()
	return "b" + strings.Map(func(r rune) rune { return 'a' + r%26 }, fmt.Sprintf("%x", n*2654435761%(1<<32)))
}

func (w *writer) text(size int) string {
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(w.word())
		b.WriteByte(' ')
	}
	return b.String()
}

// question has words as frequent as they are in the texts.
func (w *writer) question(words int) string {
	list := make([]string, words)
	for i := range list {
		list[i] = w.word()
	}
	return strings.Join(list, " ")
}

// scattered gives every text a vector in some direction.
type scattered struct{}

func (scattered) Identity() string { return "scattered/768" }

func (scattered) Dimensions() int { return 768 }

func (scattered) Embed(_ context.Context, _ string, _ Use, texts []string) ([][]float32, error) {
	vectors := make([][]float32, len(texts))
	for i, text := range texts {
		random := rand.New(rand.NewPCG(maphash.String(scatterSeed, text), 0))
		vectors[i] = make([]float32, 768)
		for j := range vectors[i] {
			vectors[i][j] = random.Float32() - 0.5
		}
	}
	return vectors, nil
}

var scatterSeed = maphash.MakeSeed()

// BenchmarkSearchSessions asks an account of 24,000 turns of 600 bytes for sessions, of which each has ten. common is the most
// frequent word, which most turns have.
func BenchmarkSearchSessions(b *testing.B) {
	const documents, size = 24_000, 600
	m := openMemory(b, b.TempDir())
	words := newWriter()
	var filling errgroup.Group
	filling.SetLimit(32) // so that commits are shared
	counts := make(map[string]int)
	for n := range documents {
		asked, answered := words.text(size/8)+fmt.Sprintf("E%d", n), words.text(size-size/8)
		for _, word := range strings.Fields(answered) {
			counts[word]++
		}
		filling.Go(func() error {
			_, err := captureScript(m.store, "acme", talk(asked, answered), func(o *record.Opening) { o.ExternalSession = fmt.Sprint(n / 10) })
			return err
		})
	}
	m.ok(filling.Wait())
	common := ""
	for word, count := range counts {
		if count > counts[common] {
			common = word
		}
	}
	for len(m.search("acme", Request{Query: "sessions", Granularity: Sessions}).Degraded) > 0 { // until all are taken up
	}
	for _, kind := range []struct {
		name string
		ask  func() string
	}{
		{"name", func() string { return fmt.Sprintf("E%d", rand.IntN(documents)) }},
		{"words=3", func() string { return words.question(3) }},
		{"words=10", func() string { return words.question(10) }},
		{"common", func() string { return common }},
		{"demanded", func() string { return "+" + common + " -E1 +" + words.word() }},
		{"newest", func() string { return "" }},
	} {
		b.Run(kind.name, func(b *testing.B) {
			began, searches := cputime.Used(), 0
			for b.Loop() {
				searches++
				_, err := m.index.Search(b.Context(), "acme", &Request{Query: kind.ask(), Newest: true, Granularity: Sessions})
				m.ok(err)
			}
			b.ReportMetric(float64((cputime.Used()-began).Microseconds())/float64(searches), "cpu-us/op")
		})
	}
}

// BenchmarkReadSession makes the document of a session of ten turns of 600 bytes.
func BenchmarkReadSession(b *testing.B) {
	m := openMemory(b, b.TempDir())
	words := newWriter()
	var turns []script
	for range 10 {
		turns = append(turns, talk(words.text(200), words.text(400)))
	}
	session, _ := m.said("acme", "one", turns...)
	number, err := m.store.Accounts().Number("acme")
	m.ok(err)
	b.ReportAllocs()
	for b.Loop() {
		_, err := readSession(m.store, number, session)
		m.ok(err)
	}
}
