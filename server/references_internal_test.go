package server

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
)

func TestABodyWithoutReferencesIsLookedAtWithoutAllocations(t *testing.T) {
	body := []byte(`{"model":"m","input":[{"role":"user","content":"` + strings.Repeat("words and more words ", 10_000) + `"}]}`)
	for _, format := range []codec.Format{codec.Chat, codec.Responses, codec.Messages, codec.Gemini, codec.Embeddings} {
		if n := testing.AllocsPerRun(10, func() {
			if mayRefer(format, body) {
				t.Errorf("%s: a reference is seen", format)
			}
		}); n > 0 {
			t.Errorf("%s: %v allocations", format, n)
		}
	}
}

func TestDeepBodiesAreSearchedWithinBounds(*testing.T) {
	references([]byte(`{"input":`+strings.Repeat(`[{"a":`, 1<<20)), func(reference) {})
}

func BenchmarkMayRefer(b *testing.B) {
	body := []byte(`{"model":"m","input":[{"role":"user","content":"` + strings.Repeat(`func (x *exchange) read() { return \"x\" }\n `, 4_600) + `"}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		mayRefer(codec.Responses, body)
	}
}
