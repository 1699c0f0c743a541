package localhash

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func hasher(t testing.TB, dims int) *Hasher {
	t.Helper()
	h, err := New(dims)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func likeness(h *Hasher, a, b string) (cosine float64) {
	x, y := h.Vector(a), h.Vector(b)
	for i := range x {
		cosine += float64(x[i]) * float64(y[i])
	}
	return cosine
}

// It matches spelling: inflections, compounds and typing errors are near, other words are far, whatever they mean.
func TestSpellingIsMatchedAndMeaningIsNot(t *testing.T) {
	h := hasher(t, DefaultDimensions)
	for _, test := range []struct {
		asked, near, far string
	}{
		{"authentication", "authenticate", "login"},
		{"the deployment failed", "deployments fail", "the rollout broke"},
		{"Zugriffsrechte", "Zugriffsrecht", "Berechtigung"},
		{"kubernets pods", "kubernetes pod", "container"},
		{"登录超时问题", "登录超时", "缓存刷新"},
	} {
		near, far := likeness(h, test.asked, test.near), likeness(h, test.asked, test.far)
		if near < 0.2 || far > 0.2 {
			t.Errorf("%q: %q is at %.2f, %q at %.2f", test.asked, test.near, near, test.far, far)
		}
	}
}

// Vectors are stored and compared with those made later, by other versions of the program too.
func TestVectorsStayAsTheyAre(t *testing.T) {
	h := hasher(t, 256)
	var sum float64
	for i, v := range h.Vector("The lock in pkg/lock/wait.go times out 登录") {
		sum += float64(v) * float64(i%17)
	}
	const want = -10.739442378
	if math.Abs(sum-want) > 1e-6 {
		t.Errorf("the vector of a known text has changed: %.9f, was %.9f; a change needs a new name for the model", sum, want)
	}
}

func TestVectorsHaveLengthOneAndDependOnTheTextAlone(t *testing.T) {
	h := hasher(t, 512)
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.String().Draw(t, "text")
		v := h.Vector(text)
		var square float64
		for _, x := range v {
			square += float64(x) * float64(x)
		}
		if square != 0 && math.Abs(square-1) > 1e-5 {
			t.Fatalf("length %v", math.Sqrt(square))
		}
		if !slices.Equal(v, h.Vector(text)) {
			t.Fatal("the same text has two vectors")
		}
	})
	if !slices.Equal(h.Vector("... the !!"), make([]float32, 512)) {
		t.Error("a text without words has a direction")
	}
	if _, err := New(100); err == nil {
		t.Error("there are vectors of 100 dimensions")
	}
}

// BenchmarkVector makes the vector of a text of 4 KB.
func BenchmarkVector(b *testing.B) {
	h := hasher(b, DefaultDimensions)
	text := ""
	for len(text) < 4<<10 {
		text += "the lease of shard " + string(rune('a'+len(text)%26)) + " is acquired before rotateLedger drains the queue; "
	}
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		h.Vector(text)
	}
}
