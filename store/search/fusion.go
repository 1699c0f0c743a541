package search

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/lexical"
	"github.com/mnemeproxy/mneme/store/search/vector"
)

// A hybrid score is a weighted sum of two shares: BM25 relative to the best BM25, and similarity relative to the best
// similarity. Weighing scores, not ranks, lets the source that discriminates better decide: with reciprocal ranks a
// weak source of vectors cost a quarter of the quality on turns of agents. The similarity of unrelated turns is 0 for
// every embedder, because vectors are centered. If an embedder finds hundreds of turns about as similar as the best, as
// in a language that it does not know, all of them get about the same share, and words decide.
const (
	// vectorWeight is the most that vectors share in a score, see [searching.weighVectors]. With more, words lose to
	// turns on the same topic in sessions of agents; with less, paraphrases are missed.
	vectorWeight = 0.2
	// leastLikeness is what a turn without any of the query's words needs, so that a search for something absent finds
	// nothing. Unrelated texts have a similarity of about 0 ± 1/√dimensions.
	leastLikeness = 0.2
	// The query vector is moved toward those of the best hits by words. On the sets of the evaluation that gains half a
	// point of nDCG with vectors by spelling; more of either gains no more.
	feedbackHits = 5
	feedbackPull = 0.5
)

// pools are how many of the best candidates of each source are weighed together: first what the read pages need, then
// up to that many more as reading continues. They do not depend on where a page begins, so pages of one search neither
// repeat nor skip hits.
var pools = [...]int{200, 800, 2000}

// likeness is the vector side of a search.
type likeness struct {
	plain  *vector.Query
	query  *vector.Query // moved toward the best hits by words
	set    *vector.Set
	weight float64 // in a hybrid score

	filter   *vector.Filter
	measured bool    // what the vectors are worth is in weight
	pooled   int     // pools weighed so far
	ranked   int     // candidates by words in them
	best     float64 // of the first one
}

// over reports whether the remaining candidates are weighed by words only.
func (l *likeness) over() bool { return l.pooled == len(pools) }

// compare prepares the sources of the search, and reports what is unavailable.
func (s *searching) compare(ctx context.Context) (mode Mode, found *likeness, note string) {
	asked := cmp.Or(s.request.Mode, Auto)
	v := s.vectors
	switch {
	case asked == Lexical || s.query.Text() == "" || v == nil && asked == Auto:
		return Lexical, nil, ""
	case v == nil:
		return Lexical, nil, noEmbedder
	case asked == Auto && !v.knowMeaning():
		s.spelling = s.request.Ranking.RecencyWeight == 0
		return Lexical, nil, ""
	}
	if found, note = s.likenessTo(ctx); found == nil {
		return Lexical, nil, note
	}
	if asked == Vector {
		return Vector, found, note
	}
	if w := s.request.Ranking.VectorWeight; w != nil {
		found.weight = *w
	}
	return Hybrid, found, note
}

// noEmbedder is the note of a search that asks for vectors where there are none.
const noEmbedder = "vectors: no embedder is configured; lexical only"

// vectorSource has the vectors of the turns that are searched.
type vectorSource interface {
	// knowMeaning reports whether the vectors capture meaning. Vectors by spelling cost a search by words more than
	// they gain: on long dialogues they lowered nDCG@10 from 0.497 to 0.479, and of raw error texts 0.738 were found
	// first instead of 0.863.
	knowMeaning() bool

	// compare makes the vector of a query, and returns the vectors to compare it with. note says what these lack. An
	// error says why there are none.
	compare(ctx context.Context, account string, number record.AccountNumber, text string) (q *vector.Query, set *vector.Set, note string, err error)
}

// likenessTo embeds the query; it returns nil and a note if that is impossible.
func (s *searching) likenessTo(ctx context.Context) (found *likeness, note string) {
	query, set, note, err := s.vectors.compare(ctx, s.account, s.number, s.query.Text())
	if err != nil {
		return nil, fmt.Sprintf("vectors: %s; lexical only", describe(err))
	}
	return &likeness{plain: query, query: query, set: set, weight: vectorWeight}, note
}

// How turns that are spelled like the query but have none of its words are added if words have found too little: up to
// mostAlike that are at least as similar as leastAlike, each scored below any hit by words.
const (
	mostAlike  = 20
	leastAlike = 0.3
	alikeShare = 0.5
)

