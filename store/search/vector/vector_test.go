package vector

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"pgregory.net/rapid"
)

// plainly is what a set is measured by: the vectors as they are stored, and float64.
type plainly struct {
	space  *Space
	stored map[ID][]byte
}

func (p *plainly) values(stored []byte) []float64 {
	codes := make([]int8, p.space.dims)
	scale, _ := p.space.decode(codes, stored)
	x := make([]float64, len(codes))
	for i, code := range codes {
		x[i] = float64(scale) * float64(code)
	}
	return x
}

// search compares with every vector. The centre is that of the set, which follows the vectors at its own pace.
func (p *plainly) search(set *Set, q *Query, among func(ID) bool) []Hit {
	query := make([]float64, p.space.dims)
	for i, v := range q.turned {
		query[i] = float64(v) - float64(set.view.centre[i])
	}
	var hits []Hit
	for id, stored := range p.stored {
		if !among(id) {
			continue
		}
		x := p.values(stored)
		var product, squareX, squareQ float64
		for i := range x {
			x[i] -= float64(set.view.centre[i])
			product += x[i] * query[i]
			squareX += x[i] * x[i]
			squareQ += query[i] * query[i]
		}
		likeness := 0.0
		if squareX*squareQ > 1e-12 {
			likeness = product / math.Sqrt(squareX*squareQ)
		}
		hits = append(hits, Hit{id, float32(likeness)})
	}
	slices.SortFunc(hits, func(a, b Hit) int { return cmp.Compare(b.Likeness, a.Likeness) })
	return hits
}

// Whatever is put in and taken out, in whatever order, a search gives what comparing all vectors in float64 gives.
func TestASearchAgreesWithComparingAll(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		dims := rapid.SampledFrom([]int{1, 3, 8, 63, 64, 100, 256}).Draw(t, "dims")
		space, err := NewSpace(dims)
		if err != nil {
			t.Fatal(err)
		}
		c := newClusters(rapid.Uint64().Draw(t, "seed"), dims, 4)
		set, want := space.NewSet(), &plainly{space, make(map[ID][]byte)}
		for range rapid.IntRange(0, 200).Draw(t, "changes") {
			id := idOf(c.random.IntN(60))
			if c.random.IntN(4) == 0 {
				set.Remove(id)
				delete(want.stored, id)
				continue
			}
			stored, err := space.Append(nil, c.next())
			if err != nil {
				t.Fatal(err)
			}
			if err := set.Put(id, stored); err != nil {
				t.Fatal(err)
			}
			want.stored[id] = stored
		}
		q, err := space.Query(c.next())
		if err != nil {
			t.Fatal(err)
		}
		var filter *Filter
		among := func(ID) bool { return true }
		if rapid.Bool().Draw(t, "filtered") {
			filter = &Filter{Except: rapid.Bool().Draw(t, "except")}
			for n := range 70 {
				if c.random.IntN(2) == 0 {
					filter.IDs = append(filter.IDs, idOf(n))
				}
			}
			among = func(id ID) bool { return slices.Contains(filter.IDs, id) != filter.Except }
		}
		k := rapid.IntRange(1, 80).Draw(t, "k")
		agree(t, set, want.search(set, q, among), q, k, filter)
	})
}

type failer interface{ Fatalf(string, ...any) }

func agree(t failer, set *Set, all []Hit, q *Query, k int, filter *Filter) {
	got, err := set.Search(context.Background(), q, k, filter)
	if err != nil || len(got) != min(k, len(all)) {
		t.Fatalf("%d hits, error %v; want %d", len(got), err, min(k, len(all)))
	}
	likeness := make(map[ID]float32, len(all))
	for _, hit := range all {
		likeness[hit.ID] = hit.Likeness
	}
	const tolerance = 1e-5
	for i, hit := range got {
		want, there := likeness[hit.ID]
		if !there || math.Abs(float64(hit.Likeness-want)) > tolerance {
			t.Fatalf("hit %d is %v, likeness should be %v (there: %v)", i, hit, want, there)
		}
		if math.Abs(float64(hit.Likeness-all[i].Likeness)) > tolerance {
			t.Fatalf("hit %d has likeness %v, the best at this place have %v", i, hit.Likeness, all[i].Likeness)
		}
		if direct := set.Likeness(q, []ID{hit.ID})[hit.ID]; direct != hit.Likeness {
			t.Fatalf("asked for on its own hit %d has likeness %v, in the search %v", i, direct, hit.Likeness)
		}
	}
}

