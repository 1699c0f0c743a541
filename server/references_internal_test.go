package server

import (
	"fmt"
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

// Each level of a body is read once more for each level above it: without a bound one request would keep a processor for minutes.
func TestReferencesAreSearchedAsDeepAsProvidersDefineThem(t *testing.T) {
	for nested, c := range map[string]struct {
		levels int
		found  int
	}{
		`{"a":%s}`: {levels: deepest - 1, found: 1},
		`[%s]`:     {levels: deepest - 1, found: 1},
		`{"b":%s}`: {levels: deepest, found: 0},
		`[[%s]]`:   {levels: deepest, found: 0},
	} {
		body := `{"file_id":"file-1"}`
		for range c.levels {
			body = fmt.Sprintf(nested, body)
		}
		found := 0
		references([]byte(`{"input":`+body+`}`), func(reference) { found++ })
		if found != c.found {
			t.Errorf("in %d levels of %s %d references are found, want %d", c.levels, nested, found, c.found)
		}
	}
}

func BenchmarkMayRefer(b *testing.B) {
	body := []byte(`{"model":"m","input":[{"role":"user","content":"` + strings.Repeat(`func (x *exchange) read() { return \"x\" }\n `, 4_600) + `"}]}`)
	b.SetBytes(int64(len(body)))
	b.ReportAllocs()
	for b.Loop() {
		mayRefer(codec.Responses, body)
	}
}
