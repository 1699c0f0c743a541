package search

import (
	"cmp"
	"context"
	"hash/maphash"
	"slices"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Search finds turns of the account.
func (x *Index) Search(ctx context.Context, account string, r *Request) (*Answer, error) {
	r, query, err := r.read(time.Now())
	if err != nil {
		return nil, err
	}
	number, err := x.store.Accounts().Number(account)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, x.searchTimeout, errTooLong)
	defer cancel()
	var answer *Answer
	err = x.contain(func() (err error) {
		if r.Granularity == Sessions {
			answer, err = x.searchSessions(ctx, account, number, r, query)
		} else {
			answer, err = x.search(ctx, account, number, r, query)
		}
		return err
	})
	if err != nil && context.Cause(ctx) == error(errTooLong) { //nolint:errorlint // the very value that the context ends with
		return nil, errTooLong
	}
	return answer, err
}

// errTooLong is the error of a search that takes too long.
var errTooLong = codec.Errorf(codec.KindTimeout, "the search took more than %s; ask with rarer words, or with filters", searchTimeout)

func (x *Index) search(ctx context.Context, account string, number record.AccountNumber, r *Request, query *lexical.Query) (*Answer, error) {
	release, err := x.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	searcher, err := x.lexical.Searcher(ctx, uint32(number))
	if err != nil {
		return nil, unreadable(err)
	}
	defer func() { _ = searcher.Close() }()
	s := &searching{
		index: x, turns: indexedTurns{x, account, number}, request: r, query: query, account: account, number: number, searcher: searcher,
	}
	if x.vectors != nil {
		s.vectors = x.vectors
	}
	return s.run(ctx)
}

// turnSource reads the turns that a search finds.
type turnSource interface {
	turn(exchange string) (record.TimelineEntry, error) // [codec.KindNotFound] for one that is gone
	session(id string) (*record.Session, error)         // as above
}

// indexedTurns are those of an account that an index follows.
type indexedTurns struct {
	index   *Index
	account string
	number  record.AccountNumber
}

func (t indexedTurns) turn(exchange string) (record.TimelineEntry, error) {
	return t.index.feed.TurnAt(t.number, exchange)
}

func (t indexedTurns) session(id string) (*record.Session, error) {
	return t.index.store.Archive().Session(t.account, id)
}

// searching is one search.
type searching struct {
	index    *Index       // nil: no index follows the searched documents
	vectors  vectorSource // nil: there are none
	turns    turnSource
	request  *Request
	query    *lexical.Query
	account  string
	number   record.AccountNumber
	searcher *lexical.Searcher
	now      time.Time

	like     *likeness             // nil: search by words only
	spelling bool                  // turns spelled like the query follow the hits by words
	after    float64               // the score of the last hit by words
	fused    []*candidate          // of the current pool, the best first
	seen     map[string]*candidate // of all pools

	exact   bool // the index has decided the filter exactly
	best    float64
	skip    int
	looked  int // candidates examined
	seed    maphash.Seed
	folded  map[uint64]int  // hits by the hash of their content, and leftOut
	grouped map[string]bool // sessions that have a hit
	tags    map[string][]string
	answer  Answer
	taken   []*candidate // the hits
}

// candidate is a document on its way to becoming a hit.
type candidate struct {
	id     string
	number uint32  // in the searcher
	found  bool    // number is known: it is in the index
	bm25   float64 // of the turn itself
	words  float64 // bm25 including the turn's context
	match  string
	cosine *float64 // nil: it has no vector, or it does not matter
	like   *float64 // as a share of the best
	score  float64
	recent float64
	doc    *document
	entry  record.TimelineEntry
}

func (s *searching) run(ctx context.Context) (*Answer, error) {
	r := s.request
	if r.Limit == 0 {
		r.Limit = defaultLimit
	}
	s.skip, s.now, s.seed = r.Offset, time.Now(), maphash.MakeSeed()
	s.seen, s.folded, s.grouped, s.tags = make(map[string]*candidate), make(map[uint64]int), make(map[string]bool), make(map[string][]string)
	s.answer = Answer{Object: "memory.search", Data: []Hit{}}
	ranking, err := s.rank(ctx)
	if err != nil {
		return nil, err
	}
	defer ranking.Close()
	if r.Facets {
		if s.answer.Facets, err = facetsIn(ranking); err != nil {
			return nil, unreadable(err)
		}
	}
	if r.Ranking.RecencyWeight > 0 {
		err = s.takeReordered(ctx, ranking)
	} else {
		err = s.takeInOrder(ctx, ranking)
	}
	if err == nil {
		err = s.cover(ranking)
	}
	if r.Explain {
		s.answer.Synonyms = s.query.Used()
	}
	if err == nil && r.Weigh {
		if s.answer.Weights, err = s.searcher.Weights(s.query); err != nil {
			err = unreadable(err)
		}
	}
	if err != nil {
		return nil, err
	}
	return &s.answer, nil
}

