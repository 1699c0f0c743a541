package vector

import (
	"cmp"
	"context"
	"math"
	"math/bits"
	"runtime"
	"slices"
	"sync"
)

// Hit is a vector found by a search.
type Hit struct {
	ID       ID
	Likeness float32 // -1 to 1, see [Set]
}

// Filter restricts a search to certain vectors, or to all others.
type Filter struct {
	IDs    []ID
	Except bool
}

// Up to exactRows vectors are all compared in full, which takes about 2 ms at 768 dimensions. With more, all are compared by their
// signs, and then the most promising in full: candidates for each wanted hit, at least minCandidates. That finds at least 95 of
// 100 hits of a full comparison, see TestTheFirstPassFindsTheBest.
const (
	exactRows     = 4096
	candidates    = 4
	minCandidates = 512
)

// Search returns the k vectors that are most like the query, best first. filter may be nil.
func (s *Set) Search(ctx context.Context, q *Query, k int, filter *Filter) ([]Hit, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := scan{set: s, allowed: s.allowed(filter)}
	n.aim(q)
	var best []scored
	var err error
	if n.count() <= exactRows {
		best, err = n.exact(ctx, k)
	} else {
		best, err = n.twice(ctx, k)
	}
	if err != nil {
		return nil, err
	}
	hits := make([]Hit, len(best))
	for i, b := range best {
		hits[i] = Hit{s.ids[b.row], b.score}
	}
	slices.SortFunc(hits, func(a, b Hit) int {
		return cmp.Or(cmp.Compare(b.Likeness, a.Likeness), slices.Compare(a.ID[:], b.ID[:]))
	})
	return hits, nil
}

// Likeness compares the query with certain vectors. It omits those that are not in the set.
func (s *Set) Likeness(q *Query, ids []ID) map[ID]float32 {
	s.mu.RLock()
	defer s.mu.RUnlock()
	n := scan{set: s}
	n.aim(q)
	found := make(map[ID]float32, len(ids))
	for _, id := range ids {
		if row, known := s.rows[id]; known {
			found[id] = n.likeness(row)
		}
	}
	return found
}

// scan is one search. The set does not change during it.
type scan struct {
	set     *Set
	allowed rowSet // nil: all

	query  []float32 // relative to the centre, at length 1
	offset float32   // of query and centre
	planes []uint64  // the query with four bits per value, as four bit planes for each word of a row
	low    float32   // what the value 0 of these means
	step   float32   // between two values
	total  float32   // of all values
}

// aim computes the query relative to the centre.
func (n *scan) aim(q *Query) {
	centre := n.set.view.centre
	n.query = make([]float32, len(centre))
	for i, v := range q.turned {
		n.query[i] = v - centre[i]
	}
	scaleTo(n.query, 1)
	if toward := n.mean(q.examples); toward != nil {
		scaleTo(toward, q.pull)
		for i, v := range toward {
			n.query[i] += v
		}
		scaleTo(n.query, 1)
	}
	low, high := float32(math.Inf(1)), float32(math.Inf(-1))
	for i, v := range n.query {
		n.offset += v * centre[i]
		n.total += v
		low, high = min(low, v), max(high, v)
	}
	n.low, n.step = low, max((high-low)/15, 1e-12)
	n.planes = make([]uint64, 4*n.set.space.words)
	for i, v := range n.query {
		value := uint64((v-low)/n.step + 0.5)
		for plane := range 4 {
			n.planes[i/64*4+plane] |= (value >> plane & 1) << (i % 64)
		}
	}
}

// mean returns the mean of examples relative to the centre, each at length 1 times its weight; nil for none.
func (n *scan) mean(examples []Example) (sum []float32) {
	s := n.set
	for _, e := range examples {
		row, known := s.rows[e.ID]
		if !known {
			continue
		}
		if sum == nil {
			sum = make([]float32, s.space.dims)
		}
		weight := e.Weight * s.view.inverse[row]
		for i, code := range s.codes.row(row) {
			sum[i] += weight * (s.scales[row]*float32(code) - s.view.centre[i])
		}
	}
	return sum
}

// scaleTo scales x to a length. All zeros stay zeros.
func scaleTo(x []float32, length float32) {
	var square float64
	for _, v := range x {
		square += float64(v) * float64(v)
	}
	if square == 0 {
		return
	}
	scale := float32(float64(length) / math.Sqrt(square))
	for i := range x {
		x[i] *= scale
	}
}

// likeness compares in full.
func (n *scan) likeness(row int) float32 {
	s := n.set
	return (s.scales[row]*dot(s.codes.row(row), n.query) - n.offset) * s.view.inverse[row]
}

