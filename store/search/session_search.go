package search

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// wholeShare is the weight of a session's document, with its title and its summaries, relative to its turns.
const wholeShare = 0.05

// sessionSearch is one search for sessions.
type sessionSearch struct {
	source  sessionSource
	request *Request
	query   *lexical.Query
	number  store.AccountNumber

	whole *lexical.Searcher // of the documents of sessions
	turns *lexical.Searcher
}

// sessionSource reads what a search for sessions finds.
type sessionSource interface {
	turn(exchange string) (store.TimelineEntry, error) // [codec.KindNotFound] if it is gone
	document(session string) (*sessionDocument, error) // nil if it is gone, or nothing was said in it
}

// document makes the document of a session.
func (t indexedTurns) document(session string) (*sessionDocument, error) {
	return readSession(t.index.store, t.number, session)
}

// foundSession is a session that may become a hit.
type foundSession struct {
	id    string // "": the session of the turn best
	score float64
	bm25  float64 // of its best turn, or of its document

	document uint32 // in whole
	titled   bool   // document is known
	best     string // exchange of the best turn
	turn     uint32 // in turns
}

// searchSessions finds sessions of the account. Sessions are ranked by their turns, and a little by their titles and
// summaries. What the query demands may be in different turns of a session.
func (x *Index) searchSessions(ctx context.Context, account string, number store.AccountNumber, r *Request, query *lexical.Query) (*Answer, error) {
	answer := &Answer{Object: "memory.search", ModeUsed: Lexical, Data: []Hit{}}
	changed := x.changedBefore()
	for batches := 0; ; batches++ {
		taken, err := x.takeUpSessions(ctx, func(w *changedSession) bool { return w.account == number && changed(w) })
		if err != nil && !errors.Is(err, errFull) {
			return nil, err
		}
		if err == nil && taken < sessionBatch {
			break
		}
		if err != nil || batches == mostBefore {
			answer.Degraded = append(answer.Degraded, "index: sessions that have changed are not all indexed yet")
			break
		}
	}
	release, err := x.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	s := &sessionSearch{source: indexedTurns{x, account, number}, request: r, query: query, number: number}
	if s.whole, err = x.lexical.Searcher(ctx, uint32(number)|sessionSpace); err != nil {
		return nil, unreadable(err)
	}
	defer func() { _ = s.whole.Close() }()
	if s.turns, err = x.lexical.Searcher(ctx, uint32(number)); err != nil {
		return nil, unreadable(err)
	}
	defer func() { _ = s.turns.Close() }()
	answer.Index.Lag, answer.Index.Building = x.lag(), x.building.Load()
	if r.Facets {
		if answer.Facets, err = facetsIn(s.turns); err != nil {
			return nil, unreadable(err)
		}
	}
	if err := s.run(ctx, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

func (s *sessionSearch) run(ctx context.Context, answer *Answer) error {
	if s.request.Mode == Vector || s.request.Mode == Hybrid {
		answer.degrade("vectors: sessions have none; lexical only")
	}
	found, exact, err := s.rank()
	if err != nil {
		return unreadable(err)
	}
	limit, skip := cmp.Or(s.request.Limit, defaultLimit), s.request.Offset
	for _, f := range found[:min(len(found), maxLooked+skip)] {
		if err := ctx.Err(); err != nil {
			return err
		}
		d, turn, err := s.read(&f)
		if err != nil {
			answer.degrade(damagedSessions)
			continue
		}
		if d == nil || s.query.Exact() && !s.query.Matches(d.bySpeaker()) {
			continue
		}
		if !exact && !s.request.Filter.matches(&subject{time: d.session.Updated, facets: d.facets, tags: d.session.Tags}) {
			continue
		}
		if skip > 0 {
			skip--
			continue
		}
		if answer.HasMore = len(answer.Data) == limit; answer.HasMore {
			return nil
		}
		h, err := s.hit(&f, d, turn)
		if err != nil {
			return unreadable(err)
		}
		if h.Score = 1; found[0].score > 0 {
			h.Score = f.score / found[0].score
		}
		if s.request.Explain {
			h.Scores = &Scores{Lexical: h.Score, BM25: f.bm25}
		}
		if full := answer.add(h, s.request.MaxTokens); full {
			return nil
		}
	}
	return nil
}

// rank returns the sessions found, best first. exact reports that all of them pass the filter.
func (s *sessionSearch) rank() (found []foundSession, exact bool, err error) {
	allowed, exact, err := s.request.Filter.narrow(s.whole)
	if err != nil {
		return nil, false, err
	}
	var whole *lexical.Ranking
	if s.request.listing() {
		whole, err = s.whole.Newest(allowed)
	} else {
		whole, err = s.whole.Rank(s.query, allowed)
	}
	if err != nil {
		return nil, false, err
	}
	defer whole.Close()
	places := make(map[uint64]int)
	for len(found) < maxLooked {
		hit, ok := whole.Next()
		if !ok {
			break
		}
		id, err := s.whole.ID(hit.Number)
		if err != nil {
			return nil, false, err
		}
		places[lexical.GroupKey(uint32(s.number), id)] = len(found)
		found = append(found, foundSession{id: id, document: hit.Number, titled: true, bm25: hit.Score, score: hit.Score})
	}
	demands := whole.Demands()
	if len(found) > 0 && found[0].score > 0 { // the first is the best
		best := found[0].score
		for i := range found {
			found[i].score = wholeShare * found[i].score / best
		}
	}
	if s.request.listing() {
		return found, exact, nil
	}
	found, err = s.addTurns(found, places, demands)
	return found, exact && !s.query.Exact() && demands, err
}

// addTurns adds the weights of turns to their sessions. It adds sessions that are found by turns alone, unless the query demands
// something, which the whole session has to satisfy.
func (s *sessionSearch) addTurns(found []foundSession, places map[uint64]int, demands bool) ([]foundSession, error) {
	turns, err := s.turns.Score(s.query)
	if err != nil {
		return nil, err
	}
	defer turns.Close()
	if span, named := spanIn(s.request.Query, time.Now()); named {
		favoured, err := s.turns.FacetRange(facetDay, span.from.UTC().Format(dayLayout), span.last().UTC().Format(dayLayout))
		if err != nil {
			return nil, err
		}
		turns.Favour(favoured)
	}
	groups, err := turns.Groups()
	if err != nil {
		return nil, err
	}
	for i := range groups[:min(len(groups), maxLooked)] {
		g := &groups[i]
		at, known := places[g.Key]
		if !known && demands {
			continue
		}
		id, err := s.turns.ID(g.Best.Number)
		if err != nil {
			return nil, err
		}
		if !known {
			at = len(found)
			found = append(found, foundSession{})
		}
		f := &found[at]
		f.best, f.turn, f.bm25 = id, g.Best.Number, g.Best.Own
		f.score += g.Score / groups[0].Score
	}
	slices.SortStableFunc(found, func(a, b foundSession) int { return cmp.Compare(b.score, a.score) })
	return found, nil
}

// read reads a session and its best turn; nil if it is gone or nothing was said in it.
func (s *sessionSearch) read(f *foundSession) (*sessionDocument, *document, error) {
	var turn *document
	if f.best != "" {
		entry, err := s.source.turn(f.best)
		if err != nil {
			return nil, nil, unlessNotFound(err)
		}
		if turn = newDocument(&entry); turn != nil {
			f.id = turn.session
		}
	}
	if f.id == "" {
		return nil, nil, nil
	}
	d, err := s.source.document(f.id)
	return d, turn, err
}

func (s *sessionSearch) hit(f *foundSession, d *sessionDocument, turn *document) (Hit, error) {
	h := Hit{Object: "memory.hit", Session: d.session.ID, Time: d.session.Updated, Title: cmp.Or(d.session.Title, d.summary.Goal), Role: "session"}
	if len(d.session.Models) > 0 {
		h.Model = d.session.Models[len(d.session.Models)-1]
	}
	_, h.Snippet, h.Highlights = snippet(s.query, &document{said: lexical.Said{Assistant: strings.Join(d.said(), "\n")}, names: d.names}, s.request.Snippet)
	if len(h.Highlights) == 0 && turn != nil {
		_, h.Snippet, h.Highlights = snippet(s.query, turn, s.request.Snippet)
	}
	h.Tokens = (len(h.Snippet) + 3) / 4
	h.Summary = &d.summary
	if d.written != nil {
		h.Summary.Text, h.Summary.By = d.written.Text, d.written.By
	}
	for _, of := range []struct {
		there    bool
		searcher *lexical.Searcher
		number   uint32
	}{{f.best != "", s.turns, f.turn}, {f.titled, s.whole, f.document}} {
		if of.there {
			covered, err := of.searcher.Coverage(s.query, []uint32{of.number})
			if err != nil {
				return h, err
			}
			h.Coverage = max(h.Coverage, covered[0].Share)
			h.Words, h.Names = max(h.Words, covered[0].Words), max(h.Names, covered[0].Names)
		}
	}
	h.Relevance = relevance(h.Coverage, f.bm25)
	return h, nil
}
