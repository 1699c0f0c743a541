package search

import (
	"math"

	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// What vectors add to words is measured with every search, on its own hits. A fixed weight is not safe: an embedder of weak meaning, or
// one that is broken, would rank below words alone.
const (
	// Where the best hits by words hold nearly all of a query, vectors have little to add, and a query about names would lose: their
	// weight falls with the share of the query that is not covered, from uncovered on.
	coveredHits = 5
	uncovered   = 0.5

	// Vectors that know anything agree with words: hits that hold more of the query are more alike to it. Beyond what chance makes of
	// so many hits, agreesFully is the correlation from which vectors have their whole weight.
	chance        = 3 // standard deviations
	agreesFully   = 0.15
	leastCompared = 10 // hits
)

// weighVectors sets the weight of the vectors by the candidates by words.
func (s *searching) weighVectors(ranking *lexical.Ranking) error {
	l := s.like
	l.measured = true
	ranked := s.fused[:min(l.ranked, len(s.fused))]
	numbers := make([]uint32, 0, coveredHits)
	for _, c := range ranked[:min(coveredHits, len(ranked))] {
		numbers = append(numbers, c.number)
	}
	covered, err := s.coverage(ranking, numbers)
	if err != nil {
		return err
	}
	most := 0.0
	for i := range covered {
		most = max(most, covered[i].Share)
	}
	l.weight *= min(1, (1-most)/(1-uncovered)) * agreement(ranked)
	l.weight = weightWithContext(l.weight, ranked)
	return nil
}

// agreement returns what part of their weight vectors deserve by the hits that have words and a vector: 0 to 1.
func agreement(hits []*candidate) float64 {
	var n, x, y, xx, yy, xy float64
	for _, c := range hits {
		if c.cosine != nil && c.bm25 > 0 {
			n, x, y = n+1, x+c.bm25, y+*c.cosine
			xx, yy, xy = xx+c.bm25*c.bm25, yy+*c.cosine**c.cosine, xy+c.bm25**c.cosine
		}
	}
	spread := math.Sqrt((xx - x*x/n) * (yy - y*y/n))
	if n < leastCompared || !(spread > 0) {
		return 1
	}
	return min(max(((xy-x*y/n)/spread-chance/math.Sqrt(n))/agreesFully, 0), 1)
}

// weightWithContext scales a weight that was chosen for scores of a turn's own words to scores that include its neighbors and its
// session. These lie closer together: unscaled, small differences in likeness would decide.
func weightWithContext(weight float64, ranked []*candidate) float64 {
	best, own := 0.0, 0.0
	for _, c := range ranked {
		best, own = max(best, c.words), max(own, c.bm25)
	}
	if own == 0 || weight >= 1 {
		return weight
	}
	return weight / ((1-weight)*best/own + weight)
}
