package lexical

import (
	"bytes"
	"encoding/binary"
	"unicode"
	"unicode/utf8"

	"github.com/blevesearch/bleve/v2/analysis"
	unicodewords "github.com/blevesearch/bleve/v2/analysis/tokenizer/unicode"
)

// word is a part of a text between word boundaries that is not only blanks or punctuation.
type word struct {
	start, end  int  // byte offsets in the text
	ideographic bool // in a script without blanks between words
}

var unicodeWords = unicodewords.NewUnicodeTokenizer()

// eachWord splits a text at the word boundaries of Unicode (UAX 29). ASCII text between blanks is split here, in a tenth of the
// time of the general rules. There is always a boundary before a blank, so both ways agree on any text.
func eachWord(text []byte, give func(word)) {
	for start := 0; start < len(text); {
		end, ascii := stretch(text, start)
		if ascii {
			asciiWords(text, start, end, give)
		} else {
			mixedWords(text, start, end, give)
		}
		start = end
	}
}

// mixedWords splits text[start:end]. Scripts without blanks between words that the rules of Unicode leave to dictionaries are
// runs of their own, and so is each emoji, which these rules do not count as a word.
func mixedWords(text []byte, start, end int, give func(word)) {
	from := start
	general := func(to int) {
		if from < to {
			for _, t := range unicodeWords.Tokenize(text[from:to]) {
				give(word{from + t.Start, from + t.End, ideographic(t)})
			}
		}
	}
	for i := start; i < end; {
		r, size := utf8.DecodeRune(text[i:end])
		switch {
		case isEmoji(r):
			general(i)
			give(word{i, i + size, false})
			i += size
			from = i
		case isUnspaced(r):
			general(i)
			run := unspacedRun(text[i:end])
			give(word{i, i + run, true})
			i += run
			from = i
		default:
			i += size
		}
	}
	general(end)
}

// unspacedRun returns the length of the run of such a script at the beginning of text. Zero-width spaces, which some
// writers put between words, are inside of it.
func unspacedRun(text []byte) (end int) {
	for i := 0; i < len(text); {
		r, size := utf8.DecodeRune(text[i:])
		if r != zeroWidthSpace && !isUnspaced(r) {
			break
		}
		if i += size; r != zeroWidthSpace {
			end = i
		}
	}
	return end
}

const zeroWidthSpace = '\u200b'

// isUnspaced reports whether r is a letter or a mark of a script that has no blanks between words, besides those of
// [isIdeographic].
func isUnspaced(r rune) bool {
	return r >= 0x0e00 && unicode.In(r, unicode.Thai, unicode.Lao, unicode.Tibetan, unicode.Myanmar, unicode.Khmer) && unicode.In(r, unicode.L, unicode.M)
}

// isEmoji reports whether r is a pictograph. The parts of a joined one are words of their own.
func isEmoji(r rune) bool {
	switch {
	case r < 0x2600:
		return false
	case r <= 0x27bf, r >= 0x2b00 && r <= 0x2bff, r >= 0x1f000 && r <= 0x1faff:
		return unicode.Is(unicode.So, r)
	}
	return false
}

// stretch returns the end of the longest part of text from start that is either all ASCII or has other characters between any two
// blanks. Parts begin and end before a blank, or at the ends of the text.
func stretch(text []byte, start int) (end int, ascii bool) {
	if start == 0 && isASCII(text) {
		return len(text), true
	}
	for end = start; end < len(text); {
		next := len(text)
		if blank := bytes.IndexByte(text[end+1:], ' '); blank >= 0 {
			next = end + 1 + blank
		}
		switch plain := isASCII(text[end:next]); {
		case end == start:
			ascii = plain
		case plain != ascii:
			return end, ascii
		}
		end = next
	}
	return end, ascii
}

func isASCII(text []byte) bool {
	for ; len(text) >= 8; text = text[8:] {
		if binary.LittleEndian.Uint64(text)&highBits != 0 {
			return false
		}
	}
	for _, c := range text {
		if c >= utf8.RuneSelf {
			return false
		}
	}
	return true
}

// Classes of ASCII characters for word boundaries: the properties of UAX 29 that ASCII has.
const (
	classOther  = iota
	classLetter // ALetter
	classDigit  // Numeric
	classJoin   // ExtendNumLet: the underscore
	classEither // MidNumLet and Single_Quote: joins two letters or two digits
	classMid    // MidLetter: joins two letters
	classMidNum // MidNum: joins two digits
)

var classes = func() (table [utf8.RuneSelf]uint8) {
	for c := 'a'; c <= 'z'; c++ {
		table[c], table[c-'a'+'A'] = classLetter, classLetter
	}
	for c := '0'; c <= '9'; c++ {
		table[c] = classDigit
	}
	table['_'], table['.'], table['\''], table[':'], table[','], table[';'] = classJoin, classEither, classEither, classMid, classMidNum, classMidNum
	return table
}()

// asciiWords splits text[start:end], which is ASCII.
func asciiWords(text []byte, start, end int, give func(word)) {
	for i := start; i < end; {
		class := classes[text[i]]
		if class != classLetter && class != classDigit && class != classJoin {
			i++
			continue
		}
		from := i
		for i++; i < end; i++ {
			next := classes[text[i]]
			if next == classLetter || next == classDigit || next == classJoin {
				class = next
				continue
			}
			if i+1 == end || classes[text[i+1]] != class || !joins(next, class) {
				break
			}
		}
		give(word{from, i, false})
	}
}

// joins reports whether a mark between two characters of a class is inside a word.
func joins(mark, class uint8) bool {
	switch class {
	case classLetter:
		return mark == classEither || mark == classMid
	case classDigit:
		return mark == classEither || mark == classMidNum
	}
	return false
}

func ideographic(t *analysis.Token) bool {
	return t.Type == analysis.Ideographic || isIdeographic(t.Term)
}

// Cut returns the beginning of text, at most limit bytes of whole characters.
func Cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	for limit > 0 && !utf8.RuneStart(text[limit]) {
		limit--
	}
	return text[:max(limit, 0)]
}
