package search

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Mode says what a search uses.
type Mode string

// Modes.
const (
	Auto    Mode = "auto"    // hybrid if there are vectors that capture meaning, else lexical
	Lexical Mode = "lexical" // words and names
	Vector  Mode = "vector"  // similarity of vectors
	Hybrid  Mode = "hybrid"  // both, weighted
)

var modes = [...]Mode{Auto, Lexical, Vector, Hybrid}

// Request asks for turns.
type Request struct {
	Query       string      `json:"query"`            // may be "" for the newest turns, or if the search is otherwise bounded: then the newest come first
	Newest      bool        `json:"newest,omitempty"` // list the newest turns; required for a search without query and bounds
	Syntax      Syntax      `json:"syntax,omitempty"` // operators (default), or plain: no character has a special meaning
	Mode        Mode        `json:"mode,omitempty"`   // auto (default), lexical, vector, hybrid
	Limit       int         `json:"limit,omitempty"`  // 1 to 100; 0: 10
	Offset      int         `json:"offset,omitempty"` // hits to skip; at most 10,000
	Filter      Filter      `json:"filters,omitzero"`
	Since       string      `json:"since,omitempty"`         // only turns from then on; see [ParseTime]
	Until       string      `json:"until,omitempty"`         // only turns before then
	Granularity Granularity `json:"granularity,omitempty"`   // exchange (default): turns; session: whole sessions, by all their turns
	GroupBy     string      `json:"group_by,omitempty"`      // session: only the best hit of each
	Snippet     int         `json:"snippet_bytes,omitempty"` // how long a snippet may be, 40 to 2,000; 0: 240
	MaxTokens   int         `json:"max_tokens,omitempty"`    // of all snippets together, estimated; 0: no limit
	Ranking     Ranking     `json:"ranking,omitzero"`
	Explain     bool        `json:"explain,omitempty"` // give the parts of each score, and the synonyms that were used
	Facets      bool        `json:"facets,omitempty"`  // list the values of the facets of all turns that are found

	// Demand leaves out turns that hold too little of the query, which is quicker than to leave out hits; nil: none is. It is
	// for plain queries by words.
	Demand *lexical.Demand `json:"-"`

	Weigh bool `json:"-"` // return what the words of the query say in the account
}

// Ranking says how hits are weighed.
type Ranking struct {
	VectorWeight    *float64 `json:"vector_weight,omitempty"`          // 0 to 1: the share of vectors in a hybrid score; nil: at most 0.2
	LeastLikeness   *float64 `json:"least_likeness,omitempty"`         // -1 to 1: the cosine that a turn with none of the query's words needs in a hybrid search; nil: 0.2
	RecencyWeight   float64  `json:"recency_weight,omitempty"`         // 0 to 1: the share of recency in a score
	RecencyHalfLife float64  `json:"recency_half_life_days,omitempty"` // days after which recency is worth half; 0: 30
}

// Granularity says what hits are.
type Granularity string

// Granularities.
const (
	Exchanges Granularity = "exchange"
	Sessions  Granularity = "session"
)

// Syntax says how a query is read.
type Syntax string

// Syntaxes.
const (
	Operators Syntax = "operators" // see [lexical.Parse]
	Plain     Syntax = "plain"
)

// CodeSyntax is the code of the error about a query that cannot be read as [Operators]; as [Plain] it can.
const CodeSyntax = "query_syntax"

const (
	defaultLimit  = 10
	maxLimit      = 100
	maxOffset     = 10_000
	maxQuery      = 8 << 10
	halfLife      = 30 // days
	searchTimeout = 5 * time.Second
	// maxLooked bounds the turns that are read to decide about phrases, speakers and times, beside those of the pages before.
	maxLooked     = 5000
	maxDuplicates = 20 // named at one hit
)