// dot returns the dot product of bytes and numbers. Neither a SIMD library over float32 nor a loop over bytes alone is faster: at
// this size the time goes into waiting for memory.
func dot(codes []int8, x []float32) float32 {
	var a, b, c, d float32
	for len(codes) >= 8 && len(x) >= 8 {
		p, q := codes[:8:8], x[:8:8]
		a += float32(p[0])*q[0] + float32(p[4])*q[4]
		b += float32(p[1])*q[1] + float32(p[5])*q[5]
		c += float32(p[2])*q[2] + float32(p[6])*q[6]
		d += float32(p[3])*q[3] + float32(p[7])*q[7]
		codes, x = codes[8:], x[8:]
	}
	for i, v := range codes {
		a += float32(v) * x[i]
	}
	return a + b + c + d
}

// estimate returns the expected likeness by the signs of a row: the sum of the query's values where the sign is +, minus the sum of
// the others, times the lift of the row. The method is that of RaBitQ (Gao and Long, SIGMOD 2024).
func (n *scan) estimate(signs []uint64, ones, lift float32) float32 {
	var p0, p1, p2, p3 int
	planes := n.planes
	for _, word := range signs {
		p := planes[:4:4]
		p0 += bits.OnesCount64(word & p[0])
		p1 += bits.OnesCount64(word & p[1])
		p2 += bits.OnesCount64(word & p[2])
		p3 += bits.OnesCount64(word & p[3])
		planes = planes[4:]
	}
	positive := n.low*ones + n.step*float32(p0+2*p1+4*p2+8*p3)
	return (2*positive - n.total) * lift
}

// count returns how many rows are compared.
func (n *scan) count() int {
	if n.allowed == nil {
		return len(n.set.ids)
	}
	return n.allowed.count()
}

// checkEvery is how many rows are compared between two checks of the context.
const checkEvery = 1024

// exact compares every row in full.
func (n *scan) exact(ctx context.Context, k int) ([]scored, error) {
	best := top{limit: k}
	for row := range n.set.ids {
		if row%checkEvery == 0 && ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if n.allowed == nil || n.allowed.has(row) {
			best.offer(scored{row, n.likeness(row)})
		}
	}
	return best.list, nil
}

// parallelRows is the number of rows from which a second core pays off.
const parallelRows = 16 << 10

// twice compares every row by its signs, and the most promising ones in full.
func (n *scan) twice(ctx context.Context, k int) ([]scored, error) {
	total := len(n.set.ids)
	workers := max(min(runtime.GOMAXPROCS(0), total/parallelRows), 1)
	promising := make([]top, workers)
	var working sync.WaitGroup
	for w := range workers {
		promising[w].limit = max(candidates*k, minCandidates)
		working.Go(func() { n.promising(ctx, &promising[w], total*w/workers, total*(w+1)/workers) })
	}
	working.Wait()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	chosen := promising[0]
	for _, p := range promising[1:] {
		for _, s := range p.list {
			chosen.offer(s)
		}
	}
	best := top{limit: k}
	for _, s := range chosen.list {
		best.offer(scored{s.row, n.likeness(s.row)})
	}
	return best.list, nil
}

// promising collects the rows of a range with the best estimates.
func (n *scan) promising(ctx context.Context, best *top, from, to int) {
	v := &n.set.view
	for row := from; row < to; row++ {
		if row%checkEvery == 0 && ctx.Err() != nil {
			return
		}
		if n.allowed == nil || n.allowed.has(row) {
			best.offer(scored{row, n.estimate(v.bits.row(row), v.ones[row], v.lift[row])})
		}
	}
}

// rowSet has a bit for each row.
type rowSet []uint64

func (r rowSet) has(row int) bool { return r[row/64]>>(row%64)&1 == 1 }

func (r rowSet) count() (n int) {
	for _, word := range r {
		n += bits.OnesCount64(word)
	}
	return n
}

// allowed returns the rows that pass a filter.
func (s *Set) allowed(f *Filter) rowSet {
	if f == nil {
		return nil
	}
	set := make(rowSet, (len(s.ids)+63)/64)
	if f.Except {
		for row := range s.ids {
			set[row/64] |= 1 << (row % 64)
		}
	}
	for _, id := range f.IDs {
		if row, known := s.rows[id]; known {
			set[row/64] &^= 1 << (row % 64)
			if !f.Except {
				set[row/64] |= 1 << (row % 64)
			}
		}
	}
	return set
}
