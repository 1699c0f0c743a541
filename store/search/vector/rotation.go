package vector

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

// rotation rotates vectors of one length so that their information is spread evenly over the dimensions. Then a byte for each
// dimension is precise, and the signs alone are informative, whatever the embedder. It never changes, because vectors are stored
// rotated. It consists of sign changes and Walsh-Hadamard transforms, of the first and of the last 2^k values, so it takes
// d·log d steps.
type rotation struct {
	dims  int
	power int       // largest power of two within dims
	signs []float32 // rotationRounds lists of dims, +1 or -1, in one
}

const (
	rotationRounds = 2
	rotationSeed   = 0x6d6e656d65 // "mneme"
)

func newRotation(dims int) *rotation {
	r := &rotation{dims: dims, power: 1 << (bits.Len(uint(dims)) - 1), signs: make([]float32, rotationRounds*dims)}
	random := rand.NewPCG(rotationSeed, uint64(dims))
	for i := range r.signs {
		r.signs[i] = 1 - 2*float32(random.Uint64()>>63)
	}
	return r
}

// apply rotates x in place.
func (r *rotation) apply(x []float32) {
	for round := range rotationRounds {
		for i, sign := range r.signs[round*r.dims:][:r.dims] {
			x[i] *= sign
		}
		hadamard(x[:r.power])
		if r.power < r.dims {
			hadamard(x[r.dims-r.power:])
		}
	}
}

// hadamard is the Walsh-Hadamard transform, scaled so that it preserves lengths. len(x) is a power of two. It does two steps at a
// time, which reads and writes x half as often, and rounds in the same places as single steps.
func hadamard(x []float32) {
	half := 1
	if len(x) >= 4 { // neighbors, in a loop of their own: a slice for each of four values would cost more than the sums
		for rest := x; len(rest) >= 4; rest = rest[4:] {
			low, lowOff := rest[0]+rest[1], rest[0]-rest[1]
			high, highOff := rest[2]+rest[3], rest[2]-rest[3]
			rest[0], rest[1], rest[2], rest[3] = low+high, lowOff+highOff, low-high, lowOff-highOff
		}
		half = 4
	}
	for ; 4*half <= len(x); half *= 4 {
		for start := 0; start < len(x); start += 4 * half {
			a, b := x[start:][:half], x[start+half:][:half]
			c, d := x[start+2*half:][:half], x[start+3*half:][:half]
			for i := range a {
				low, lowOff := a[i]+b[i], a[i]-b[i]
				high, highOff := c[i]+d[i], c[i]-d[i]
				a[i], b[i], c[i], d[i] = low+high, lowOff+highOff, low-high, lowOff-highOff
			}
		}
	}
	for ; half < len(x); half *= 2 {
		for start := 0; start < len(x); start += 2 * half {
			low, high := x[start:][:half], x[start+half:][:half]
			for i := range low {
				low[i], high[i] = low[i]+high[i], low[i]-high[i]
			}
		}
	}
	scale := float32(1 / math.Sqrt(float64(len(x))))
	for i := range x {
		x[i] *= scale
	}
}