// alike finds the turns spelled like the query, the best first. It is called when no hit by words is left.
func (s *searching) alike(ctx context.Context, ranking *lexical.Ranking) error {
	s.spelling = false
	if ranking.Demands() {
		return nil // the index has already found everything that the query demands
	}
	l, note := s.likenessTo(ctx)
	if note != "" {
		s.answer.degrade(note)
	}
	if l == nil {
		return nil
	}
	filter, err := s.vectorFilter(ranking.Among())
	if err != nil {
		return err
	}
	hits, err := l.set.Search(ctx, l.plain, pools[0], filter)
	if err != nil {
		return err
	}
	for _, hit := range hits {
		if hit.Likeness < leastAlike || len(s.fused) == mostAlike {
			break
		}
		id, cosine := record.ExchangeID(hit.ID), float64(hit.Likeness)
		number, indexed, err := s.searcher.Number(id)
		if err != nil {
			return unreadable(err)
		}
		if indexed && ranking.Score(number) > 0 {
			continue // already a hit by words
		}
		s.fused = append(s.fused, &candidate{
			id: id, number: number, found: indexed, cosine: &cosine, match: matchLikeness, score: alikeShare * cosine * cmp.Or(s.after, 1),
		})
	}
	if len(s.fused) > 0 {
		s.answer.ModeUsed = Hybrid
	}
	return nil
}

func (v *vectors) knowMeaning() bool {
	embedder := v.embedder
	if s := v.serving.Load(); s != nil {
		embedder = s.embedder
	}
	return knowsMeaning(embedder)
}

func knowsMeaning(e Embedder) bool {
	_, spells := e.(Speller)
	return !spells
}

func (v *vectors) compare(ctx context.Context, account string, number record.AccountNumber, text string) (*vector.Query, *vector.Set, string, error) {
	serving, query, set, err := v.query(ctx, account, number, text)
	if err != nil {
		return nil, nil, "", err
	}
	return query, set, v.missing(serving), nil
}

// missing reports how many turns have no vector yet.
func (v *vectors) missing(serving *serving) string {
	s := v.status.Load()
	if s == nil || !s.Building || s.Generation != serving.generation {
		return ""
	}
	return fmt.Sprintf("vectors: %d of %d turns have been embedded so far", s.Done, s.Total)
}

// fuse weighs the candidates of the next pool.
func (s *searching) fuse(ctx context.Context, ranking *lexical.Ranking) error {
	l := s.like
	pool := pools[l.pooled]
	if s.answer.ModeUsed == Hybrid {
		if err := s.takeRanked(ctx, ranking, pool); err != nil {
			return err
		}
	}
	if l.pooled == 0 {
		if err := s.aim(ranking); err != nil {
			return err
		}
	}
	hits, err := l.set.Search(ctx, l.query, pool, l.filter)
	if err != nil {
		return err
	}
	if l.pooled == 0 && len(hits) > 0 {
		l.best = float64(hits[0].Likeness)
	}
	if l.pooled++; len(hits) < pool || s.answer.ModeUsed == Hybrid && hits[len(hits)-1].Likeness < s.leastLikeness() {
		l.pooled = len(pools)
	}
	if err := s.addLikes(hits, ranking); err != nil {
		return err
	}
	s.compareRest()
	if !l.measured && s.answer.ModeUsed == Hybrid && s.request.Ranking.VectorWeight == nil {
		if err := s.weighVectors(ranking); err != nil {
			return err
		}
	}
	for _, c := range s.fused {
		s.weigh(c)
	}
	slices.SortFunc(s.fused, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.likeness(), a.likeness()), cmp.Compare(b.id, a.id))
	})
	return nil
}

// takeRanked adds the best candidates by words, up to a place.
func (s *searching) takeRanked(ctx context.Context, ranking *lexical.Ranking, place int) error {
	for ; s.like.ranked < place; s.like.ranked++ {
		c, err := s.nextLexical(ctx, ranking)
		if c == nil || err != nil {
			return err
		}
		s.add(c)
	}
	return nil
}

// add adds a candidate to the current pool, unless it was in an earlier one.
func (s *searching) add(c *candidate) {
	if s.seen[c.id] == nil {
		s.seen[c.id] = c
		s.fused = append(s.fused, c)
	}
}

