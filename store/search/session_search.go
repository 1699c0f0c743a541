package search

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// aboutShare is the weight of what is written about a session, its title and its summary, relative to its turns.
const aboutShare = 0.05

// How many of the best sessions by their turns are also ranked as if each were one document, and what that weighs. It decides between
// sessions whose best turns are equal. It was chosen together with what the other turns of a session count.
const (
	rankedWhole = 128
	wholeShare  = 0.5
)

// sessionSearch is one search for sessions. Sessions are groups of turns: conditions of the search hold for all turns of a session
// together, and of its turns the search ranks the best and a share of the others.
type sessionSearch struct {
	source  sessionSource
	request *Request
	query   *lexical.Query
	number  record.AccountNumber

	turns  *lexical.Searcher
	about  *lexical.Searcher // what is written about sessions
	groups *lexical.Groups

	within *lexical.Set             // of groups that can be hits; nil: all
	facets map[*Filter]*lexical.Set // of groups, by comparison; nil: within has decided the filter exactly
}

// sessionSource reads what a search for sessions finds.
type sessionSource interface {
	turn(exchange string) (record.TimelineEntry, error) // [codec.KindNotFound] if it is gone
	document(session string) (*sessionDocument, error)  // nil if it is gone, or nothing was said in it
}

// document makes the document of a session.
func (t indexedTurns) document(session string) (*sessionDocument, error) {
	return readSession(t.index.store, t.number, session)
}

// foundSession is a session that may become a hit.
type foundSession struct {
	key   uint64 // of its group
	id    string // "": the session of the turn best
	score float64
	bm25  float64  // of its best turn, or of what is written about it
	best  string   // exchange of the best turn; "": none was found
	about []uint32 // the document of what is written about it, if that was found
}

// searchSessions finds sessions of the account. What the query demands may be in different turns of a session.
func (x *Index) searchSessions(ctx context.Context, account string, number record.AccountNumber, r *Request, query *lexical.Query) (*Answer, error) {
	answer := &Answer{Object: "memory.search", ModeUsed: Lexical, Data: []Hit{}}
	all, err := x.takeUpSessionsBefore(ctx, mostBefore)
	if err != nil && !errors.Is(err, errFull) {
		return nil, err
	}
	if !all {
		answer.Degraded = append(answer.Degraded, "index: titles and summaries of sessions are not all indexed yet")
	}
	release, err := x.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	s := &sessionSearch{source: indexedTurns{x, account, number}, request: r, query: query, number: number}
	if s.turns, err = x.lexical.Searcher(ctx, uint32(number)); err != nil {
		return nil, unreadable(err)
	}
	defer func() { _ = s.turns.Close() }()
	if s.about, err = x.lexical.Searcher(ctx, uint32(number)|aboutSpace); err != nil {
		return nil, unreadable(err)
	}
	defer func() { _ = s.about.Close() }()
	answer.Index.Lag, answer.Index.Building = x.lag(), x.building.Load()
	if r.Facets {
		if answer.Facets, err = s.facetsOfTurns(); err != nil {
			return nil, unreadable(err)
		}
	}
	if err := s.run(ctx, answer); err != nil {
		return nil, err
	}
	return answer, nil
}

// facetsOfTurns lists the facets of the turns that the search would find.
func (s *sessionSearch) facetsOfTurns() (map[string][]lexical.FacetValue, error) {
	turns := searching{request: s.request, query: s.query, searcher: s.turns, now: time.Now()}
	allowed, _, err := s.request.Filter.narrow(&s.turns.Sets)
	if err != nil {
		return nil, err
	}
	ranking, err := turns.rankWords(allowed)
	if err != nil {
		return nil, err
	}
	defer ranking.Close()
	return facetsIn(ranking)
}

