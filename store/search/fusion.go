package search

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search/lexical"
	"github.com/mnemeproxy/mneme/store/search/vector"
)

// A hybrid score is weighed of two shares: BM25 of the best BM25, and likeness of the best likeness. Weighing scores, not
// ranks, leaves the ranking to the source that tells its hits apart: with reciprocal ranks a weak source of vectors cost a
// quarter of the quality on turns of agents. The likeness of unrelated turns is 0, whatever the embedder, because it is seen
// from the middle of all: where an embedder finds hundreds of turns about as alike as the best, as in a language that it does
// not know, all of them get about the same share, and words decide.
const (
	// vectorWeight is the share of vectors where a search names none. From 0.35 on, words that find the answer by its name
	// lose to turns that are merely about the same, and with less, paraphrases are missed. It was chosen on the questions
	// with even numbers of the evaluation; vectors by spelling are best with it, too.
	vectorWeight = 0.3
	// leastLikeness is what a turn needs that has none of the query's words, so that a search for what is not there finds
	// nothing. Texts that have nothing to do with each other are about 0 alike, give or take 1/√dimensions.
	leastLikeness = 0.2
	// The vector that is searched with is moved toward those of the best hits by words. On the sets of the evaluation that
	// is worth half a point of nDCG with vectors by spelling; more of either is worth no more.
	feedbackHits = 5
	feedbackPull = 0.5
)

// pools are how many of the best candidates of each source are weighed together: at first what pages that are read need, then
// what there is up to so many more, as far as somebody reads. They are the same wherever a page begins, so that pages of one
// search neither repeat hits nor leave some out.
var pools = [...]int{200, 800, 2000}

// likeness is the vectors' side of a search.
type likeness struct {
	plain  *vector.Query
	query  *vector.Query // moved toward the best hits by words
	set    *vector.Set
	weight float64 // in a hybrid score

	filter *vector.Filter
	pooled int     // pools that have been weighed
	ranked int     // candidates by words in them
	best   float64 // of the first one
}

// over tells that what is left is weighed by its words alone.
func (l *likeness) over() bool { return l.pooled == len(pools) }