// facetsIn lists the values of the facets of all hits by words.
func facetsIn(ranking *lexical.Ranking) (map[string][]lexical.FacetValue, error) {
	facets := make(map[string][]lexical.FacetValue, len(facetNames))
	for _, name := range facetNames {
		if !listsFacet(name) {
			continue
		}
		values, err := ranking.FacetValues(name, maxLimit)
		if err != nil {
			return nil, err
		}
		facets[name] = values
	}
	return facets, nil
}

// listsFacet reports whether the values of a facet are listed. There are as many of some as there are sessions, which have lists
// of their own, or files.
func listsFacet(name string) bool {
	return !slices.Contains([]string{"session", facetFile, facetEdited, facetFailure, facetRan}, name)
}

// sure is the BM25 score at which a hit that covers the whole query has half of the maximum relevance. On dialogues,
// BM25 times coverage separates right first hits from those of an account without an answer better than either factor.
const sure = 10

// coverage returns how much of the query documents hold. A ranking with a demand knows it already.
func (s *searching) coverage(ranking *lexical.Ranking, numbers []uint32) ([]lexical.Covered, error) {
	if covered, known := ranking.Covered(numbers); known {
		return covered, nil
	}
	covered, err := s.searcher.Coverage(s.query, numbers)
	if err != nil {
		return nil, unreadable(err)
	}
	return covered, nil
}

// cover sets how relevant the hits are.
func (s *searching) cover(ranking *lexical.Ranking) error {
	numbers := make([]uint32, 0, len(s.taken))
	for _, c := range s.taken {
		if !c.found {
			var err error
			if c.number, c.found, err = s.searcher.Number(c.id); err != nil {
				return unreadable(err)
			}
		}
		numbers = append(numbers, c.number)
	}
	covered, err := s.coverage(ranking, numbers)
	if err != nil {
		return err
	}
	for i, c := range s.taken {
		h := &s.answer.Data[i]
		if !c.found {
			continue
		}
		h.Coverage, h.Relevance = covered[i].Share, relevance(covered[i].Share, ranking.Score(c.number))
		h.Words, h.Names = covered[i].Words, covered[i].Names
		if h.Words+h.Names == 0 && h.Match == "" && c.bm25 > 0 {
			h.Match = matchSynonym
		}
	}
	return nil
}

func relevance(coverage, bm25 float64) float64 { return coverage * bm25 / (bm25 + sure) }

// rank finds the rankings of the search: hits by words and, in parallel, a vector of the query, which may take the
// embedder longer.
func (s *searching) rank(ctx context.Context) (*lexical.Ranking, error) {
	var comparing sync.WaitGroup
	var note string
	defer comparing.Wait() // a damaged index makes rankWords panic
	comparing.Go(func() { s.answer.ModeUsed, s.like, note = s.compare(ctx) })
	allowed, exact, err := s.request.Filter.narrow(&s.searcher.Sets)
	var ranking *lexical.Ranking
	if err == nil {
		ranking, err = s.rankWords(allowed)
	}
	comparing.Wait()
	if err != nil {
		return nil, unreadable(err)
	}
	if note != "" {
		s.answer.Degraded = append(s.answer.Degraded, note)
	}
	if s.index != nil {
		s.answer.Index.Lag, s.answer.Index.Building = s.index.lag(), s.index.building.Load()
	}
	s.exact = exact && !s.query.Exact() && (s.like == nil || s.request.Filter.isZero())
	return ranking, nil
}

// rankWords ranks the turns by their words, or by age if the query has none.
func (s *searching) rankWords(allowed *lexical.Set) (*lexical.Ranking, error) {
	if s.request.listing() {
		return s.searcher.Newest(allowed)
	}
	ranking, err := s.rankScored(allowed)
	if err != nil {
		return nil, err
	}
	if span, named := spanIn(s.request.Query, s.now); named {
		favored, err := s.searcher.FacetRange(facetDay, span.from.UTC().Format(dayLayout), span.last().UTC().Format(dayLayout))
		if err != nil {
			ranking.Close()
			return nil, err
		}
		ranking.Favor(favored)
	}
	return ranking, nil
}

func (s *searching) rankScored(allowed *lexical.Set) (*lexical.Ranking, error) {
	if s.request.Demand == nil {
		return s.searcher.Rank(s.query, allowed)
	}
	ranking, err := s.searcher.RankDemanding(s.query, allowed, *s.request.Demand)
	if err == nil {
		s.answer.Closest = ranking.Closest()
	}
	return ranking, err
}

