package short

import (
	_ "embed"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/mnemeproxy/mneme/store/internal/buffer"
	"github.com/mnemeproxy/mneme/store/internal/delta"
)

// A dictionary never changes: stored texts cannot be decoded with another one.
//
//go:embed dictionary-1.txt
var dictionary []byte

var index = delta.NewThoroughIndex(dictionary)

// Most is the largest text, in bytes.
const Most = 4 << 10

var errShort = errors.New("malformed short text")

// Append appends the encoding of a text if it is shorter by at least an eighth.
func Append(dst, text []byte) (_ []byte, ok bool) {
	if len(text) > Most {
		return dst, false
	}
	steps := index.Append(buffer.Get(len(text)+64), text)
	defer func() { buffer.Put(steps) }()
	size := 0
	for _, b := range steps {
		size += int(codes[b].length)
	}
	if size = size/8 + 3; size > len(text)-len(text)/8 {
		return dst, false
	}
	dst = binary.AppendUvarint(slices.Grow(dst, size), uint64(len(steps)))
	return appendBits(dst, steps), true
}

// AppendDecoded appends the text that was encoded.
func AppendDecoded(dst, encoded []byte) ([]byte, error) {
	n, size := binary.Uvarint(encoded)
	if size <= 0 || n > 2*Most {
		return dst, errShort
	}
	steps, whole := appendSymbols(buffer.Get(int(n)), encoded[size:], int(n))
	defer func() { buffer.Put(steps) }()
	if !whole {
		return dst, errShort
	}
	return delta.AppendDecoded(slices.Grow(dst, 3*len(encoded)), steps, dictionary, Most) // most texts need no more room
}