// aim moves the query vector toward the best hits by words, and narrows the vectors down.
func (s *searching) aim(ranking *lexical.Ranking) (err error) {
	var examples []vector.Example
	for _, c := range s.fused[:min(feedbackHits, len(s.fused))] {
		if id, ok := record.ParseExchangeID(c.id); ok {
			examples = append(examples, vector.Example{ID: id, Weight: float32(c.score)})
		}
	}
	s.like.query = s.like.plain.Toward(examples, feedbackPull)
	s.like.filter, err = s.vectorFilter(ranking.Among())
	return err
}

// leastLikeness returns the similarity that a candidate without any of the query's words needs.
func (s *searching) leastLikeness() float32 {
	if l := s.request.Ranking.LeastLikeness; l != nil {
		return float32(*l)
	}
	return leastLikeness
}

// addLikes sets the similarity of candidates, some of which are new.
func (s *searching) addLikes(hits []vector.Hit, ranking *lexical.Ranking) error {
	var fresh []vector.ID
	likes := make(map[vector.ID]float64, len(hits))
	for _, hit := range hits {
		likes[hit.ID] = float64(hit.Likeness)
		if s.seen[record.ExchangeID(hit.ID)] == nil {
			fresh = append(fresh, hit.ID)
		}
	}
	for id, plainly := range s.like.set.Likeness(s.like.plain, fresh) {
		if s.answer.ModeUsed == Vector || plainly >= s.leastLikeness() {
			if err := s.addFresh(record.ExchangeID(id), ranking); err != nil {
				return err
			}
		}
	}
	for _, c := range s.fused {
		if id, ok := record.ParseExchangeID(c.id); ok {
			if like, found := likes[id]; found {
				c.cosine = &like
			}
		}
	}
	return nil
}

// addFresh adds a candidate that is not among the best by words.
func (s *searching) addFresh(id string, ranking *lexical.Ranking) error {
	number, indexed, err := s.searcher.Number(id)
	if err != nil {
		return unreadable(err)
	}
	c := &candidate{id: id}
	if indexed {
		c.number, c.found = number, true
		if c.bm25 = ranking.Score(number); c.bm25 > 0 {
			c.words = ranking.Worth(number)
		}
	} else if ranking.Among() != nil { // whether it has what is demanded is unknown
		return nil
	}
	s.add(c)
	return nil
}

// compareRest finds the similarity of the candidates that were found only by words.
func (s *searching) compareRest() {
	var rest []vector.ID
	for _, c := range s.fused {
		if parsed, ok := record.ParseExchangeID(c.id); ok && c.cosine == nil {
			rest = append(rest, parsed)
		}
	}
	for id, like := range s.like.set.Likeness(s.like.query, rest) {
		cosine := float64(like)
		s.seen[record.ExchangeID(id)].cosine = &cosine
	}
}

// weigh scores a candidate. Without a vector, its similarity is assumed to match its words.
func (s *searching) weigh(c *candidate) {
	words := 0.0
	if s.best > 0 {
		words = c.words / s.best
	}
	like := words
	if c.cosine != nil {
		like = s.like.share(*c.cosine)
		c.like = &like
	}
	if s.answer.ModeUsed == Vector {
		c.score = like
		return
	}
	c.score = (1-s.like.weight)*words + s.like.weight*like
}

// likeness orders candidates with equal scores.
func (c *candidate) likeness() float64 {
	if c.cosine == nil {
		return -1
	}
	return *c.cosine
}

// share returns a similarity relative to the best, from 0 to 1.
func (l *likeness) share(like float64) float64 {
	if l.best <= 0 {
		return 0
	}
	return min(max(like/l.best, 0), 1)
}

// vectorFilter returns the vectors of documents of the lexical index: these, or all except the others if that is fewer.
func (s *searching) vectorFilter(among *lexical.Set) (*vector.Filter, error) {
	if among == nil {
		return nil, nil
	}
	filter := &vector.Filter{}
	if among.GetCardinality() > s.searcher.Documents()/2 {
		all, err := s.searcher.All()
		if err != nil {
			return nil, unreadable(err)
		}
		all.AndNot(among)
		among, filter.Except = all, true
	}
	for it := among.Iterator(); it.HasNext(); {
		text, err := s.searcher.ID(it.Next())
		if err != nil {
			return nil, unreadable(err)
		}
		if id, ok := record.ParseExchangeID(text); ok {
			filter.IDs = append(filter.IDs, id)
		}
	}
	return filter, nil
}
