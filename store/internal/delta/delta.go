// Package delta encodes bytes relative to a source, as steps that are either literal bytes or a range of the source.
// The source is needed to decode them.
//
// It is for a few KiB whose source is at hand, and takes a nanosecond or two per byte. The result repeats nothing of
// the source and can be compressed.
package delta

import (
	"encoding/binary"
	"errors"
	"math/bits"
	"sync"
)

const (
	width  = 8 // bytes that are looked up; shorter matches are not found
	stride = 4 // every stride-th position of the source is indexed: matches of width+stride-1 bytes are always found

	// MaxSource is how many bytes a source may have.
	MaxSource = 1 << 20
)

// Index is a searchable source.
type Index struct {
	source []byte
	table  []uint32 // hash of bytes → position; 0 if there is none, which the bytes at 0 then refute
	shift  int
	step   int // most positions of a target that are passed over at a time
}

var indexes = sync.Pool{New: func() any { return new(Index) }}

// NewIndex indexes a source, which must not change until the index is released. Only the front of a source longer than
// [MaxSource] is indexed.
func NewIndex(source []byte) *Index {
	x := indexes.Get().(*Index)
	source = source[:min(len(source), MaxSource)]
	x.step = 1
	x.fill(source, stride, len(source)/stride)
	return x
}

// NewThoroughIndex indexes every position of a source of at most [MaxSource] bytes that is used often. It is not
// released. Where a target has little in common with the source, only matches of width+7 bytes are always found.
func NewThoroughIndex(source []byte) *Index {
	x := &Index{step: 8}
	x.fill(source, 1, len(source))
	return x
}

func (x *Index) fill(source []byte, stride, slots int) {
	x.source = source
	size := max(bits.Len(uint(slots)), 4)
	x.shift = 64 - size
	if cap(x.table) < 1<<size {
		x.table = make([]uint32, 1<<size)
	}
	x.table = x.table[:1<<size]
	clear(x.table)
	for i := 0; i+width <= len(x.source); i += stride {
		x.table[x.slot(binary.LittleEndian.Uint64(x.source[i:]))] = uint32(i)
	}
}

// Release releases the index.
func (x *Index) Release() {
	x.source = nil
	indexes.Put(x)
}

func (x *Index) slot(next uint64) uint64 {
	return next * 0x9e3779b97f4a7c15 >> x.shift
}

// Append appends the steps for target. Steps may follow those of other targets of the same source. Several goroutines
// may use the same index.
func (x *Index) Append(dst, target []byte) []byte {
	if len(x.source) < width {
		return appendBytes(dst, target)
	}
	from := 0 // of what has no step yet
	for at := 0; at+width <= len(target); {
		next := binary.LittleEndian.Uint64(target[at:])
		start := int(x.table[x.slot(next)])
		if binary.LittleEndian.Uint64(x.source[start:]) != next {
			at += min(1+(at-from)>>4, x.step)
			continue
		}
		n := width + common(target[at+width:], x.source[start+width:])
		for at > from && start > 0 && target[at-1] == x.source[start-1] {
			at, start, n = at-1, start-1, n+1
		}
		dst = appendBytes(dst, target[from:at])
		dst = binary.AppendUvarint(dst, uint64(n)<<1|1)
		dst = binary.AppendUvarint(dst, uint64(start))
		at += n
		from = at
	}
	return appendBytes(dst, target[from:])
}

func appendBytes(dst, b []byte) []byte {
	if len(b) == 0 {
		return dst
	}
	return append(binary.AppendUvarint(dst, uint64(len(b))<<1), b...)
}

// common returns the length of the common prefix of a and b.
func common(a, b []byte) (n int) {
	for len(a)-n >= 8 && len(b)-n >= 8 {
		if differ := binary.LittleEndian.Uint64(a[n:]) ^ binary.LittleEndian.Uint64(b[n:]); differ != 0 {
			return n + bits.TrailingZeros64(differ)/8
		}
		n += 8
	}
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	return n
}

var errSteps = errors.New("malformed steps, or steps of another source")

// AppendDecoded appends what steps stand for, at most most bytes.
func AppendDecoded(dst, steps, source []byte, most int) ([]byte, error) {
	for len(steps) > 0 {
		n, size := binary.Uvarint(steps)
		if size <= 0 || n>>1 > uint64(most) {
			return dst, errSteps
		}
		steps = steps[size:]
		length, from := int(n>>1), steps
		if n&1 != 0 {
			start, size := binary.Uvarint(steps)
			if size <= 0 || start > uint64(len(source)) {
				return dst, errSteps
			}
			steps, from = steps[size:], source[start:]
		}
		if length > len(from) {
			return dst, errSteps
		}
		dst = append(dst, from[:length]...)
		if n&1 == 0 {
			steps = steps[length:]
		}
		most -= length
	}
	return dst, nil
}
