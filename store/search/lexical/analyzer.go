package lexical

import (
	"bytes"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/bleve/v2/analysis"
	"github.com/blevesearch/bleve/v2/analysis/lang/en"
	"golang.org/x/text/unicode/norm"
)

// A token is one term of a text and its place there.
type token struct {
	term       string
	start, end int // bytes of the text
}

var stops = stopWords()

func stopWords() map[string]bool {
	m := analysis.NewTokenMap()
	if err := m.LoadBytes(en.EnglishStopWords); err != nil {
		panic(err) // the list is part of the library
	}
	return m
}

// maxTerm is the longest term in bytes; anything longer is data, not a word.
const maxTerm = 128

// prose returns the words of a text: in lower case, without diacritics (people omit them when they type), English words
// by their stem, compound identifiers by their parts, and text in scripts without blanks between words (Chinese, Japanese,
// Korean, Thai, Lao, Khmer, Burmese, Tibetan) by overlapping pairs of characters. An emoji is a word.
func prose(text []byte) []token { return appendProse(make([]token, 0, len(text)/6), text) }

func appendProse(tokens []token, text []byte) []token {
	var run ideographs
	eachWord(text, func(w word) {
		if w.ideographic {
			tokens = run.add(tokens, text, w)
			return
		}
		tokens = run.flush(tokens, text)
		written := text[w.start:w.end]
		parts(written, func(from, to int) {
			if term, ok := stem(written[from:to]); ok {
				tokens = append(tokens, token{term, w.start + from, w.start + to})
			}
		})
	})
	return run.flush(tokens, text)
}

// maxOutputTerm is the longest indexed word of a tool's output, in bytes. Longer ones are hashes, tokens and base64
// that are never typed.
const maxOutputTerm = 40

// saysNothingInOutput reports whether a word of tools' inputs and outputs is left out: numbers are frequent there and are found by
// the names they are part of.
func saysNothingInOutput(term string) bool {
	return len(term) > maxOutputTerm || strings.Trim(term, "0123456789.,:") == ""
}

// stem returns the term that a word is found by; false for stop words.
func stem(word []byte) (string, bool) {
	if n := len(word); n > 0 && n <= maxCachedStem {
		if written := packed(word, 0, n); written.lower(n) {
			known := rememberedStem(&written, n, stemEntry(&written).Load())
			return known.text, known.text != ""
		}
	}
	term := fold(word)
	if len(term) > maxTerm {
		return "", false
	}
	for _, possessive := range [...]string{"'s", "’s"} {
		if n := len(term) - len(possessive); n > 0 && term[n:] == possessive {
			term = term[:n]
		}
	}
	if stops[term] {
		return "", false
	}
	if !lowerASCII(term) {
		return term, true
	}
	return porterStem([]byte(term)), true
}

func lowerASCII(term string) bool {
	for i := range len(term) {
		if term[i] < 'a' || term[i] > 'z' {
			return false
		}
	}
	return true
}

// fold returns text in lower case, in compatibility form, without combining marks, except those that are vowels or tones.
func fold(text []byte) string {
	plain := true
	for _, c := range text {
		if c >= utf8.RuneSelf {
			plain = false
			break
		}
	}
	if plain && len(text) <= maxTerm {
		return string(appendLower(make([]byte, 0, maxTerm), text))
	}
	if plain {
		return string(bytes.ToLower(text))
	}
	var b []byte
	for _, r := range string(norm.NFKD.Bytes(text)) {
		if !unicode.Is(unicode.Mn, r) || isUnspaced(r) {
			b = utf8.AppendRune(b, unicode.ToLower(r))
		}
	}
	return string(b)
}

// appendLower appends ASCII text in lower case.
func appendLower(dst, text []byte) []byte {
	for _, c := range text {
		if c >= 'A' && c <= 'Z' {
			c |= 0x20
		}
		dst = append(dst, c)
	}
	return dst
}

// parts splits an identifier into its words: at underscores, between letters and dots or colons, and at camel case. A
// word without any of these is one part.
func parts(word []byte, give func(from, to int)) {
	start := 0
	var before rune
	for i := 0; i < len(word); {
		r, size := utf8.DecodeRune(word[i:])
		next, _ := utf8.DecodeRune(word[i+size:])
		switch {
		case r == '_' || (r == '.' || r == ':') && (unicode.IsLetter(before) || unicode.IsLetter(next)):
			if i > start {
				give(start, i)
			}
			start = i + size
		case i > start && unicode.IsUpper(r) && (unicode.IsLower(before) || unicode.IsUpper(before) && unicode.IsLower(next)):
			give(start, i)
			start = i
		}
		before = r
		i += size
	}
	if start < len(word) {
		give(start, len(word))
	}
}

func isIdeographic(word []byte) bool {
	r, _ := utf8.DecodeRune(word)
	return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul)
}

// ideographs is a run of text in a script without spaces between words.
type ideographs struct{ start, end int }

func (run *ideographs) add(tokens []token, text []byte, w word) []token {
	if run.end != w.start {
		tokens = run.flush(tokens, text)
		run.start = w.start
	}
	run.end = w.end
	return tokens
}

// flush emits the pairs of the run, or its one character.
func (run *ideographs) flush(tokens []token, text []byte) []token {
	defer func() { *run = ideographs{} }()
	before, pairs := -1, len(tokens) // before: where the last character begins
	for i := run.start; i < run.end; {
		r, size := utf8.DecodeRune(text[i:run.end])
		if r == zeroWidthSpace {
			i += size
			continue
		}
		if before >= 0 {
			tokens = append(tokens, token{foldPair(text[before : i+size]), before, i + size})
		}
		before = i
		i += size
	}
	if before >= 0 && len(tokens) == pairs {
		tokens = append(tokens, token{fold(text[run.start:run.end]), run.start, run.end})
	}
	return tokens
}

// foldPair is fold for two characters, perhaps with a zero-width space between them.
func foldPair(pair []byte) string {
	if bytes.ContainsRune(pair, zeroWidthSpace) {
		pair = bytes.ReplaceAll(pair, []byte(string(zeroWidthSpace)), nil)
	}
	return fold(pair)
}