// Answer is what a search found.
type Answer struct {
	Object   string   `json:"object"` // "memory.search"
	ModeUsed Mode     `json:"mode_used"`
	Degraded []string `json:"degraded,omitempty"` // what could not be taken into account
	Data     []Hit    `json:"data"`
	HasMore  bool     `json:"has_more"`
	Hints    []string `json:"hints,omitempty"` // without hits: what the account does not have, and what it has

	// Synonyms are the words that turns of the account were also found by, if an explanation was asked for.
	Synonyms []lexical.UsedSynonym `json:"synonyms,omitempty"`

	// Facets are the most frequent values of each facet in the turns that the words find, if they were asked for.
	Facets map[string][]lexical.FacetValue `json:"facets,omitempty"`

	Index struct {
		Lag      uint64 `json:"lag_seq"`
		Building bool   `json:"building,omitempty"`
	} `json:"index"`

	Weights *lexical.Weights `json:"-"` // of the query's words; nil unless asked for, or of no words
	Closest float64          `json:"-"` // the best coverage that was seen where something was demanded, also of a turn that is no hit

	tokens int // of all snippets
}

// add takes a hit in, unless the snippets would have more tokens together than most; full tells that. 0 is no limit.
func (a *Answer) add(h Hit, most int) (full bool) {
	if a.tokens += h.Tokens; most > 0 && a.tokens > most {
		a.HasMore = true
		return true
	}
	a.Data = append(a.Data, h)
	return false
}

// damagedSessions says that there may be hits among what cannot be read.
const damagedSessions = "sessions: some are damaged and left out; run mneme check"

// Lacking returns the answer of an index of a part of what another one has.
func (a *Answer) Lacking(whole string) *Answer {
	a.degrade(whole)
	return a
}

// degrade adds a note of what could not be taken into account, once.
func (a *Answer) degrade(note string) {
	if !slices.Contains(a.Degraded, note) {
		a.Degraded = append(a.Degraded, note)
	}
}

// Hit is a turn that was found.
type Hit struct {
	Object     string    `json:"object"`          // "memory.hit"
	Score      float64   `json:"score"`           // 0 to 1 within one answer, which begins with 1
	Coverage   float64   `json:"coverage"`        // 0 to 1: how much of the query the turn holds, each word weighed by how rare it is
	Relevance  float64   `json:"relevance"`       // 0 to 1: how good the hit is, comparable between queries
	Words      int       `json:"words"`           // of the query that the turn holds, identifiers apart
	Names      int       `json:"names"`           // identifiers of the query that the turn holds
	Match      string    `json:"match,omitempty"` // of a hit that has none of the query's words: likeness, context (its neighbors have), or synonym
	Exchange   string    `json:"exchange_id"`
	Session    string    `json:"session_id"`
	Time       time.Time `json:"time"`
	Model      string    `json:"model,omitempty"`
	Client     string    `json:"client,omitempty"`  // the program, such as claude-code; of a turn
	Project    string    `json:"project,omitempty"` // the working directory; of a turn
	Role       string    `json:"role"`              // who said the snippet
	Title      string    `json:"title,omitempty"`
	Snippet    string    `json:"snippet"`
	Highlights [][2]int  `json:"highlights"`           // of the snippet, in characters: from, and up to but not including
	Tokens     int       `json:"tokens"`               // of the snippet, estimated
	Duplicates []string  `json:"duplicates,omitempty"` // ids of further exchanges that say the very same
	Summary    *Summary  `json:"summary,omitempty"`
	Scores     *Scores   `json:"scores,omitempty"`
}

// Matches of hits without words of the query.
const (
	matchLikeness = "likeness"
	MatchContext  = "context"
	matchSynonym  = "synonym"
)

// Scores are the parts of a score.
type Scores struct {
	Lexical float64  `json:"lexical"`           // as a share of the best
	BM25    float64  `json:"bm25"`              // of the turn itself
	Context float64  `json:"context,omitempty"` // what its neighbors in the session and its time add to that
	Vector  *float64 `json:"vector,omitempty"`  // the cosine as a share of the best; 0: not alike
	Cosine  *float64 `json:"cosine,omitempty"`  // of turn and query, which feedback has moved, as seen from the middle of the account's turns
	Recency *float64 `json:"recency,omitempty"`
}

