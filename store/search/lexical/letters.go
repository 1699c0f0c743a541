package lexical

import (
	"encoding/binary"
	"hash/maphash"
	"math/bits"
)

// letters is a word of ASCII letters, padded with zeros, as little-endian integers: they are tested, compared and hashed
// eight letters at a time.
type letters [maxCachedStem / 8]uint64

const (
	everyByte = 0x0101010101010101
	highBits  = 0x80 * everyByte
	lowerBit  = 0x20 // between 'A' and 'a'
)

// covers has the bits of the first letters of a word, by their number.
var covers = func() (table [maxCachedStem + 1]letters) {
	for n := range table {
		for i := range n {
			table[n][i/8] |= 0xff << (i % 8 * 8)
		}
	}
	return table
}()

// packed returns text[start:end], at most maxCachedStem bytes.
func packed(text []byte, start, end int) (w letters) {
	from := text[start:]
	if len(from) < maxCachedStem {
		var room [maxCachedStem]byte
		copy(room[:], text[start:end])
		from = room[:]
	}
	cover := &covers[end-start]
	for i := range w {
		w[i] = binary.LittleEndian.Uint64(from[i*8:]) & cover[i]
	}
	return w
}

// areLower reports whether the first n bytes are lower-case letters.
func (w *letters) areLower(n int) bool {
	cover := &covers[n]
	wrong := uint64(0)
	for i, x := range w {
		// Adding carries a byte from 'a' on, or from behind 'z' on, into its highest bit, if that is not set already.
		isLetter := (x + (0x80-'a')*everyByte) &^ (x + (0x7f-'z')*everyByte)
		wrong |= x&highBits | (isLetter^cover[i])&highBits
	}
	return wrong == 0
}

// lower makes the first n bytes lower-case and reports whether they are letters.
func (w *letters) lower(n int) bool {
	for i, cover := range covers[n] {
		w[i] |= lowerBit * everyByte & cover
	}
	return w.areLower(n)
}

// append appends the first n letters.
func (w *letters) append(dst []byte, n int) []byte {
	for i := range n {
		dst = append(dst, byte(w[i/8]>>(i%8*8)))
	}
	return dst
}

// lettersSeed keeps others from choosing words that replace each other in the cache.
var lettersSeed = func() (seed [4]uint64) {
	for i := range seed {
		seed[i] = maphash.Bytes(maphash.MakeSeed(), nil) | 1
	}
	return seed
}()

func (w *letters) hash() uint64 {
	high, low := bits.Mul64(w[0]^lettersSeed[0], w[1]^lettersSeed[1])
	high, low = bits.Mul64(w[2]^high^low^lettersSeed[2], lettersSeed[3])
	return high ^ low
}
