package lexical

import (
	"cmp"
	"math/bits"
	"slices"
)

// postingSorter sorts lists of postings by the numbers of their documents, no two of which are the same.
type postingSorter struct {
	documents   int      // how many there are
	marks       []uint64 // a bit for each document of the list
	frequencies []uint32 // in each document of the list
}

func compareNumbers(a, b posting) int { return cmp.Compare(a.number, b.number) }

// A list that has so many postings, and one for so many documents, is not sorted by comparing them: reading all marks
// takes less.
const (
	marksFrom     = 12
	documentsEach = 512 // 8 words of marks
)

// sort returns a list in order, in its memory and without lengths.
func (s *postingSorter) sort(list []posting) []posting {
	if slices.IsSortedFunc(list, compareNumbers) {
		return list
	}
	if len(list) < marksFrom || len(list) < s.documents/documentsEach {
		slices.SortFunc(list, compareNumbers)
		return list
	}
	if s.marks == nil {
		s.marks, s.frequencies = make([]uint64, (s.documents+63)/64), make([]uint32, s.documents)
	}
	for _, p := range list {
		s.marks[p.number/64] |= 1 << (p.number % 64)
		s.frequencies[p.number] = p.frequency
	}
	at := 0
	for i, word := range s.marks {
		for ; word != 0; word &= word - 1 {
			number := uint32(i*64 + bits.TrailingZeros64(word))
			list[at] = posting{number: number, frequency: s.frequencies[number]}
			at++
		}
		s.marks[i] = 0
	}
	return list[:at]
}
