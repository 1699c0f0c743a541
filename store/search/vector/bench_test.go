package vector

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/mnemeproxy/mneme/bench/cputime"
)

// clusters draws vectors as texts have them: in groups around centres, all of them with something in common.
type clusters struct {
	random  *rand.Rand
	dims    int
	common  []float32
	centres [][]float32
}

func newClusters(seed uint64, dims, count int) *clusters {
	c := &clusters{random: rand.New(rand.NewPCG(seed, 1)), dims: dims}
	c.common = c.gaussian(1)
	for range count {
		c.centres = append(c.centres, c.gaussian(0.7))
	}
	return c
}

func (c *clusters) gaussian(scale float64) []float32 {
	x := make([]float32, c.dims)
	for i := range x {
		x[i] = float32(c.random.NormFloat64() * scale)
	}
	return x
}

func (c *clusters) next() []float32 {
	x := c.gaussian(0.5)
	centre := c.centres[c.random.IntN(len(c.centres))]
	for i := range x {
		x[i] += c.common[i] + centre[i]
	}
	return x
}

func idOf(n int) (id ID) {
	binary.BigEndian.PutUint64(id[:], uint64(n))
	return id
}

// loadClusters makes a set of count vectors.
func loadClusters(tb testing.TB, space *Space, c *clusters, count int) *Set {
	tb.Helper()
	set, err := space.Load(func(put func(ID, []byte) error) error {
		for n := range count {
			stored, err := space.Append(nil, c.next())
			if err == nil {
				err = put(idOf(n), stored)
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		tb.Fatal(err)
	}
	return set
}

// BenchmarkSearch finds the best hundred of the vectors of one account.
func BenchmarkSearch(b *testing.B) {
	for _, size := range []struct{ rows, dims int }{{1000, 768}, {4000, 768}, {100_000, 768}, {100_000, 1536}, {1_000_000, 256}} {
		b.Run(fmt.Sprintf("%dx%d", size.rows, size.dims), func(b *testing.B) {
			space, err := NewSpace(size.dims)
			if err != nil {
				b.Fatal(err)
			}
			c := newClusters(1, size.dims, 200)
			set := loadClusters(b, space, c, size.rows)
			b.ReportMetric(float64(set.Bytes())/float64(size.rows), "bytes/vector")
			q, err := space.Query(c.next())
			if err != nil {
				b.Fatal(err)
			}
			began, searches := cputime.Used(), 0
			for b.Loop() {
				searches++
				if _, err := set.Search(b.Context(), q, 100, nil); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((cputime.Used()-began).Microseconds())/float64(searches), "cpu-us/op")
			b.ReportMetric(float64(set.Bytes())/float64(size.rows), "bytes/vector")
		})
	}
}

// BenchmarkPut adds vectors to a set that searches go by.
func BenchmarkPut(b *testing.B) {
	space, err := NewSpace(768)
	if err != nil {
		b.Fatal(err)
	}
	c := newClusters(1, 768, 200)
	set := space.NewSet()
	began, n := cputime.Used(), 0
	for b.Loop() {
		stored, err := space.Append(nil, c.next())
		if err == nil {
			err = set.Put(idOf(n), stored)
		}
		if err != nil {
			b.Fatal(err)
		}
		n++
	}
	b.ReportMetric(float64((cputime.Used()-began).Microseconds())/float64(n), "cpu-us/op")
}

// BenchmarkAppend makes the stored form of a vector.
func BenchmarkAppend(b *testing.B) {
	for _, dims := range []int{768, 1024} {
		b.Run(fmt.Sprint(dims), func(b *testing.B) {
			space, err := NewSpace(dims)
			if err != nil {
				b.Fatal(err)
			}
			x := newClusters(1, dims, 1).next()
			stored := make([]byte, 0, codeHeader+dims)
			for b.Loop() {
				if _, err := space.Append(stored, x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