// What is stored is turned and rounded to bytes; cosines are what they were to within a thousandth.
func TestWhatIsStoredKeepsItsAngles(t *testing.T) {
	for _, dims := range []int{384, 768, 1024, 1536, 3072} {
		space, err := NewSpace(dims)
		if err != nil {
			t.Fatal(err)
		}
		p := &plainly{space: space}
		c := newClusters(3, dims, 3)
		sparse := make([]float32, dims) // as feature hashing makes them of a short text
		for range 9 {
			sparse[c.random.IntN(dims)] = float32(c.random.IntN(5) - 2)
		}
		sparse[0] = 1
		vectors := [][]float32{c.next(), c.next(), c.next(), sparse, c.gaussian(1e-6), c.gaussian(1e6)}
		for _, a := range vectors {
			for _, b := range vectors {
				stored, err := space.Append(nil, a)
				if err != nil {
					t.Fatal(err)
				}
				q, err := space.Query(b)
				if err != nil {
					t.Fatal(err)
				}
				var got float64
				for i, v := range p.values(stored) {
					got += v * float64(q.turned[i])
				}
				if want := cosine(a, b); math.Abs(got-want) > 1e-3 {
					t.Errorf("%d dimensions: cosine %v, was %v", dims, got, want)
				}
			}
		}
	}
}

func cosine(a, b []float32) float64 {
	var product, squareA, squareB float64
	for i := range a {
		product += float64(a[i]) * float64(b[i])
		squareA += float64(a[i]) * float64(a[i])
		squareB += float64(b[i]) * float64(b[i])
	}
	return product / math.Sqrt(squareA*squareB)
}

