package search

import (
	"math/rand/v2"
	"strings"
	"testing"
)

func TestSignsAreFoundWhereverTheyStand(t *testing.T) {
	list := []string{"aab", "ab:", "b:a", "aaab", "c"}
	s := newSigns(list...)
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		text := make([]byte, random.IntN(9))
		for i := range text {
			text[i] = "aaAbB:.x"[random.IntN(8)]
		}
		if random.IntN(20) == 0 {
			text = append(text, 'C')
		}
		want := false
		for _, sign := range list {
			want = want || strings.Contains(strings.ToLower(string(text)), sign)
		}
		if s.in(string(text)) != want {
			t.Fatalf("in %q: %v", text, !want)
		}
	}
}

func BenchmarkSigns(b *testing.B) {
	code := strings.Repeat("  17\tif err := store.Put(key, \"value of 134623\"); err != nil {\n\t\treturn fmt.Errorf(\"put: %w\", err)\n\t}\n", 40)
	b.SetBytes(int64(len(code)))
	for b.Loop() {
		if failureSigns.in(code) {
			b.Fatal("found")
		}
	}
}
