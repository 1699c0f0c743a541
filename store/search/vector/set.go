package vector

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"sync"
)

// ID identifies a vector.
type ID [16]byte

// Set is the vectors of one account in memory. One goroutine at a time may change it; any number may search.
//
// Likeness is the cosine of the angle between two vectors relative to the centre of the set. What all vectors of an account have
// in common does not distinguish them, and the vectors of an embedder have much in common.
type Set struct {
	space *Space

	changing sync.Mutex   // held while the set is changed
	mu       sync.RWMutex // held for reading by searches, for writing for the moment of a change
	ids      []ID         // by row
	rows     map[ID]int
	codes    blocks[int8] // dims of each row
	scales   []float32    // factor of the codes, by row
	view     view

	sum   []float64 // of all vectors
	stale int       // rows added or removed since the centre was computed
}

// view is what is derived from codes and centre.
type view struct {
	centre  []float32
	bits    blocks[uint64] // words of each row: the signs of its vector relative to the centre
	ones    []float32      // number of + signs
	lift    []float32      // length divided by the sum of the magnitudes of the values: turns an estimate by signs into a likeness
	inverse []float32      // 1 / distance from the centre; 0: at the centre
}

// blocks is a list of rows that grows without being copied. Each row has width values.
type blocks[T any] struct {
	width int
	list  [][]T
}

// blockRows is the number of rows in a block.
const blockRows = 1024

func (b *blocks[T]) row(i int) []T {
	at := i % blockRows * b.width
	return b.list[i/blockRows][at : at+b.width : at+b.width]
}

func (b *blocks[T]) append(row []T) {
	if n := len(b.list); n == 0 || len(b.list[n-1]) == blockRows*b.width {
		b.list = append(b.list, nil)
	}
	last := &b.list[len(b.list)-1]
	*last = append(*last, row...)
}

// cut removes the last row.
func (b *blocks[T]) cut() {
	last := len(b.list) - 1
	if b.list[last] = b.list[last][:len(b.list[last])-b.width]; len(b.list[last]) == 0 {
		b.list = b.list[:last]
	}
}

func (b *blocks[T]) values() (n int) {
	for _, block := range b.list {
		n += cap(block)
	}
	return n
}

// NewSet returns an empty set.
func (s *Space) NewSet() *Set {
	return &Set{
		space: s, rows: make(map[ID]int), codes: blocks[int8]{width: s.dims}, sum: make([]float64, s.dims),
		view: view{centre: make([]float32, s.dims), bits: blocks[uint64]{width: s.words}},
	}
}

// Load returns a set of all vectors that each passes to put. Ids must be distinct.
func (s *Space) Load(each func(put func(id ID, stored []byte) error) error) (*Set, error) {
	set, err := s.load(each)
	if err == nil {
		set.view = set.derived(set.mean())
	}
	return set, err
}

// LoadAround is [Space.Load] for vectors that were selected from a larger set, with its centre. The set is not changed.
func (s *Space) LoadAround(centre []float32, each func(put func(id ID, stored []byte) error) error) (*Set, error) {
	set, err := s.load(each)
	if err == nil {
		set.view = set.derived(centre)
	}
	return set, err
}

// Centre returns what the vectors have in common, as their mean.
func (s *Set) Centre() []float32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.view.centre)
}

