package lexical

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/bench/cputime"
)

// What is counted piece by piece are the words and names of the whole text, whatever stands in it, for the first time and
// again.
func TestTermsAreCountedAsTheTextHasThem(t *testing.T) {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{"the", "Lock", "locks,", "store.Put(key)", "pkg/mod/file_12.go:34", "E4711", "don't", "it's", "(see", "--flag", "naïve", "ﬁle", "検索システム", "a\u0301", "…"}),
		rapid.StringMatching(`[ -~]{1,40}`),
		rapid.String(),
	)
	blank := rapid.SampledFrom([]string{" ", "\n", "\t", "  ", " \n", "\u00a0", "\x00", "\x7f", ""})
	drawn := func(t *rapid.T, label string) string {
		var b strings.Builder
		for _, p := range rapid.SliceOfN(piece, 0, 12).Draw(t, label) {
			b.WriteString(p)
			b.WriteString(blank.Draw(t, "blank"))
		}
		return b.String()
	}
	rapid.Check(t, func(t *rapid.T) {
		d := Document{Account: 7, ID: "x", Text: drawn(t, "text"), Names: drawn(t, "names"), Output: drawn(t, "output"), Facets: []Facet{{"model", "m"}, {"tool", "a"}, {"tool", "a"}}}
		words := terms(prose([]byte(d.Text)))
		names := append(terms(identifiers([]byte(d.Text))), terms(identifiers([]byte(d.Names)))...)
		output := terms(outputWords([]byte(d.Output)))
		for range 2 {
			a := analyze(&d)
			if a.lengths != (lengths{uint32(len(words)), uint32(len(names)), uint32(len(output)), 0}) {
				t.Fatalf("lengths are %+v, want %d, %d and %d", a.lengths, len(words), len(names), len(output))
			}
			for f, want := range map[field][]string{fieldText: words, fieldName: names, fieldOutput: output} {
				if diff := cmp.Diff(countOf(want), frequenciesOf(a.of(f))); diff != "" {
					t.Fatalf("field %d of %q, %q and %q:\n%s", f, d.Text, d.Names, d.Output, diff)
				}
			}
			if facets := a.of(fieldFacet); len(facets) != 2 {
				t.Fatalf("facets are %v", facets)
			}
		}
	})
}

func countOf(terms []string) map[string]int {
	times := make(map[string]int)
	for _, term := range terms {
		times[term]++
	}
	return times
}

func frequenciesOf(counted []tallied) map[string]int {
	times := make(map[string]int)
	for _, t := range counted {
		times[t.text] += t.times
	}
	return times
}

// Words that came before cost no memory but one list of them, however many they are.
func TestKnownWordsAreAnalyzedWithoutAllocations(t *testing.T) {
	text := strings.Repeat("The quick brown fox jumps over the \"lazy\" dogs' heads, and Nothing (at all) happens: why? ", 100)
	d := &Document{Account: 1, ID: "x", Text: text, Facets: []Facet{{"model", "m"}}}
	least := math.Inf(1) // of several: the race detector empties pools at random
	for range 20 {
		least = min(least, testing.AllocsPerRun(1, func() { analyze(d) }))
	}
	if least > 10 {
		t.Errorf("%v allocations for a known text of %d bytes", least, len(text))
	}
}

func TestAPieceEndsBeforeTheFirstBlankWhereverThatIs(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOf(rapid.SampledFrom([]byte("ab~!\x7f \t\n\x00"))).Draw(t, "text")
		start := rapid.IntRange(0, len(text)).Draw(t, "start")
		want := start
		for want < len(text) && text[want] > ' ' {
			want++
		}
		if got := pieceEnd(text, start); got != want {
			t.Fatalf("the piece of %q from %d ends at %d, want %d", text, start, got, want)
		}
	})
}

// BenchmarkAnalyze counts the terms of turns of natural length.
func BenchmarkAnalyze(b *testing.B) {
	for name, size := range map[string]int{"600": 600, "4000": 4000} {
		b.Run(name, func(b *testing.B) {
			g := newGenerator()
			documents := make([]Document, 2000)
			for i := range documents {
				documents[i] = g.document(i, size)
			}
			b.ReportAllocs()
			n, began := 0, cputime.Used()
			for b.Loop() {
				analyze(&documents[n%len(documents)])
				n++
			}
			b.ReportMetric(float64((cputime.Used()-began).Nanoseconds())/1000/float64(n), "cpu-us/document")
		})
	}
}
