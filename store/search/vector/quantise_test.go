package vector

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// Codes are the values in steps of 1/127 of the largest one, rounded to the nearest whole number and halves to the even one.
func TestCodesAreTheNearestSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := rapid.SliceOfN(rapid.OneOf(rapid.Float32Range(-1, 1), rapid.SampledFrom([]float32{0, 1, -1, 0.5 / 127, 1.5 / 127, -2.5 / 127, 1e-30})), 1, 100).Draw(t, "x")
		var largest float32
		for _, v := range x {
			largest = max(largest, v, -v)
		}
		if largest == 0 {
			t.Skip("no direction")
		}
		codes := make([]byte, len(x))
		scale := quantise(codes, x)
		var itself float64
		for i, v := range x {
			want := int8(math.RoundToEven(float64(v * (127 / largest))))
			if got := int8(codes[i]); got != want {
				t.Fatalf("%v of %v at most became %d, want %d", v, largest, got, want)
			}
			itself += float64(want) * float64(v)
		}
		if got := float64(scale) * itself; math.Abs(got-1) > 1e-6 {
			t.Fatalf("the cosine with itself is %v", got)
		}
	})
}
