package lexical

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// A word is judged by its own bytes only, wherever it stands in its text.
func TestLettersAreTheBytesOfTheWord(t *testing.T) {
	letter := rapid.SampledFrom([]byte("azAZmM"))
	char := rapid.OneOf(letter, letter, letter, letter, letter, letter, letter, rapid.SampledFrom([]byte("`{@[_0 \x00\x1f\x7f\x80\xff\xe1\xfa")), rapid.Byte())
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.SliceOfN(char, 1, 60).Draw(t, "text")
		start := rapid.IntRange(0, len(text)-1).Draw(t, "start")
		end := start + rapid.IntRange(1, min(maxCachedStem, len(text)-start)).Draw(t, "length")
		written, n := text[start:end], end-start
		w := packed(text, start, end)
		if got := w.append(nil, n); !bytes.Equal(got, written) || w != packed(bytes.Clone(written), 0, n) {
			t.Fatalf("%q is packed as %q", written, got)
		}
		isLetter := func(c byte) bool { return c >= 'a' && c <= 'z' }
		if got, want := w.areLower(n), bytes.IndexFunc(written, func(r rune) bool { return !isLetter(byte(r)) || r > 'z' }) < 0; got != want {
			t.Fatalf("%q is lower case: %v", written, got)
		}
		letters := true
		for _, c := range written {
			letters = letters && isLetter(c|0x20)
		}
		if got := w.lower(n); got != letters || got && !bytes.Equal(w.append(nil, n), bytes.ToLower(written)) {
			t.Fatalf("%q is %q in lower case: %v", written, w.append(nil, n), got)
		}
	})
}