func (s *sessionSearch) run(ctx context.Context, answer *Answer) error {
	if s.request.Mode == Vector || s.request.Mode == Hybrid {
		answer.degrade("vectors: sessions have none; lexical only")
	}
	found, err := s.find()
	if err != nil {
		return unreadable(err)
	}
	defer found.close()
	if s.request.Explain {
		answer.Synonyms = s.query.Used()
	}
	limit, skip := cmp.Or(s.request.Limit, defaultLimit), s.request.Offset
	known := make(map[string]bool)
	for range maxLooked + skip {
		if err := ctx.Err(); err != nil {
			return err
		}
		f, err := found.next()
		if err != nil {
			return unreadable(err)
		}
		if f == nil {
			return nil
		}
		d, turn, err := s.read(f)
		if err != nil && codec.AsError(err, "").Kind != codec.KindStorage {
			return err
		}
		if err != nil {
			answer.degrade(damagedSessions)
			continue
		}
		if d == nil || known[d.session.ID] || !s.passes(f, d) {
			continue
		}
		known[d.session.ID] = true // a turn that was moved is known by its former session for a moment
		if skip > 0 {
			skip--
			continue
		}
		if answer.HasMore = len(answer.Data) == limit; answer.HasMore {
			return nil
		}
		h, err := s.hit(f, d, turn)
		if err != nil {
			return unreadable(err)
		}
		if h.Score = 1; found.best > 0 {
			h.Score = f.score / found.best
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

// find finds the sessions.
func (s *sessionSearch) find() (*sessionRanking, error) {
	s.groups = s.turns.Grouped(uint32(s.number), s.about)
	if err := s.narrow(); err != nil {
		return nil, err
	}
	demands, err := s.groups.Matching(s.query)
	if err != nil {
		return nil, err
	}
	if s.within == nil {
		s.within = demands
	} else if demands != nil {
		s.within.And(demands)
	}
	ranking := &sessionRanking{search: s, known: make(map[uint64]bool)}
	if !s.request.listing() {
		if err := s.rank(ranking); err != nil {
			return nil, err
		}
	}
	if demands != nil || s.request.listing() {
		ranking.newest, err = s.turns.Newest(nil)
	}
	return ranking, err
}

// narrow finds the groups that the filter may accept.
func (s *sessionSearch) narrow() (err error) {
	filter := &s.request.Filter
	within, exact, err := filter.narrow(&s.groups.Sets)
	s.within = within
	if err != nil || exact {
		return err
	}
	s.facets = make(map[*Filter]*lexical.Set)
	return filter.eachFacet(func(f *Filter) error {
		s.facets[f], _, err = f.narrow(&s.groups.Sets)
		return err
	})
}

// passes decides the conditions that the index cannot.
func (s *sessionSearch) passes(f *foundSession, d *sessionDocument) bool {
	if s.query.Exact() && !s.query.Matches(d.bySpeaker()...) {
		return false
	}
	return s.facets == nil || s.request.Filter.matches(&subject{
		time: d.session.Updated, tags: d.session.Tags,
		holds: func(facet *Filter) bool { return s.groups.Has(s.facets[facet], f.key) },
	})
}

// sessionRanking returns sessions, the best first.
type sessionRanking struct {
	search *sessionSearch
	best   float64 // score
	scored []*foundSession
	newest *lexical.Ranking // of turns, whose sessions follow the scored ones; nil: none follow
	known  map[uint64]bool  // groups that were scored, or returned
}

func (r *sessionRanking) close() {
	if r.newest != nil {
		r.newest.Close()
	}
}

// next returns the next session; nil if there is none.
func (r *sessionRanking) next() (*foundSession, error) {
	if len(r.scored) > 0 {
		f := r.scored[0]
		r.scored = r.scored[1:]
		return f, nil
	}
	s := r.search
	for r.newest != nil {
		hit, more := r.newest.Next()
		if !more {
			break
		}
		key := s.turns.Group(hit.Number)
		if key == 0 || r.known[key] || !s.groups.Has(s.within, key) {
			continue
		}
		r.known[key] = true
		id, err := s.turns.ID(hit.Number)
		return &foundSession{key: key, best: id}, err
	}
	return nil, nil //nolint:nilnil // there is none
}

// rank ranks the sessions whose turns hold a word of the query, or that have one in what is written about them.
func (s *sessionSearch) rank(into *sessionRanking) error {
	found, err := s.rankTurns()
	if err != nil {
		return err
	}
	places := make(map[uint64]*foundSession, len(found))
	for _, f := range found {
		places[f.key] = f
	}
	about, err := s.about.Score(s.query)
	if err != nil {
		return err
	}
	defer about.Close()
	best := 0.0
	for range maxLooked {
		hit, more := about.Next()
		if !more {
			break
		}
		id, err := s.about.ID(hit.Number)
		if err != nil {
			return err
		}
		key := lexical.GroupKey(uint32(s.number), id)
		if !s.groups.Has(s.within, key) {
			continue
		}
		best = max(best, hit.Score) // the first is the best
		f := places[key]
		if f == nil {
			f = &foundSession{key: key, id: id, bm25: hit.Score}
			found = append(found, f)
		}
		f.about = []uint32{hit.Number}
		f.score += aboutShare * hit.Score / best
	}
	slices.SortStableFunc(found, func(a, b *foundSession) int { return cmp.Compare(b.score, a.score) })
	for _, f := range found {
		into.known[f.key] = true
	}
	if into.scored = found; len(found) > 0 {
		into.best = found[0].score
	}
	return nil
}

// rankTurns ranks the sessions by their turns.
func (s *sessionSearch) rankTurns() (found []*foundSession, err error) {
	turns, err := s.turns.Score(s.query)
	if err != nil {
		return nil, err
	}
	defer turns.Close()
	if span, named := spanIn(s.request.Query, time.Now()); named {
		favored, err := s.turns.FacetRange(facetDay, span.from.UTC().Format(dayLayout), span.last().UTC().Format(dayLayout))
		if err != nil {
			return nil, err
		}
		turns.Favor(favored)
	}
	groups, err := turns.Groups()
	if err != nil {
		return nil, err
	}
	for i := range groups {
		g := &groups[i]
		if len(found) == maxLooked || !s.groups.Has(s.within, g.Key) {
			continue
		}
		id, err := s.turns.ID(g.Best.Number)
		if err != nil {
			return nil, err
		}
		found = append(found, &foundSession{key: g.Key, best: id, bm25: g.Best.Own, score: g.Score / groups[0].Score})
	}
	return found, s.rankWhole(found[:min(len(found), rankedWhole)])
}

// rankWhole adds what sessions score as one document each.
func (s *sessionSearch) rankWhole(found []*foundSession) error {
	keys := make([]uint64, len(found))
	for i, f := range found {
		keys[i] = f.key
	}
	scores, err := s.groups.ScoreWhole(s.query, keys)
	if err != nil || len(found) == 0 {
		return err
	}
	if best := slices.Max(scores); best > 0 {
		for i, f := range found {
			f.score += wholeShare * scores[i] / best
		}
	}
	return nil
}

// read reads a session and its best turn; nil if it is gone or nothing was said in it.
func (s *sessionSearch) read(f *foundSession) (*sessionDocument, *document, error) {
	var turn *document
	if f.best != "" {
		entry, err := s.source.turn(f.best)
		if err != nil {
			return nil, nil, unlessNotFound(err)
		}
		turn, f.id = newDocument(&entry), entry.Exchange.Session
	}
	if f.id == "" {
		return nil, nil, nil
	}
	d, err := s.source.document(f.id)
	return d, turn, err
}

// mostNames is how many names of a session may become its snippet.
const mostNames = 10 * maxNames

func (s *sessionSearch) hit(f *foundSession, d *sessionDocument, turn *document) (Hit, error) {
	h := Hit{Object: "memory.hit", Session: d.session.ID, Time: d.session.Updated, Title: cmp.Or(d.session.Title, d.summary.Goal), Role: "session"}
	if len(d.session.Models) > 0 {
		h.Model = d.session.Models[len(d.session.Models)-1]
	}
	names := strings.Join(d.names[:min(len(d.names), mostNames)], "\n")
	_, h.Snippet, h.Highlights = snippet(s.query, lexical.Said{Assistant: strings.Join(d.said(), "\n")}, names, s.request.Snippet)
	if len(h.Highlights) == 0 && turn != nil {
		_, h.Snippet, h.Highlights = snippet(s.query, turn.said, turn.names, s.request.Snippet)
	}
	h.Tokens = (len(h.Snippet) + 3) / 4
	h.Summary = &d.summary
	if d.written != nil {
		h.Summary.Text, h.Summary.By = d.written.Text, d.written.By
	}
	covered, err := s.groups.Coverage(s.query, f.key, f.about...)
	if err != nil {
		return h, err
	}
	h.Coverage, h.Words, h.Names = covered.Share, covered.Words, covered.Names
	h.Relevance = relevance(h.Coverage, f.bm25)
	return h, nil
}
