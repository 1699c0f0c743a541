package lexical

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
	"sync"
)

// The index has how often each term occurs in a document, not where. So text is split at blanks. A piece that is only a word and
// punctuation, as most of any prose, is counted by the cached stem of that word. [prose] and [identifiers] find the terms of
// other pieces.

// term is a term of the index and its hash.
type term struct {
	text string
	hash uint64
}

var termSeed = maphash.MakeSeed()

func newTerm(text string) term { return term{text, maphash.String(termSeed, text)} }

// tally counts the terms of a field of one document.
type tally struct {
	terms []tallied // distinct, in order of first occurrence
	slots []int32   // a hash table, of a power of two entries: index in terms plus 1; 0: free
	total int       // occurrences of terms

	skips func(term string) bool // reports whether a term that is not only letters is left out; nil: none is
}

// keptSlots is the largest hash table that is reused: it is cleared for each field.
const keptSlots = 4 << 10

type tallied struct {
	term
	times int
}

func (t *tally) add(new term) { t.addTimes(new, 1) }

func (t *tally) addTimes(new term, times int) {
	if 2*len(t.terms) >= len(t.slots) {
		t.grow()
	}
	t.total += times
	for at, mask := new.hash, uint64(len(t.slots)-1); ; at++ {
		slot := &t.slots[at&mask]
		if *slot == 0 {
			t.terms = append(t.terms, tallied{new, times})
			*slot = int32(len(t.terms))
			return
		}
		if known := &t.terms[*slot-1]; known.hash == new.hash && known.text == new.text {
			known.times += times
			return
		}
	}
}

func (t *tally) addAll(tokens []token) {
	for i := range tokens {
		if text := tokens[i].term; t.skips == nil || !t.skips(text) {
			t.add(newTerm(text))
		}
	}
}

func (t *tally) grow() {
	t.slots = make([]int32, max(256, 2*len(t.slots)))
	for i := range t.terms {
		at, mask := t.terms[i].hash, uint64(len(t.slots)-1)
		for t.slots[at&mask] != 0 {
			at++
		}
		t.slots[at&mask] = int32(i + 1)
	}
}

// reset empties the tally.
func (t *tally) reset() {
	clear(t.terms)
	t.terms, t.total = t.terms[:0], 0
	if clear(t.slots); len(t.slots) > keptSlots {
		t.slots = nil
	}
}

// analyzer counts the words and names of a document. It is reusable.
type analyzer struct {
	words, names, output, own, facets tally

	text   []byte
	tokens []token
	plain  []pendingWord
}

// pendingWord is a word to be counted, and what the cache of stems has in its place. Looking that up waits for memory, so
// it is done for several words at once.
type pendingWord struct {
	word   letters
	length int
	known  *stemmed
}

// plainAtOnce is how many words are looked up together.
const plainAtOnce = 64

var analyzers = sync.Pool{New: func() any { return &analyzer{output: tally{skips: saysNothingInOutput}} }}

// read counts the words and the names of a text, each in its tally if that is not nil.
func (a *analyzer) read(text string, words, names *tally) {
	a.text = append(a.text[:0], text...)
	for start := 0; start < len(a.text); {
		end, ascii := stretch(a.text, start)
		if ascii {
			a.readASCII(a.text[start:end], words, names)
		} else {
			a.readAny(a.text[start:end], words, names)
		}
		start = end
	}
}

// readAny reads text whose words and names do not depend on the text around it.
func (a *analyzer) readAny(text []byte, words, names *tally) {
	if words != nil {
		a.tokens = appendProse(a.tokens[:0], text)
		words.addAll(a.tokens)
	}
	if names != nil {
		a.tokens = appendIdentifiers(a.tokens[:0], text)
		names.addAll(a.tokens)
	}
}

func (a *analyzer) readASCII(text []byte, words, names *tally) {
	for i := 0; i < len(text); {
		if text[i] <= ' ' {
			i++
			continue
		}
		from := i
		i = pieceEnd(text, i)
		switch word, n := lowerWord(text, from, i); {
		case n == 0:
			a.readAny(text[from:i], words, names)
		case words != nil:
			a.plain = append(a.plain, pendingWord{word, n, stemEntry(&word).Load()})
			if len(a.plain) == plainAtOnce {
				a.countPlain(words)
			}
		}
	}
	if words != nil {
		a.countPlain(words)
	}
}

// pieceEnd returns where the next blank or control character of ASCII text is, from start on; without one, its length.
func pieceEnd(text []byte, start int) int {
	for ; len(text)-start >= 8; start += 8 {
		x := binary.LittleEndian.Uint64(text[start:])
		// Subtracting borrows into the highest bit of each byte up to ' '. The first is exact, those after it may not be.
		if blank := (x - (' '+1)*everyByte) & highBits; blank != 0 {
			return start + bits.TrailingZeros64(blank)/8
		}
	}
	for start < len(text) && text[start] > ' ' {
		start++
	}
	return start
}

// countPlain counts the words collected.
func (a *analyzer) countPlain(words *tally) {
	for i := range a.plain {
		w := &a.plain[i]
		if stem := rememberedStem(&w.word, w.length, w.known); stem.text != "" {
			words.add(stem)
		}
	}
	clear(a.plain)
	a.plain = a.plain[:0]
}

// lowerWord returns the word in text[start:end] in lower case, and its length. There must be a single word that is no name: only
// opening quotation marks or brackets before it, only punctuation after it, and no capital inside. Otherwise the length is 0.
func lowerWord(text []byte, start, end int) (word letters, n int) {
	for start < end && textMarks[text[start]]&opens != 0 {
		start++
	}
	for end > start && textMarks[text[end-1]]&closes != 0 {
		end--
	}
	if n = end - start; n > maxCachedStem || n == 0 {
		return word, 0
	}
	word = packed(text, start, end)
	if c := text[start]; c >= 'A' && c <= 'Z' {
		word[0] |= lowerBit
	}
	if !word.areLower(n) {
		return word, 0
	}
	return word, n
}

// Marks around a word.
const (
	opens  = 1 << iota // before it
	closes             // after it
)

var textMarks = func() (table [256]uint8) {
	for _, c := range []byte("([{\"'") {
		table[c] |= opens
	}
	for _, c := range []byte(")]}\"'.,;:!?") {
		table[c] |= closes
	}
	return table
}()

// mostKept is the capacity of buffers, in bytes of text, beyond which an analyzer is not reused.
const mostKept = 64 << 10

func (a *analyzer) release() {
	if clear(a.tokens[:cap(a.tokens)]); cap(a.text) <= mostKept {
		analyzers.Put(a)
	}
}