// takeInOrder turns candidates into hits until there are enough.
func (s *searching) takeInOrder(ctx context.Context, ranking *lexical.Ranking) error {
	for {
		c, err := s.nextLooked(ctx, ranking)
		if c == nil || err != nil {
			return err
		}
		if full := s.take(c); full {
			return nil
		}
	}
}

// nextLooked is next, up to a limit on examined candidates.
func (s *searching) nextLooked(ctx context.Context, ranking *lexical.Ranking) (*candidate, error) {
	c, err := s.next(ctx, ranking)
	if c == nil || err != nil {
		return nil, err
	}
	most := maxLooked + s.request.Offset
	if s.looked++; s.looked == most+1 {
		s.answer.Degraded = append(s.answer.Degraded, "filters:only the best candidates were looked at")
	}
	if s.looked > most {
		return nil, nil
	}
	return c, nil
}

// reordered is how many candidates recency reorders at a time: the best ones, then the following ones, and so on,
// independent of pages.
const reordered = 500

func (s *searching) takeReordered(ctx context.Context, ranking *lexical.Ranking) error {
	for {
		candidates, err := s.nextReordered(ctx, ranking)
		if err != nil || len(candidates) == 0 {
			return err
		}
		for _, c := range candidates {
			if full := s.take(c); full {
				return nil
			}
		}
	}
}

// nextReordered returns the best remaining candidates that pass the filter, by words, similarity and recency.
func (s *searching) nextReordered(ctx context.Context, ranking *lexical.Ranking) (candidates []*candidate, err error) {
	weight := s.request.Ranking.RecencyWeight
	for len(candidates) < reordered {
		c, err := s.nextLooked(ctx, ranking)
		if err != nil {
			return nil, err
		}
		if c == nil {
			break
		}
		if !s.passes(c) {
			continue
		}
		c.recent = s.recency(c.doc.time)
		c.score = (1-weight)*c.score + weight*c.recent
		c.doc, c.entry = nil, record.TimelineEntry{} // hundreds of turns may be large; hits are read again
		candidates = append(candidates, c)
	}
	slices.SortStableFunc(candidates, func(a, b *candidate) int { return cmp.Compare(b.score, a.score) })
	return candidates, nil
}

// next returns the best remaining candidate; nil if there is none.
func (s *searching) next(ctx context.Context, ranking *lexical.Ranking) (*candidate, error) {
	for len(s.fused) == 0 && s.like != nil && !s.like.over() {
		if err := s.fuse(ctx, ranking); err != nil {
			return nil, err
		}
	}
	if len(s.fused) > 0 {
		c := s.fused[0]
		s.fused = s.fused[1:]
		return c, ctx.Err()
	}
	if s.answer.ModeUsed == Vector {
		return nil, nil
	}
	for {
		c, err := s.nextLexical(ctx, ranking)
		if c == nil && err == nil && s.spelling {
			if err = s.alike(ctx, ranking); err == nil && len(s.fused) > 0 {
				return s.next(ctx, ranking)
			}
		}
		if c == nil || err != nil {
			return nil, err
		}
		if s.after = c.score; s.like == nil {
			return c, nil
		}
		if s.seen[c.id] == nil {
			s.weigh(c)
			return c, nil
		}
	}
}

// nextLexical returns the best remaining candidate by words.
func (s *searching) nextLexical(ctx context.Context, ranking *lexical.Ranking) (*candidate, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	hit, ok := ranking.Next()
	if !ok {
		return nil, nil
	}
	id, err := s.searcher.ID(hit.Number)
	if err != nil {
		return nil, unreadable(err)
	}
	s.best = max(s.best, hit.Score)
	c := &candidate{id: id, number: hit.Number, found: true, bm25: hit.Own, words: hit.Score, score: 1}
	if s.best > 0 {
		c.score = hit.Score / s.best
	}
	if !ranking.Demands() && !hit.HoldsWord() {
		c.match = MatchContext
	}
	return c, nil
}

// load reads the turn of a candidate. doc is nil if the turn was erased, is no longer one, or is damaged.
func (s *searching) load(c *candidate) {
	if c.doc != nil {
		return
	}
	var err error
	c.entry, err = s.turns.turn(c.id)
	if isNotFound(err) {
		return
	}
	if err != nil {
		s.answer.degrade("turns: some are damaged and left out; run mneme check")
		return
	}
	c.doc = newDocument(&c.entry)
}

