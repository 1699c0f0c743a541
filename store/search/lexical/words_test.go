package lexical

import (
	"testing"
	"unicode"

	porterstemmer "github.com/blevesearch/go-porterstemmer"
	"pgregory.net/rapid"
)

// The quick way through ASCII finds the words that the rules of Unicode give, whatever stands around it.
func TestWordsAreThoseOfUnicode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.OneOf(
			rapid.StringOfN(rapid.RuneFrom([]rune("aZ09_.':,; -/\r\n\t\"@\x00")), 0, 12, -1),
			rapid.StringOfN(rapid.RuneFrom(nil, unicode.Han, unicode.Katakana, unicode.Hangul, unicode.Mn, unicode.Hebrew, unicode.Cyrillic), 0, 3, -1),
			rapid.SampledFrom([]string{" ", "  ", "e\u0301", " \u0301", "don’t", "a\u200db", "\u00a0", "\u2028", "3.14", "v1.2.3", "std::string", "検索システム"}),
			rapid.String(),
		)
		text := ""
		for _, p := range rapid.SliceOfN(piece, 0, 8).Draw(t, "text") {
			text += p
		}
		var want []word
		for _, token := range unicodeWords.Tokenize([]byte(text)) {
			want = append(want, word{token.Start, token.End, ideographic(token)})
		}
		var got []word
		eachWord([]byte(text), func(w word) { got = append(got, w) })
		if len(got) != len(want) {
			t.Fatalf("%q has words %v, want %v", text, got, want)
		}
		for i := range got {
			if got[i] != want[i] {
				t.Fatalf("%q has words %v, want %v", text, got, want)
			}
		}
	})
}

func TestAStemIsTheSameRememberedOrNot(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching(`[A-Za-z]{1,40}`).Draw(t, "word")
		lower := fold([]byte(text))
		want := string(porterstemmer.StemWithoutLowerCasing([]rune(lower)))
		for range 2 {
			got, ok := stem([]byte(text))
			if ok == stops[lower] || ok && got != want {
				t.Fatalf("stem of %q is %q (%v), want %q", text, got, ok, want)
			}
		}
	})
}
