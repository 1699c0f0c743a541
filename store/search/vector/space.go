package vector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"sync"
)

// Space is what the vectors of one embedder have in common: their length, and how they are stored.
type Space struct {
	dims     int
	words    int // of 64 bits, for a bit of each dimension
	rotation *rotation
	turned   sync.Pool // *[]float32 of dims, for rotated vectors that are not retained
}

// MaxDimensions bounds the length of a vector.
const MaxDimensions = 1 << 14

// NewSpace returns the space of vectors of a length, from 1 to [MaxDimensions].
func NewSpace(dims int) (*Space, error) {
	if dims < 1 || dims > MaxDimensions {
		return nil, fmt.Errorf("vectors of %d dimensions; there can be 1 to %d", dims, MaxDimensions)
	}
	s := &Space{dims: dims, words: (dims + 63) / 64, rotation: newRotation(dims)}
	s.turned.New = func() any { turned := make([]float32, dims); return &turned }
	return s, nil
}

// unit sets turned to the rotated x, at length 1.
func (s *Space) unit(turned, x []float32) error {
	if len(x) != s.dims {
		return fmt.Errorf("a vector of %d dimensions came; there should be %d", len(x), s.dims)
	}
	var square float64
	for _, v := range x {
		square += float64(v) * float64(v)
	}
	if square == 0 || math.IsNaN(square) || math.IsInf(square, 0) {
		return ErrNoDirection
	}
	scale := 1 / math.Sqrt(square)
	turned = turned[:len(x)]
	for i, v := range x {
		turned[i] = float32(float64(v) * scale)
	}
	s.rotation.apply(turned)
	return nil
}

// ErrNoDirection is the error for a vector without a direction: all zeros, or with numbers that are not finite.
var ErrNoDirection = errors.New("the vector has no direction")

// codeHeader is the size of the scale before the codes.
const codeHeader = 4

// Append appends a vector in its stored form: a scale and a signed byte for each dimension of the rotated vector at length 1. The
// error of each byte is at most half a step of 1/127 of the largest value, which changes a cosine of 768 dimensions by about
// 0.0003.
func (s *Space) Append(dst []byte, x []float32) ([]byte, error) {
	buffer := s.turned.Get().(*[]float32)
	defer s.turned.Put(buffer)
	turned := *buffer
	if err := s.unit(turned, x); err != nil {
		return dst, err
	}
	at := len(dst)
	dst = slices.Grow(dst, codeHeader+s.dims)[:at+codeHeader+s.dims]
	scale := quantise(dst[at+codeHeader:], turned)
	binary.BigEndian.PutUint32(dst[at:], math.Float32bits(scale))
	return dst, nil
}

// Codes returns the part of a vector in its stored form after the scale: a signed byte for each dimension.
func Codes(stored []byte) []byte {
	return stored[min(codeHeader, len(stored)):]
}

// Signs returns a bit for each dimension of a vector in its stored form: whether its value is above 0. Vectors that share
// more of them are more alike, as a rule. The highest bit of a byte comes first; those behind the last dimension are 0.
func (s *Space) Signs(stored []byte) ([]byte, error) {
	if len(stored) != codeHeader+s.dims {
		return nil, errMalformed
	}
	signs := make([]byte, (s.dims+7)/8)
	for i, code := range stored[codeHeader:] {
		if int8(code) > 0 {
			signs[i/8] |= 1 << (7 - i%8)
		}
	}
	return signs, nil
}

// quantise sets codes to x in steps of 1/127 of its largest value, each a signed byte, and returns the scale that keeps the
// cosine of a vector with itself at 1. x has a finite value other than 0.
func quantise(codes []byte, x []float32) (scale float32) {
	// The bits of non-negative floats sort like the numbers.
	var largest uint32
	for _, v := range x {
		largest = max(largest, math.Float32bits(v)&^(1<<31))
	}
	step := 127 / math.Float32frombits(largest)
	// A float32 near roundingWeight has no bits for fractions. So adding that rounds to the nearest whole number, half to
	// even, and leaves it in the lowest bits. math.RoundToEven takes five times as long.
	const roundingWeight = 3 << 22
	codes = codes[:len(x)]
	var product float64
	for i, v := range x {
		code := int8(math.Float32bits(float32(v*step) + roundingWeight))
		codes[i] = byte(code)
		product += float64(code) * float64(v)
	}
	return float32(1 / product)
}

// Query is a vector with which others are compared.
type Query struct {
	turned   []float32
	examples []Example
	pull     float32
}

// Example is a vector of a set that is assumed to be a good answer, with a weight.
type Example struct {
	ID     ID
	Weight float32
}

// Toward returns the query moved toward the mean of examples by pull times its own length, relative to the centre of the set. This
// is Rocchio feedback.
func (q *Query) Toward(examples []Example, pull float32) *Query {
	return &Query{q.turned, examples, pull}
}

// Query prepares a vector.
func (s *Space) Query(x []float32) (*Query, error) {
	turned := make([]float32, s.dims)
	if err := s.unit(turned, x); err != nil {
		return nil, err
	}
	return &Query{turned: turned}, nil
}
