package vector

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Vectors are stored turned: to the last bit, the transform is what its definition says, one step after the other.
func TestTheTransformRoundsAsStepByStep(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := 1 << rapid.IntRange(0, 11).Draw(t, "power")
		x := rapid.SliceOfN(rapid.Float32Range(-1, 1), size, size).Draw(t, "x")
		want := slices.Clone(x)
		for half := 1; half < size; half *= 2 {
			for i := range want {
				if i&half == 0 {
					want[i], want[i+half] = want[i]+want[i+half], want[i]-want[i+half]
				}
			}
		}
		for i := range want {
			want[i] *= float32(1 / math.Sqrt(float64(size)))
		}
		if hadamard(x); !slices.Equal(x, want) {
			t.Fatalf("got %v, want %v", x, want)
		}
	})
}
