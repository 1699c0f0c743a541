// Package synonyms knows which English words mean about the same: those of WordNet 3.0, and some of the trade. The table is part of
// the program; nothing is read or allocated before the first lookup.
package synonyms

import (
	_ "embed"
	"encoding/binary"
	"slices"
	"strings"
)

//go:generate go run ./generate -wordnet /usr/share/wordnet -trade trade.txt -to synonyms.table

// Synonym is a word that may stand for another one, and how much it says: at most 1.
type Synonym struct {
	Word   string
	Weight float64
}

// Most is how many synonyms a word has at most.
const Most = 12

// Weights are those of synonyms in the table: that of their kind, and 0.6 times as much for each further sense of the word.
var Weights = [...]float64{1, 0.75, 0.6, 0.36, 0.35, 0.216, 0.21, 0.126}

// table has words in ascending order, in blocks of wordsInBlock. It begins with the number of words and of blocks, and where each block
// begins, as little-endian integers of four bytes. A block has of each word how many bytes it shares with the word before, how many
// follow, and how many synonyms it has, in a byte each; then these bytes; then each synonym in three bytes: the number of its
// word, shifted left by weightBits, and the number of its weight.
//
//go:embed synonyms.table
var table string

// License is that of WordNet, whose words the table has. Its terms want it in every copy.
//
//go:embed LICENSE.WordNet
var License string

const (
	wordsInBlock = 16
	weightBits   = 3
)

func number(at int) int {
	return int(binary.LittleEndian.Uint32([]byte(table[at : at+4])))
}

func block(i int) string { return table[number(8+4*i):] }

// entry is a word of a block.
type entry struct {
	word     []byte
	synonyms string
	rest     string // of the block
}

// next reads the next word of a block.
func (e *entry) next() {
	shared, more, many := int(e.rest[0]), int(e.rest[1]), int(e.rest[2])
	e.word = append(e.word[:shared], e.rest[3:3+more]...)
	e.rest = e.rest[3+more:]
	e.synonyms, e.rest = e.rest[:3*many], e.rest[3*many:]
}

// first returns the first word of a block.
func first(i int) string {
	b := block(i)
	return b[3 : 3+int(b[1])]
}

// find returns the synonyms of a word as the table has them; false if it does not have the word.
func find(word string) (string, bool) {
	low, high := 0, number(4)
	for low+1 < high {
		if middle := (low + high) / 2; first(middle) <= word {
			low = middle
		} else {
			high = middle
		}
	}
	e := entry{rest: block(low)}
	for range min(wordsInBlock, number(0)-low*wordsInBlock) {
		if e.next(); string(e.word) == word {
			return e.synonyms, true
		}
	}
	return "", false
}

// wordAt returns the word with a number.
func wordAt(n int) string {
	e := entry{rest: block(n / wordsInBlock)}
	for range n%wordsInBlock + 1 {
		e.next()
	}
	return string(e.word)
}

// endings are those of inflected English words, and of their lemmas.
var endings = [...][2]string{
	{"ies", "y"},
	{"es", "e"},
	{"es", ""},
	{"s", ""},
	{"ied", "y"},
	{"ed", "e"},
	{"ed", ""},
	{"ing", "e"},
	{"ing", ""},
	{"ier", "y"},
	{"iest", "y"},
	{"er", "e"},
	{"er", ""},
	{"est", "e"},
	{"est", ""},
}

// lemmas calls give with the forms of a word under which the table may have synonyms.
func lemmas(word string, give func(string)) {
	give(word)
	for _, ending := range endings {
		stem, inflected := strings.CutSuffix(word, ending[0])
		if !inflected || len(stem) < 2 || ending[0] == "s" && strings.HasSuffix(stem, "s") {
			continue
		}
		give(stem + ending[1])
		if n := len(stem); ending[1] == "" && n > 2 && stem[n-1] == stem[n-2] { // stopped, running, bigger
			give(stem[:n-1])
		}
	}
}

// Of returns the synonyms of a word in lower case, the best first. English reports whether the word, or one that it is a form of, is
// known.
func Of(word string) (found []Synonym, english bool) {
	if word == "" {
		return nil, false
	}
	lemmas(word, func(lemma string) {
		packed, known := find(lemma)
		if !known {
			return
		}
		english = true
		for ; packed != ""; packed = packed[3:] {
			value := int(packed[0]) | int(packed[1])<<8 | int(packed[2])<<16
			s := Synonym{wordAt(value >> weightBits), Weights[value&(1<<weightBits-1)]}
			if i := slices.IndexFunc(found, func(f Synonym) bool { return f.Word == s.Word }); i < 0 {
				found = append(found, s)
			} else {
				found[i].Weight = max(found[i].Weight, s.Weight)
			}
		}
	})
	slices.SortStableFunc(found, func(a, b Synonym) int {
		switch {
		case a.Weight > b.Weight:
			return -1
		case a.Weight < b.Weight:
			return 1
		}
		return 0
	})
	return found[:min(len(found), Most)], english
}