func (r *Request) check() error {
	switch {
	case len(r.Query) > maxQuery:
		return codec.Invalid("query", "a query has at most %d bytes", maxQuery)
	case r.Limit < 0 || r.Limit > maxLimit:
		return codec.Invalid("limit", "limit is a number from 1 to %d", maxLimit)
	case r.Offset < 0 || r.Offset > maxOffset:
		return codec.Invalid("offset", "offset is a number from 0 to %d", maxOffset)
	case r.Mode != "" && !slices.Contains(modes[:], r.Mode):
		return codec.Invalid("mode", "there is no mode %q; there are auto, lexical, vector and hybrid", r.Mode)
	case r.Syntax != "" && r.Syntax != Operators && r.Syntax != Plain:
		return codec.Invalid("syntax", "there is no syntax %q; there are operators and plain", r.Syntax)
	case r.Granularity != "" && r.Granularity != Exchanges && r.Granularity != Sessions:
		return codec.Invalid("granularity", "there is no granularity %q; there are exchange and session", r.Granularity)
	case r.GroupBy != "" && r.GroupBy != "session":
		return codec.Invalid("group_by", "hits are grouped by session or not at all")
	case r.Snippet != 0 && (r.Snippet < 40 || r.Snippet > maxSnippet):
		return codec.Invalid("snippet_bytes", "snippet_bytes is a number from 40 to %d", maxSnippet)
	case r.MaxTokens < 0:
		return codec.Invalid("max_tokens", "max_tokens is a number above 0")
	case r.Ranking.VectorWeight != nil && (*r.Ranking.VectorWeight < 0 || *r.Ranking.VectorWeight > 1):
		return codec.Invalid("ranking.vector_weight", "vector_weight is a number from 0 to 1")
	case r.Ranking.LeastLikeness != nil && (*r.Ranking.LeastLikeness < -1 || *r.Ranking.LeastLikeness > 1):
		return codec.Invalid("ranking.least_likeness", "least_likeness is a number from -1 to 1")
	case r.Ranking.RecencyWeight < 0 || r.Ranking.RecencyWeight > 1:
		return codec.Invalid("ranking.recency_weight", "recency_weight is a number from 0 to 1")
	case r.Ranking.RecencyHalfLife < 0:
		return codec.Invalid("ranking.recency_half_life_days", "recency_half_life_days is a number above 0")
	}
	left := maxFilterSize
	return r.Filter.check("filters", 0, &left)
}

// read checks a request, and returns it with its bounds in time as filters and with its query.
func (r *Request) read(now time.Time) (*Request, *lexical.Query, error) {
	if err := r.check(); err != nil {
		return nil, nil, err
	}
	query, err := r.parse()
	if err != nil {
		return nil, nil, err
	}
	if query.Empty() && !r.listing() {
		return nil, nil, codec.Invalid("query", "the query has no word to look for")
	}
	r, err = r.bounded(now)
	return r, query, err
}

// parse reads the query string.
func (r *Request) parse() (*lexical.Query, error) {
	if r.Syntax == Plain {
		return lexical.Plain(r.Query), nil
	}
	q, err := lexical.Parse(r.Query, facetNames)
	if err == nil {
		q.RenameFacets(facetOf)
	}
	var syntax *lexical.SyntaxError
	if errors.As(err, &syntax) {
		e := codec.Invalid("query", "%s (byte %d of the query). To search for signs as they are, ask with \"syntax\": \"plain\", or --plain on the command line.", syntax.Message, syntax.At)
		e.Code = CodeSyntax
		return nil, e
	}
	return q, err
}

// listing reports whether no words are looked for: the newest turns are wanted.
func (r *Request) listing() bool {
	return strings.TrimSpace(r.Query) == "" && (r.Newest || r.Facets || r.Since != "" || r.Until != "" || !r.Filter.isZero())
}

// bounded returns the request with its bounds in time as filters.
func (r *Request) bounded(now time.Time) (*Request, error) {
	if r.Since == "" && r.Until == "" {
		return r, nil
	}
	var bounds [2]time.Time
	for i, text := range [...]string{r.Since, r.Until} {
		if text == "" {
			continue
		}
		at, err := ParseTime(text, now)
		if err != nil {
			return nil, codec.Invalid([...]string{"since", "until"}[i], "%s", err)
		}
		bounds[i] = at
	}
	within := *r
	within.Filter = Filter{And: Within(bounds[0], bounds[1])}
	if !r.Filter.isZero() {
		within.Filter.And = append(within.Filter.And, r.Filter)
	}
	return &within, nil
}