// take makes a candidate a hit if it qualifies; full reports that no more are wanted.
func (s *searching) take(c *candidate) (full bool) {
	if !s.passes(c) || s.fold(c) {
		return false
	}
	if s.request.GroupBy == "session" {
		if s.grouped[c.doc.session] {
			return false
		}
		s.grouped[c.doc.session] = true
	}
	if s.skip > 0 {
		s.skip--
		s.folded[s.hash(c)] = leftOut
		return false
	}
	if len(s.answer.Data) == s.request.Limit {
		s.answer.HasMore = true
		return true
	}
	if full := s.answer.add(s.hit(c), s.request.MaxTokens); full {
		return true
	}
	s.taken = append(s.taken, c)
	s.folded[s.hash(c)] = len(s.answer.Data) - 1
	return false
}

// passes reports whether a candidate still is a turn that matches the request. It reads the turn.
func (s *searching) passes(c *candidate) bool {
	if s.load(c); c.doc == nil {
		return false
	}
	return s.exact || s.wanted(c)
}

// wanted decides the conditions that the index cannot.
func (s *searching) wanted(c *candidate) bool {
	if s.query.Exact() && !s.query.Matches(c.doc.said) {
		return false
	}
	if s.request.Filter.isZero() {
		return true
	}
	held := &subject{time: c.doc.time, facets: c.doc.facets}
	if s.request.Filter.uses(fieldTag) {
		var err error
		if held.tags, err = s.tagsOf(c.doc.session); err != nil {
			s.answer.degrade(damagedSessions)
			return false
		}
	}
	return s.request.Filter.matches(held)
}

func (s *searching) tagsOf(session string) ([]string, error) {
	if tags, known := s.tags[session]; known {
		return tags, nil
	}
	stored, err := s.turns.session(session)
	if isNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	s.tags[session] = stored.Tags
	return stored.Tags, nil
}

func (s *searching) hash(c *candidate) uint64 {
	return maphash.Comparable(s.seed, c.doc.said)
}

// leftOut marks a hit that is on an earlier page.
const leftOut = -1

// fold reports whether a better hit has the same content, and counts it there.
func (s *searching) fold(c *candidate) bool {
	i, known := s.folded[s.hash(c)]
	if !known || !c.doc.spoken() {
		return false
	}
	if i == leftOut {
		return true
	}
	if same := &s.answer.Data[i].Duplicates; len(*same) < maxDuplicates {
		*same = append(*same, c.id)
	}
	return true
}

func (s *searching) recency(at time.Time) float64 {
	days := s.request.Ranking.RecencyHalfLife
	if days == 0 {
		days = halfLife
	}
	return halved(s.now.Sub(at).Hours() / 24 / days)
}

// HitOf returns a turn as what was found by its id.
func HitOf(entry *record.TimelineEntry) Hit {
	h := Hit{
		Object: "memory.hit", Score: 1, Coverage: 1, Relevance: 1, Exchange: entry.Exchange.ID, Session: entry.Exchange.Session,
		Time: entry.Exchange.Started, Model: entry.Exchange.ModelAsked, Client: entry.Exchange.Client(), Project: entry.Exchange.Project, Role: "user", Highlights: [][2]int{},
	}
	if d := newDocument(entry); d != nil {
		h.Title = FirstSentence(Asked(entry.Turn))
		h.Role, h.Snippet, h.Highlights = snippet(lexical.Plain(""), d.said, d.names, 0)
	}
	h.Tokens = (len(h.Snippet) + 3) / 4
	return h
}

func (s *searching) hit(c *candidate) Hit {
	h := Hit{
		Object: "memory.hit", Score: c.score, Exchange: c.id, Session: c.doc.session, Time: c.doc.time,
		Model: c.entry.Exchange.ModelAsked, Client: c.entry.Exchange.Client(), Project: c.entry.Exchange.Project, Match: c.match,
	}
	said := c.doc.said
	if s.request.Filter.wants("kind", kindError) || s.query.Wants("kind", kindError) {
		if line := failureOf(c.entry.Turn); line != "" {
			said = lexical.Said{Output: line}
		}
	}
	h.Role, h.Snippet, h.Highlights = snippet(s.query, said, c.doc.names, s.request.Snippet)
	h.Tokens = (len(h.Snippet) + 3) / 4
	h.Title = FirstSentence(Asked(c.entry.Turn))
	if s.request.Explain {
		summary := Summarize(c.entry.Turn)
		h.Scores = &Scores{BM25: c.bm25, Context: c.words - c.bm25, Vector: c.like, Cosine: c.cosine}
		if s.best > 0 {
			h.Scores.Lexical = c.words / s.best
		}
		if s.request.Ranking.RecencyWeight > 0 {
			h.Scores.Recency = &c.recent
		}
		h.Summary = &summary
	}
	return h
}