// compare prepares what the search goes by, and says what of that cannot be had.
func (s *searching) compare(ctx context.Context) (mode Mode, found *likeness, note string) {
	asked := cmp.Or(s.request.Mode, Auto)
	v := s.vectors
	switch {
	case asked == Lexical || s.query.Text() == "" || v == nil && asked == Auto:
		return Lexical, nil, ""
	case v == nil:
		return Lexical, nil, "vectors: no embedder is configured; lexical only"
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

// likenessTo embeds the query; nil with a note of why that cannot be had.
func (s *searching) likenessTo(ctx context.Context) (found *likeness, note string) {
	v := s.vectors
	serving, query, set, err := v.query(ctx, s.account, s.number, s.query.Text())
	if err != nil {
		return nil, fmt.Sprintf("vectors: %s; lexical only", describe(err))
	}
	return &likeness{plain: query, query: query, set: set, weight: vectorWeight}, v.missing(serving)
}

// How turns join that are spelled like the query and hold none of its words, where words have found too little: as many as
// mostAlike that are as alike as leastAlike, each for less than any hit by words.
const (
	mostAlike  = 20
	leastAlike = 0.3
	alikeShare = 0.5
)

// alike finds the turns that are spelled like the query, the best first. It is called when no hit by words is left.
func (s *searching) alike(ctx context.Context, ranking *lexical.Ranking) error {
	s.spelling = false
	if ranking.Demands() {
		return nil // what the query demands has been found by the index
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
		id, cosine := store.ExchangeID(hit.ID), float64(hit.Likeness)
		number, indexed, err := s.searcher.Number(id)
		if err != nil {
			return unreadable(err)
		}
		if indexed && ranking.Score(number) > 0 {
			continue // it has been a hit by words
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

// knowMeaning reports whether there are vectors that know what was meant. Those by spelling cost a search by words more than
// they gain it: on long dialogues nDCG@10 fell from 0.497 to 0.479 by them, and of raw error texts 0.738 were found first
// instead of 0.863.
func (v *vectors) knowMeaning() bool {
	embedder := v.embedder
	if s := v.serving.Load(); s != nil {
		embedder = s.embedder
	}
	_, spells := embedder.(Speller)
	return !spells
}

// missing says how many turns have no vector yet.
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
	for _, c := range s.fused {
		s.weigh(c)
	}
	slices.SortFunc(s.fused, func(a, b *candidate) int {
		return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(b.likeness(), a.likeness()), cmp.Compare(b.id, a.id))
	})
	return nil
}

// takeRanked takes the candidates that are among the best by their words, up to a place.
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

// add takes a candidate into the present pool, unless it was in one before.
func (s *searching) add(c *candidate) {
	if s.seen[c.id] == nil {
		s.seen[c.id] = c
		s.fused = append(s.fused, c)
	}
}

// aim moves the vector that is searched with toward the best hits by words, and narrows the vectors down.
func (s *searching) aim(ranking *lexical.Ranking) (err error) {
	var examples []vector.Example
	for _, c := range s.fused[:min(feedbackHits, len(s.fused))] {
		if id, ok := store.ParseExchangeID(c.id); ok {
			examples = append(examples, vector.Example{ID: id, Weight: float32(c.score)})
		}
	}
	s.like.query = s.like.plain.Toward(examples, feedbackPull)
	s.like.filter, err = s.vectorFilter(ranking.Among())
	return err
}

// leastLikeness is what a candidate needs that has none of the query's words.
func (s *searching) leastLikeness() float32 {
	if l := s.request.Ranking.LeastLikeness; l != nil {
		return float32(*l)
	}
	return leastLikeness
}

// addLikes notes the likeness of candidates, of which some are new.
func (s *searching) addLikes(hits []vector.Hit, ranking *lexical.Ranking) error {
	var fresh []vector.ID
	likes := make(map[vector.ID]float64, len(hits))
	for _, hit := range hits {
		likes[hit.ID] = float64(hit.Likeness)
		if s.seen[store.ExchangeID(hit.ID)] == nil {
			fresh = append(fresh, hit.ID)
		}
	}
	for id, plainly := range s.like.set.Likeness(s.like.plain, fresh) {
		if s.answer.ModeUsed == Vector || plainly >= s.leastLikeness() {
			if err := s.addFresh(store.ExchangeID(id), ranking); err != nil {
				return err
			}
		}
	}
	for _, c := range s.fused {
		if id, ok := store.ParseExchangeID(c.id); ok {
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
		c.bm25 = ranking.Score(number)
		c.words = c.bm25
	} else if ranking.Among() != nil { // nobody can say whether it has what is demanded
		return nil
	}
	s.add(c)
	return nil
}

// compareRest finds the likeness of the candidates that were found by their words alone.
func (s *searching) compareRest() {
	var rest []vector.ID
	for _, c := range s.fused {
		if parsed, ok := store.ParseExchangeID(c.id); ok && c.cosine == nil {
			rest = append(rest, parsed)
		}
	}
	for id, like := range s.like.set.Likeness(s.like.query, rest) {
		cosine := float64(like)
		s.seen[store.ExchangeID(id)].cosine = &cosine
	}
}

// weigh gives a candidate its score. One without a vector is taken to be as alike as its words are.
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

// likeness orders candidates that are worth the same.
func (c *candidate) likeness() float64 {
	if c.cosine == nil {
		return -1
	}
	return *c.cosine
}

// share is a likeness as a share of the best, from 0 to 1.
func (l *likeness) share(like float64) float64 {
	if l.best <= 0 {
		return 0
	}
	return min(max(like/l.best, 0), 1)
}

// vectorFilter turns documents of the lexical index into what the vectors are narrowed down to: these, or all but the
// others when that is fewer.
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
		if id, ok := store.ParseExchangeID(text); ok {
			filter.IDs = append(filter.IDs, id)
		}
	}
	return filter, nil
}
