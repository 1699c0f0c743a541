package search

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Terms returns what an engine that finds candidates needs to know about a turn; nil if nothing finds it.
func Terms(entry *record.TimelineEntry) []string {
	d := newDocument(entry)
	if d == nil {
		return nil
	}
	document := d.lexical(0)
	return document.Terms()
}

// SessionTerms returns what an engine that finds candidates needs to know about a session besides its turns: the words of
// its title, and its tags.
func SessionTerms(title string, tags []string) []string {
	named := lexical.Document{Text: title}
	terms := named.Terms()
	for _, tag := range tags {
		terms = append(terms, lexical.HasFacet(fieldTag, tag).Term)
	}
	return terms
}

// SummaryTerms is [SessionTerms] for a model's summary.
func SummaryTerms(m *record.SessionSummary) []string {
	text := lexical.Document{Text: m.Text}
	return text.Terms()
}

// Wanted describes the turns that an engine returns as candidates for a search: they satisfy Demanded and any of Scored, and began
// within the bounds. Turns that satisfy rare conditions of Scored, or many of them, come first; without Scored, the newest ones.
type Wanted struct {
	Demanded     *lexical.Condition // nil: nothing
	Scored       []lexical.Condition
	Synonyms     []lexical.Synonym // score as well; Corpus says which are worth it
	Since, Until time.Time         // zero: no bound
	Facets       bool              // the engine counts the values of [Facets]
	Sessions     bool              // sessions are wanted: see [Wanted.Apart] and [Wanted.RankSessions]

	// Named is what sessions satisfy that may be found without any of their turns: by the terms of [SessionTerms] and
	// [SummaryTerms]. nil: none may. Those that satisfy most of Scored come first.
	Named *lexical.Condition

	// Demand is what hits must contain of the query; nil: nothing. See [Wanted.Parts].
	Demand *lexical.Demand

	// Corpus has the engine's statistics of Scored among all turns of the account, which weigh words.
	Corpus lexical.Corpus

	// MeanLength is how many terms a turn of the account has in the mean, for an engine that measures it; 0: unknown.
	MeanLength float64

	request *Request
	query   *lexical.Query
	vectors vectorSource // see [Wanted.Compare]; nil: there are none
}

// Want returns what an engine is to find for a request.
func Want(r *Request) (*Wanted, error) {
	r, query, err := r.read(time.Now())
	if err != nil {
		return nil, err
	}
	w := &Wanted{Demanded: query.Demanded(), Facets: r.Facets, Sessions: r.Granularity == Sessions, Demand: r.Demand, request: r, query: query}
	if r.Facets {
		turns := *r
		turns.Facets, w.request = false, &turns
	}
	if !r.listing() {
		w.Scored = query.Scored()
		if r.Demand == nil {
			w.Synonyms = query.Synonyms()
		}
	}
	r.Filter.bounds(w)
	if c, narrow := r.Filter.condition(false); narrow {
		if w.Demanded != nil {
			c = lexical.Condition{All: []lexical.Condition{*w.Demanded, c}}
		}
		w.Demanded = &c
	}
	if w.Sessions {
		w.Named = w.named()
	}
	return w, nil
}

// named returns what Named is. A tag that is asked for says more than words, which turns of the session may have.
func (w *Wanted) named() *lexical.Condition {
	if c, narrow := w.request.Filter.condition(true); narrow {
		return &c
	}
	if len(w.Scored) > 0 {
		return &lexical.Condition{Any: w.Scored}
	}
	return nil
}

// Parts returns what Demand counts of the query, weighed by Corpus.
func (w *Wanted) Parts() []lexical.Part { return w.query.Parts(&w.Corpus) }

// bounds narrows the time range to that of the filter.
func (f *Filter) bounds(w *Wanted) {
	for i := range f.And {
		f.And[i].bounds(w)
	}
	if f.Field != fieldTime {
		return
	}
	at, err := time.Parse(time.RFC3339Nano, f.Value)
	switch {
	case err != nil:
	case f.Op == "gte" || f.Op == "gt":
		if at.After(w.Since) {
			w.Since = at
		}
	case w.Until.IsZero() || at.Before(w.Until):
		w.Until = at.Add(time.Nanosecond) // lte
	}
}