// Of the ten best by the cosine of the original vectors, in float64 and seen from their own mean, a search of a large
// account finds at least 95 of 100, although it looks at few in full.
func TestTheFirstPassFindsTheBest(t *testing.T) {
	for _, test := range []struct{ dims, rows, groups int }{{128, 6_000, 50}, {384, 4_500, 300}} {
		space, err := NewSpace(test.dims)
		if err != nil {
			t.Fatal(err)
		}
		c := newClusters(5, test.dims, test.groups)
		original := make([][]float32, test.rows)
		mean := make([]float32, test.dims)
		set, err := space.Load(func(put func(ID, []byte) error) error {
			for n := range original {
				original[n] = c.next()
				stored, err := space.Append(nil, original[n])
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
			t.Fatal(err)
		}
		for n := range original {
			normalize(original[n])
			for i, v := range original[n] {
				mean[i] += v / float32(test.rows)
			}
		}
		for n := range original {
			for i := range mean {
				original[n][i] -= mean[i]
			}
		}
		found, queries := 0, 15
		for range queries {
			asked := c.next()
			q, err := space.Query(asked)
			if err != nil {
				t.Fatal(err)
			}
			normalize(asked)
			for i := range mean {
				asked[i] -= mean[i]
			}
			best := make([]scored, test.rows)
			for n := range original {
				best[n] = scored{n, float32(cosine(original[n], asked))}
			}
			slices.SortFunc(best, func(a, b scored) int { return cmp.Compare(b.score, a.score) })
			hits, err := set.Search(t.Context(), q, 10, nil)
			if err != nil {
				t.Fatal(err)
			}
			for _, b := range best[:10] {
				if slices.ContainsFunc(hits, func(h Hit) bool { return h.ID == idOf(b.row) }) {
					found++
				}
			}
		}
		recall := float64(found) / float64(10*queries)
		t.Logf("%d vectors of %d dimensions in %d groups: recall@10 %.3f", test.rows, test.dims, test.groups, recall)
		if recall < 0.95 {
			t.Errorf("%d vectors of %d dimensions in %d groups: recall@10 is %.3f, want at least 0.95", test.rows, test.dims, test.groups, recall)
		}
	}
}

func normalize(x []float32) {
	length := float32(math.Sqrt(float64(dotPlain(x, x))))
	for i := range x {
		x[i] /= length
	}
}

func dotPlain(a, b []float32) (sum float64) {
	for i := range a {
		sum += float64(a[i]) * float64(b[i])
	}
	return sum
}

// A filter that leaves few rows of a large account is exact; one that leaves many holds in the first pass too.
func TestFiltersHoldInLargeAccounts(t *testing.T) {
	space, err := NewSpace(64)
	if err != nil {
		t.Fatal(err)
	}
	c := newClusters(9, 64, 10)
	set := loadClusters(t, space, c, 2*exactRows)
	q, err := space.Query(c.next())
	if err != nil {
		t.Fatal(err)
	}
	var even []ID
	for n := 0; n < 2*exactRows; n += 2 {
		even = append(even, idOf(n))
	}
	for _, f := range []*Filter{{IDs: even}, {IDs: even, Except: true}, {IDs: even[:30]}, {IDs: []ID{idOf(1 << 30)}}} {
		hits, err := set.Search(t.Context(), q, 50, f)
		if err != nil {
			t.Fatal(err)
		}
		if want := min(50, len(f.IDs)); len(hits) != want && !(f.IDs[0] == idOf(1<<30) && len(hits) == 0) {
			t.Errorf("a filter of %d gives %d hits", len(f.IDs), len(hits))
		}
		for _, h := range hits {
			if slices.Contains(f.IDs, h.ID) == f.Except {
				t.Errorf("%v is let through by a filter of %d, except %v", h.ID, len(f.IDs), f.Except)
			}
		}
	}
}

func TestVectorsWithoutDirectionAreRefused(t *testing.T) {
	space, err := NewSpace(4)
	if err != nil {
		t.Fatal(err)
	}
	nan, inf := float32(math.NaN()), float32(math.Inf(1))
	for _, x := range [][]float32{{0, 0, 0, 0}, {1, nan, 0, 0}, {1, inf, 0, 0}, {1, 2, 3}, nil} {
		if _, err := space.Append(nil, x); err == nil {
			t.Errorf("%v is taken", x)
		}
	}
	if _, err := space.Append(nil, make([]float32, 4)); !errors.Is(err, ErrNoDirection) {
		t.Errorf("error %v", err)
	}
	set := space.NewSet()
	for _, stored := range [][]byte{nil, {1, 2, 3}, make([]byte, 8), {0x7f, 0xc0, 0, 0, 1, 1, 1, 1}} {
		if err := set.Put(ID{}, stored); err == nil {
			t.Errorf("%v is taken", stored)
		}
	}
	for _, dims := range []int{0, -1, MaxDimensions + 1} {
		if _, err := NewSpace(dims); err == nil {
			t.Errorf("a space of %d dimensions", dims)
		}
	}
}

// Searches go on while vectors come and go, and never give one twice.
func TestSearchesGoOnWhileVectorsComeAndGo(t *testing.T) {
	space, err := NewSpace(32)
	if err != nil {
		t.Fatal(err)
	}
	c := newClusters(2, 32, 5)
	set := loadClusters(t, space, c, 500)
	q, err := space.Query(c.next())
	if err != nil {
		t.Fatal(err)
	}
	stop := make(chan struct{})
	var working sync.WaitGroup
	for range 2 {
		working.Go(func() {
			for {
				hits, err := set.Search(context.Background(), q, 100, nil)
				seen := make(map[ID]bool)
				for _, h := range hits {
					seen[h.ID] = true
				}
				if err != nil || len(seen) != len(hits) {
					t.Errorf("%d hits, %d ids, error %v", len(hits), len(seen), err)
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		})
	}
	random := rand.New(rand.NewPCG(1, 1))
	for range 2000 {
		id := idOf(random.IntN(800))
		stored, err := space.Append(nil, c.next())
		if err == nil && random.IntN(2) == 0 {
			err = set.Put(id, stored)
		} else {
			set.Remove(id)
		}
		if err != nil {
			t.Error(err)
		}
	}
	close(stop)
	working.Wait()
}

// The cache holds what was used last, loads a set once however many ask, and gives the load to the next when one fails.
func TestTheCacheHoldsWhatWasUsedLast(t *testing.T) {
	space, err := NewSpace(128)
	if err != nil {
		t.Fatal(err)
	}
	c := newClusters(2, 128, 5)
	loads := make(map[Key]int)
	load := func(key Key) func(context.Context) (*Set, error) {
		return func(context.Context) (*Set, error) {
			loads[key]++
			return loadClusters(t, space, c, 100), nil
		}
	}
	size := loadClusters(t, space, c, 100).Bytes()
	cache := NewCache(2*size + size/2)
	keys := []Key{{1, 1}, {2, 1}, {1, 1}, {3, 1}, {1, 1}, {2, 1}}
	for _, key := range keys {
		if _, err := cache.Get(t.Context(), key, load(key)); err != nil {
			t.Fatal(err)
		}
	}
	if want := map[Key]int{{1, 1}: 1, {2, 1}: 2, {3, 1}: 1}; !maps.Equal(loads, want) {
		t.Errorf("loaded %v, want %v", loads, want)
	}
	if held := cache.Bytes(); held > 2*size+size/2 || held < size {
		t.Errorf("%d bytes held; a set has %d", held, size)
	}
	cache.Drop(1)
	if cache.Loaded(Key{1, 1}) != nil || cache.Bytes() != 0 {
		t.Error("a generation that was dropped is still there")
	}
	broken := errors.New("broken")
	if _, err := cache.Get(t.Context(), Key{4, 2}, func(context.Context) (*Set, error) { return nil, broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	if set, err := cache.Get(t.Context(), Key{4, 2}, load(Key{4, 2})); err != nil || set == nil {
		t.Errorf("after a failure: %v, %v", set, err)
	}
}