func (s *Space) load(each func(put func(id ID, stored []byte) error) error) (*Set, error) {
	set := s.NewSet()
	codes := make([]int8, s.dims)
	err := each(func(id ID, stored []byte) error {
		scale, err := s.decode(codes, stored)
		if err == nil {
			set.append(id, codes, scale)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	set.stale = 0
	return set, nil
}

// Len returns the number of vectors.
func (s *Set) Len() int {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return len(s.ids)
}

// Bytes estimates the memory of the set.
func (s *Set) Bytes() int64 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	const each = 16 + 48 + 4*4 // id, its entry in rows, the numbers
	return int64(s.codes.values() + 8*s.view.bits.values() + each*len(s.ids) + 16*s.space.dims)
}

var errMalformed = errors.New("malformed vector")

// decode reads the output of [Space.Append].
func (s *Space) decode(codes []int8, stored []byte) (scale float32, err error) {
	if len(stored) != codeHeader+s.dims {
		return 0, errMalformed
	}
	scale = math.Float32frombits(binary.BigEndian.Uint32(stored))
	if !(scale > 0) || math.IsInf(float64(scale), 0) {
		return 0, errMalformed
	}
	for i, b := range stored[codeHeader:] {
		codes[i] = int8(b)
	}
	return scale, nil
}

// Put adds a vector in the form of [Space.Append]. It replaces one with the same id.
func (s *Set) Put(id ID, stored []byte) error {
	codes := make([]int8, s.space.dims)
	scale, err := s.space.decode(codes, stored)
	if err != nil {
		return err
	}
	s.changing.Lock()
	defer s.changing.Unlock()
	d := s.view.derive(make([]uint64, s.space.words), codes, scale)
	s.mu.Lock()
	if row, known := s.rows[id]; known {
		s.weigh(row, -1)
		copy(s.codes.row(row), codes)
		s.scales[row] = scale
		s.view.set(row, d)
		s.weigh(row, 1)
	} else {
		s.append(id, codes, scale)
		s.view.append(d)
	}
	s.mu.Unlock()
	s.changed()
	return nil
}

// append adds a row, but not to the view.
func (s *Set) append(id ID, codes []int8, scale float32) {
	s.rows[id] = len(s.ids)
	s.ids = append(s.ids, id)
	s.codes.append(codes)
	s.scales = append(s.scales, scale)
	s.weigh(len(s.ids)-1, 1)
}

// Remove removes a vector if it exists.
func (s *Set) Remove(id ID) {
	s.changing.Lock()
	defer s.changing.Unlock()
	row, known := s.rows[id]
	if !known {
		return
	}
	s.mu.Lock()
	s.weigh(row, -1)
	last := len(s.ids) - 1
	if row != last {
		s.ids[row], s.scales[row] = s.ids[last], s.scales[last]
		s.rows[s.ids[row]] = row
		copy(s.codes.row(row), s.codes.row(last))
		s.view.move(row, last)
	}
	delete(s.rows, id)
	s.ids, s.scales = s.ids[:last], s.scales[:last]
	s.codes.cut()
	s.view.cut()
	s.mu.Unlock()
	s.changed()
}

// weigh adds a row to the sum, or subtracts it with sign -1.
func (s *Set) weigh(row int, sign float64) {
	scale := sign * float64(s.scales[row])
	for i, code := range s.codes.row(row) {
		s.sum[i] += scale * float64(code)
	}
	s.stale++
}

// The centre is recomputed when a quarter of the rows have changed. It counts centreShrink more vectors at the origin, because the
// mean of a handful of vectors says little beyond these.
const (
	staleShare   = 4
	centreShrink = 8
)

// changed recomputes the centre when it is due. Searches continue meanwhile.
func (s *Set) changed() {
	if s.stale*staleShare <= len(s.ids) {
		return
	}
	s.stale = 0
	fresh := s.derived(s.mean())
	s.mu.Lock()
	s.view = fresh
	s.mu.Unlock()
}

// mean returns the centre of all rows.
func (s *Set) mean() []float32 {
	centre := make([]float32, s.space.dims)
	for i, sum := range s.sum {
		centre[i] = float32(sum / float64(len(s.ids)+centreShrink))
	}
	return centre
}

// derived derives a view of all rows around a centre.
func (s *Set) derived(centre []float32) view {
	v := view{centre: centre, bits: blocks[uint64]{width: s.space.words}}
	bits := make([]uint64, s.space.words)
	for row := range s.ids {
		v.append(v.derive(bits, s.codes.row(row), s.scales[row]))
	}
	return v
}

// aspect is the part of a view that belongs to one row.
type aspect struct {
	bits                []uint64
	ones, lift, inverse float32
}

// derive computes the aspect of a row relative to the centre. The result retains bits.
func (v *view) derive(bits []uint64, codes []int8, scale float32) aspect {
	clear(bits)
	a := aspect{bits: bits}
	var square, magnitudes float32
	for i, code := range codes {
		x := scale*float32(code) - v.centre[i]
		square += x * x
		if x > 0 {
			bits[i/64] |= 1 << (i % 64)
			a.ones++
			magnitudes += x
		} else {
			magnitudes -= x
		}
	}
	if square > 1e-12 {
		length := float32(math.Sqrt(float64(square)))
		a.lift, a.inverse = length/magnitudes, 1/length
	}
	return a
}

func (v *view) append(a aspect) {
	v.bits.append(a.bits)
	v.ones, v.lift, v.inverse = append(v.ones, a.ones), append(v.lift, a.lift), append(v.inverse, a.inverse)
}

func (v *view) set(row int, a aspect) {
	copy(v.bits.row(row), a.bits)
	v.ones[row], v.lift[row], v.inverse[row] = a.ones, a.lift, a.inverse
}

func (v *view) move(to, from int) {
	v.set(to, aspect{v.bits.row(from), v.ones[from], v.lift[from], v.inverse[from]})
}

func (v *view) cut() {
	last := len(v.lift) - 1
	v.bits.cut()
	v.ones, v.lift, v.inverse = v.ones[:last], v.lift[:last], v.inverse[:last]
}