// condition is [Filter.narrow] without an index, for the tags of a session or for the other fields. narrow is false if
// the filter excludes nothing by these.
func (f *Filter) condition(tags bool) (c lexical.Condition, narrow bool) {
	switch {
	case len(f.And) > 0:
		for i := range f.And {
			if one, narrow := f.And[i].condition(tags); narrow {
				c.All = append(c.All, one)
			}
		}
		return c, len(c.All) > 0
	case len(f.Or) > 0:
		for i := range f.Or {
			one, narrow := f.Or[i].condition(tags)
			if !narrow {
				return c, false
			}
			c.Any = append(c.Any, one)
		}
		return c, true
	case !tags && f.Not != nil && f.Not.Field == "session" && f.Not.Op == "eq": // recall leaves out the session that asks
		not := lexical.HasFacet(facetOf("session", f.Not.Value))
		return lexical.Condition{Not: &not}, true
	case f.Field == "" || f.Field == fieldTime || (f.Field == fieldTag) != tags:
		return c, false // the ranking decides any other Not
	case f.Op == "prefix":
		return lexical.HasFacetPrefix(f.Field, f.Value), true
	}
	for _, value := range f.wanted() {
		c.Any = append(c.Any, lexical.HasFacet(facetOf(f.Field, value)))
	}
	return c, true
}

// candidateTurns are the turns found by an engine.
type candidateTurns struct {
	entries map[string]*record.TimelineEntry
	tagged  func(id string) (*record.Session, error)
}

func (t candidateTurns) turn(exchange string) (record.TimelineEntry, error) {
	return *t.entries[exchange], nil
}

func (t candidateTurns) session(id string) (*record.Session, error) { return t.tagged(id) }

// Rank ranks the candidates found by an engine, as an index of only these would. session returns sessions of the
// account by their ids.
func (w *Wanted) Rank(ctx context.Context, candidates []record.TimelineEntry, session func(id string) (*record.Session, error)) (*Answer, error) {
	entries, documents := byExchange(candidates)
	searcher, err := w.index(ctx, documents)
	if err != nil {
		return nil, err
	}
	defer func() { _ = searcher.Close() }()
	found := candidateTurns{entries: entries, tagged: session}
	s := &searching{vectors: w.vectors, turns: found, request: w.request, query: w.query, searcher: searcher}
	return s.run(ctx)
}

// byExchange returns the turns found by an engine by their ids, and their documents.
func byExchange(candidates []record.TimelineEntry) (map[string]*record.TimelineEntry, []lexical.Document) {
	slices.SortFunc(candidates, func(a, b record.TimelineEntry) int { return cmp.Compare(a.Exchange.ID, b.Exchange.ID) })
	entries := make(map[string]*record.TimelineEntry, len(candidates))
	var documents []lexical.Document
	for i := range candidates {
		if d := newDocument(&candidates[i]); d != nil {
			entries[d.id] = &candidates[i]
			documents = append(documents, d.lexical(0))
		}
	}
	return entries, documents
}

// index indexes turns, which are some of the corpus.
func (w *Wanted) index(ctx context.Context, documents []lexical.Document) (*lexical.Searcher, error) {
	index, err := lexical.Over(ctx, documents)
	if err != nil {
		return nil, err
	}
	searcher, err := index.Searcher(ctx, 0)
	if err != nil {
		return nil, err
	}
	searcher.Within(&w.Corpus)
	return searcher, nil
}

// Facet is a property whose values a search can list. The terms of a turn with that property begin with Prefix, followed
// by the value.
type Facet struct{ Name, Prefix string }

// Facets are the properties whose values searches list, and how many of each at most.
func Facets() (listed []Facet, most int) {
	for _, name := range facetNames {
		if listsFacet(name) {
			listed = append(listed, Facet{name, lexical.HasFacetPrefix(name, "").Prefix})
		}
	}
	return listed, maxLimit
}
