package lexical

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/bench/cputime"
)

// library of documents with words as frequent as in prose (Zipf's law over 50,000 of them), and a path and a code each.
type generator struct {
	random *rand.Rand
	zipf   *rand.Zipf
}

func newGenerator() *generator {
	random := rand.New(rand.NewPCG(1, 2))
	return &generator{random, rand.NewZipf(random, 1.1, 8, 50_000)}
}

func (g *generator) word() string {
	n := g.zipf.Uint64()
	return "b" + strings.Map(func(r rune) rune { return 'a' + r%26 }, fmt.Sprintf("%x", n*2654435761%(1<<32)))
}

func (g *generator) document(n, size int) Document {
	var b strings.Builder
	for b.Len() < size {
		b.WriteString(g.word())
		b.WriteByte(' ')
	}
	fmt.Fprintf(&b, "pkg/mod%d/file_%d.go E%d", n%500, n, n)
	return Document{Account: 1, ID: fmt.Sprintf("exch_%026d", n), Text: b.String(), Facets: []Facet{{"model", "gpt-5"}}}
}

func (g *generator) fill(tb testing.TB, ix *Index, from, count, size int) {
	tb.Helper()
	for done := 0; done < count; done += 256 {
		batch := make([]Document, 0, 256)
		for n := done; n < min(done+256, count); n++ {
			batch = append(batch, g.document(from+n, size))
		}
		apply(tb, ix, batch)
	}
}

// BenchmarkApply indexes documents of 4 KB in batches of 256, so that they can be found.
func BenchmarkApply(b *testing.B) {
	ix := openIndex(b, b.TempDir())
	defer ix.Close()
	g := newGenerator()
	batch := make([]Document, 256)
	for i := range batch {
		batch[i] = g.document(i, 4<<10)
	}
	n, began := 0, cputime.Used()
	for b.Loop() {
		for i := range batch {
			batch[i].ID = fmt.Sprintf("exch_%026d", n)
			n++
		}
		apply(b, ix, batch)
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "documents/s")
	b.ReportMetric(float64((cputime.Used()-began).Microseconds())/float64(n), "cpu-us/document")
}

// BenchmarkRank finds the best ten of 100,000 documents of one account by questions of 1, 3 and 8 words.
func BenchmarkRank(b *testing.B) {
	const documents, size = 100_000, 600
	dir := b.TempDir()
	ix := openIndex(b, dir)
	defer ix.Close()
	g := newGenerator()
	g.fill(b, ix, 0, documents, size)
	for _, words := range []int{1, 3, 8} {
		b.Run(fmt.Sprintf("words=%d", words), func(b *testing.B) {
			began, searches := cputime.Used(), 0
			for b.Loop() {
				searches++
				asked := make([]string, words)
				for i := range asked {
					asked[i] = g.word()
				}
				rankTen(b, ix, Plain(strings.Join(asked, " ")))
			}
			b.ReportMetric(float64((cputime.Used()-began).Microseconds())/float64(searches), "cpu-us/op")
		})
	}
	b.Run("name", func(b *testing.B) {
		for b.Loop() {
			rankTen(b, ix, Plain(fmt.Sprintf("where is E%d raised", g.random.IntN(documents))))
		}
	})
	b.Logf("%d bytes on disk per document of %d", Bytes(dir)/documents, size)
}

func rankTen(b *testing.B, ix *Index, q *Query) {
	s, err := ix.Searcher(b.Context(), 1)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	ranking, err := s.Rank(q, nil)
	if err != nil {
		b.Fatal(err)
	}
	for range 10 {
		hit, ok := ranking.Next()
		if !ok {
			return
		}
		if _, err := s.ID(hit.Number); err != nil {
			b.Fatal(err)
		}
	}
}
