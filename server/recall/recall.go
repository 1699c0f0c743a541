// Package recall offers what earlier sessions say about a question, without being asked. It speaks only when it is
// sure: most questions get silence, with a reason. It returns quoted records, never conclusions of its own.
package recall

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec/project"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/private"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Recaller finds what is worth recalling.
type Recaller interface {
	Recall(ctx context.Context, q *Query) Recalled
	Resume(ctx context.Context, q *Query) Recalled // see [Memory.Resume]
}

// Engine is the memory to recall from.
type Engine interface {
	Search(ctx context.Context, account string, r *search.Request) (*search.Answer, error)
	Beside(work func(ctx context.Context)) bool // see [search.Index.Beside]
	Turn(account, exchange string) (record.TimelineEntry, error)
	Exchange(account, id string) (*record.Exchange, error)
	Timeline(account, session string, q record.TimelineQuery) (record.TimelinePage, error)
	SessionKnownAs(account, id string) (session string)
	Recall(account, name string) (value []byte)
	Keep(account, name string, value []byte)
}

// Over returns the Engine of an engine.
func Over(e *engine.Engine) Engine { return over{e.Index(), e.Archive(), e.Notes()} }

type over struct {
	engine.Index
	engine.Archive
	*store.Notes
}

// SessionKnownAs returns the session of an account that has an id, its own or one from a client; "" if none has.
func (m *Memory) SessionKnownAs(account, id string) string {
	return m.engine.SessionKnownAs(account, id)
}

// Query is a question and where it is asked.
type Query struct {
	Account string
	Prompt  string
	Project string   // the directory, or its substitute; "": unknown, and then only Wide recalls anything
	Wide    bool     // recall from other projects too
	Asked   bool     // a person or a model has asked for it: what comes closest fills the limit, and nothing is too little
	Session string   // the session that asks, by any of its ids: its own words are not recalled
	Key     string   // the id of the key that asks: sessions that are running with it are not recalled; "": unknown
	Given   []string // exchanges already given to the session
	Tokens  int      // limit on the text; 0: the default
}

// Recalled is what was found, or why there is nothing.
type Recalled struct {
	Text     string  `json:"text"` // "": silence
	Hits     []Hit   `json:"hits"`
	Coverage float64 `json:"coverage"` // of the best hit, or in silence of the closest turn: the share of the question's words that it holds, weighted by rarity
	Tokens   int     `json:"tokens"`   // of the text, estimated
	Reason   Reason  `json:"reason,omitempty"`

	lines  []string // of a digest, see [Memory.Before]
	quoted []string // exchanges that lines of a digest are from
}

// Hit is a quoted exchange.
type Hit struct {
	Exchange string    `json:"exchange_id"`           // that begins the round
	Answered string    `json:"answered_in,omitempty"` // the exchange of the answer, if it is another
	Also     []string  `json:"also_quoted,omitempty"` // other exchanges that are quoted: of commands, of outputs, of what was said in between
	Session  string    `json:"session_id"`
	Time     time.Time `json:"time"`
	Client   string    `json:"client,omitempty"`
	Project  string    `json:"project,omitempty"`
	Coverage float64   `json:"coverage"`            // of the question by what is quoted
	Solved   string    `json:"solved_by,omitempty"` // the later exchange in which the failed command passed
}

// Exchanges returns the exchanges that are quoted.
func (h *Hit) Exchanges() []string {
	list := []string{h.Exchange}
	if h.Answered != "" {
		list = append(list, h.Answered)
	}
	return append(list, h.Also...)
}

// also notes that an exchange is quoted too.
func (h *Hit) also(exchange string) {
	if exchange != "" && !slices.Contains(h.Exchanges(), exchange) {
		h.Also = append(h.Also, exchange)
	}
}

// Reason says why there is silence.
type Reason string

// Reasons.
const (
	ReasonShort    Reason = "short"    // the question has too few words to search for
	ReasonScope    Reason = "scope"    // the project is unknown, or the key lacks the scope read
	ReasonCoverage Reason = "coverage" // nothing holds enough of the question
	ReasonGiven    Reason = "given"    // all of it was already given
	ReasonBudget   Reason = "budget"   // the session has used up its budget
	ReasonDeadline Reason = "deadline" // the search took too long
	ReasonPrivate  Reason = "private"  // something in the question is marked as private
	ReasonFailed   Reason = "failed"   // the search failed
	ReasonNoIndex  Reason = "no_index" // the memory has no index, or is being closed
)

// Sentence returns the reason in words, without a full stop; "" for none.
func (r Reason) Sentence() string {
	switch r {
	case ReasonShort:
		return "the question has too few words to search for"
	case ReasonScope:
		return "the project is unknown, or the key lacks the scope read"
	case ReasonCoverage:
		return "nothing on record holds enough of the question's words"
	case ReasonGiven:
		return "all that was found was given to this session before"
	case ReasonBudget:
		return "this session has had as much as it may have, or nothing fits into so few tokens"
	case ReasonDeadline:
		return "the search was not done in time"
	case ReasonPrivate:
		return "something in the question is marked as private"
	case ReasonFailed:
		return "the search failed; the server's log says why"
	case ReasonNoIndex:
		return "the search index is off, or is being closed"
	}
	return string(r)
}

// Defaults and bounds.
const (
	DefaultTokens   = 400  // of one text
	MaxTokens       = 2000 // the most that may be asked for
	SessionTokens   = 2000 // of all texts of one session
	defaultDeadline = 50 * time.Millisecond
	askedDeadlines  = 40   // deadlines that pass where it is asked for
	leastCoverage   = 0.55 // of a record without a name: see [bar]
	allNames        = 0.5  // least coverage of a record that holds all names of the question
	someNames       = 0.7  // of one that holds some of them
	defaultAge      = 90 * 24 * time.Hour
	maxEntries      = 12
	mostRounds      = 16 // read to choose the entries from
	entryBytes      = 600
	leastWords      = 3               // of a question without a name
	leastHeld       = 2               // question words in a record without a name
	candidates      = 24              // hits that are examined
	askedCandidates = 48              // where it is asked for
	leastScore      = 0.2             // of a hit where it is asked for, as a share of the best
	closeScore      = 0.6             // of a hit that comes close to the best
	searchTime      = 5 * time.Second // for a search whose caller has given up: the next one finds the index warm
	atOnce          = 4               // searches
	maxPrompt       = 8 << 10
)

// Options configure a [Memory]. Zero members take the defaults.
type Options struct {
	Requests Requests // whether requests get recalled text
	Accounts []string // whose requests get it without asking

	Deadline time.Duration // for a decision
	Age      time.Duration // of the oldest recalled exchange
	Clock    func() time.Time
}

// Requests decides which requests get recalled text.
type Requests string

// Policies.
const (
	RequestsAsk Requests = "ask" // those that ask; also ""
	RequestsOn  Requests = "on"  // all
	RequestsOff Requests = "off" // none, even those that ask
)

// Memory recalls from a store.
type Memory struct {
	engine  Engine
	opts    Options
	running chan struct{} // a slot per search
	counts  tallies
}

var _ Recaller = (*Memory)(nil)

// New returns a recaller. It needs no closing: abandoned searches end with the index.
func New(e Engine, o Options) *Memory {
	if o.Deadline == 0 {
		o.Deadline = defaultDeadline
	}
	if o.Age == 0 {
		o.Age = defaultAge
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	return &Memory{engine: e, opts: o, running: make(chan struct{}, atOnce)}
}

// Recall decides about a question within the deadline. It never fails: on any error it is silent.
func (m *Memory) Recall(ctx context.Context, q *Query) (r Recalled) {
	defer func() {
		r.Hits = slices.Clip(append([]Hit{}, r.Hits...))
		m.counts.add(q.Account, &r)
	}()
	if q.Project = project.Clean(q.Project); q.Project == "" && !q.Wide {
		return Recalled{Reason: ReasonScope}
	}
	if private.Marked(q.Prompt) {
		return Recalled{Reason: ReasonPrivate}
	}
	deadline := m.opts.Deadline
	if q.Asked {
		deadline *= askedDeadlines
	}
	asked := q.clone()
	return m.within(ctx, deadline, func(ctx context.Context) Recalled { return m.decide(ctx, asked) })
}

// clone returns a copy that shares no memory with q, whose parts may be views of a request that ends earlier.
func (q *Query) clone() *Query {
	c := *q
	c.Prompt, c.Given = strings.Clone(q.Prompt), slices.Clone(q.Given)
	c.Account, c.Project, c.Session, c.Key = strings.Clone(q.Account), strings.Clone(q.Project), strings.Clone(q.Session), strings.Clone(q.Key)
	return &c
}

// within decides beside the caller, who waits at most until the deadline. A decision that takes longer is lost, but goes on for a
// while: the next one finds the index warm.
func (m *Memory) within(ctx context.Context, deadline time.Duration, decide func(context.Context) Recalled) Recalled {
	ctx, cancel := context.WithTimeout(ctx, deadline)
	defer cancel()
	select {
	case m.running <- struct{}{}:
	case <-ctx.Done():
		return Recalled{Reason: ReasonDeadline}
	}
	decided := make(chan Recalled, 1)
	open := m.engine.Beside(func(life context.Context) {
		defer func() { <-m.running }()
		inside, done := context.WithTimeout(life, searchTime)
		defer done()
		defer func() {
			if fault := recover(); fault != nil { // from an index with damaged files
				decided <- Recalled{Reason: ReasonFailed}
			}
		}()
		decided <- decide(inside)
	})
	if !open {
		<-m.running
		return Recalled{Reason: ReasonNoIndex}
	}
	select {
	case r := <-decided:
		return r
	case <-ctx.Done():
		return Recalled{Reason: ReasonDeadline}
	}
}

func (m *Memory) decide(ctx context.Context, q *Query) Recalled {
	prompt := lexical.Cut(q.Prompt, maxPrompt)
	asked := question{Memory: m, query: q, prompt: prompt, given: make(map[string]bool)}
	for _, id := range q.Given {
		asked.given[id] = true
	}
	if q.Tokens <= 0 {
		q.Tokens = DefaultTokens
	}
	q.Tokens = min(q.Tokens, MaxTokens)
	if session := m.engine.SessionKnownAs(q.Account, q.Session); session != "" {
		asked.own = append(asked.own, session)
	}
	asked.own = append(asked.own, m.Running(ctx, q.Account, q.Key)...)
	return asked.answer(ctx)
}

// question is one decision.
type question struct {
	*Memory
	query  *Query
	prompt string
	own    []string // sessions of the agent that asks
	given  map[string]bool
	others *others // nil: not read yet
}

func (a *question) answer(ctx context.Context) Recalled {
	entries, err := a.solved(ctx)
	if err != nil {
		return Recalled{Reason: ReasonFailed}
	}
	words := lexical.Plain(a.prompt)
	best, reason := 0.0, ReasonCoverage
	switch {
	case words.Words() >= leastWords || words.Names() > 0 || a.query.Asked:
		var more []entry
		if more, best, reason, err = a.records(ctx, words.Names()); err != nil {
			return Recalled{Reason: ReasonFailed}
		}
		for i := range more {
			if !slices.ContainsFunc(entries, func(e entry) bool { return e.Exchange == more[i].Exchange }) {
				entries = append(entries, more[i])
			}
		}
	case len(entries) == 0:
		return Recalled{Reason: ReasonShort}
	}
	if len(entries) == 0 {
		return Recalled{Reason: reason, Coverage: best}
	}
	text, shown := frame(entries[:min(len(entries), maxEntries)], a.query.Tokens)
	if len(shown) == 0 {
		return Recalled{Reason: ReasonBudget, Coverage: best}
	}
	r := Recalled{Text: text, Coverage: best, Tokens: tokensOf(text)}
	for i := range shown {
		r.Hits = append(r.Hits, shown[i].Hit)
	}
	return r
}

// records finds the records that are worth quoting: notes first, and questions without an answer last. best is the coverage of
// the best one, or in silence of the closest turn.
func (a *question) records(ctx context.Context, names int) (entries []entry, best float64, reason Reason, err error) {
	found, err := a.search(ctx, names)
	if err == nil && a.query.Asked {
		err = a.preferred(ctx, found)
	}
	if err != nil {
		return nil, 0, "", err
	}
	if found.Weights == nil {
		if len(found.Data) == 0 {
			return nil, found.Closest, ReasonCoverage, nil
		}
		found.Weights = new(lexical.Weights)
	}
	rounds, reason, err := a.rounds(found)
	if err != nil {
		return nil, 0, "", err
	}
	a.others = newOthers()
	for _, r := range rounds {
		a.others.add(lexical.Cut(r.Said, maxSaid))
	}
	about := found.Weights.Held(a.prompt).Share > 0
	var notes, answered, open []entry
	for _, r := range rounds {
		if len(notes)+len(answered) >= maxEntries {
			break
		}
		if !a.choose(r, found.Weights) {
			continue
		}
		e := r.entry(found.Weights, a.query.Asked)
		a.addRan(&e, r, found.Weights)
		if about && e.Coverage == 0 && (r.hit.Match == "" || r.hit.Match == search.MatchContext) {
			continue // it has only words such as "decide"
		}
		best = max(best, e.Coverage)
		switch {
		case r.note:
			notes = append(notes, e)
		case r.Answered != "":
			answered = append(answered, e)
		default:
			open = append(open, e)
		}
	}
	if entries = slices.Concat(notes, answered, open); len(entries) == 0 {
		best = found.Closest
	}
	return entries, best, reason, nil
}

// rounds reads the rounds of hits that may be quoted, each once.
func (a *question) rounds(found *search.Answer) (list []*quotable, reason Reason, err error) {
	reason = ReasonCoverage
	seen := make(map[string]bool)
	size := a.quoteSize(found.Data)
	for i := range found.Data {
		h := &found.Data[i]
		if len(list) == mostRounds {
			break
		}
		if a.query.Asked && h.Score < leastScore {
			continue
		}
		r, err := a.read(h)
		switch {
		case err != nil:
			return nil, "", err
		case r == nil || seen[r.id()] || a.Runs(a.query.Account, h.Session, a.query.Key, h.Time) || !a.query.Asked && !a.says(r, found.Weights):
			continue
		case a.given[h.Exchange] || a.given[r.id()] || a.given[r.Answered]:
			reason = ReasonGiven
			continue
		}
		seen[r.id()] = true
		r.size = size
		list = append(list, r)
	}
	return list, reason, nil
}

// quoteSize returns how much is quoted of each answer: where it is asked for, half of the limit is for those that come close.
func (a *question) quoteSize(hits []search.Hit) int {
	if !a.query.Asked {
		return quoteBytes
	}
	near := 1
	for i := range hits {
		if i > 0 && hits[i].Score >= closeScore {
			near++
		}
	}
	return min(max(a.query.Tokens*tokenBytes/2/near, quoteBytes), mostQuoted)
}

// enough is a bound for the rule of silence that the turns of a search are held to: see [question.says].
func (a *question) enough(names bool) func(lexical.Covered) bool {
	return func(c lexical.Covered) bool {
		return names && c.Names > 0 || c.Share >= leastCoverage && c.Words+c.Names >= leastHeld
	}
}

// scope restricts a search to what may be recalled. Old records are recalled only where it is asked for.
func (a *question) scope() (filters []search.Filter) {
	if !a.query.Asked {
		filters = search.Within(a.opts.Clock().Add(-a.opts.Age), time.Time{})
	}
	if !a.query.Wide {
		filters = append(filters, search.Filter{Field: "project", Op: "eq", Value: a.query.Project})
	}
	for _, session := range a.own {
		filters = append(filters, search.Filter{Not: &search.Filter{Field: "session", Op: "eq", Value: session}})
	}
	return filters
}

// asks reports whether the question has words to search for.
func (a *question) asks() bool {
	words := lexical.Plain(a.prompt)
	return words.Words()+words.Names() > 0
}

func (a *question) search(ctx context.Context, names int) (*search.Answer, error) {
	if !a.asks() {
		return new(search.Answer), nil
	}
	r := &search.Request{
		Query: a.prompt, Syntax: search.Plain, Mode: search.Lexical, Limit: candidates, Snippet: entryBytes,
		Filter: search.Filter{And: a.scope()}, Weigh: true,
	}
	if a.query.Asked {
		r.Mode, r.Limit = search.Auto, askedCandidates
	} else {
		r.Demand = &lexical.Demand{Share: min(allNames, leastCoverage), Name: names > 0, Enough: a.enough(names > 0)}
	}
	return a.engine.Search(ctx, a.query.Account, r)
}

// matchTime marks a hit that was found by its time alone.
const matchTime = "time"

// preferred mixes into the hits those of the period that the question names, or those with a decision if it asks for one. A question
// without words gets the newest: "what did we do yesterday", "what did we decide", "and last?".
func (a *question) preferred(ctx context.Context, found *search.Answer) error {
	filters := a.scope()
	from, to, named := search.Period(a.prompt, a.opts.Clock())
	switch {
	case named:
		filters = append(filters, search.Within(from, to)...)
	case search.AsksForDecision(a.prompt):
		filters = append(filters, search.Decided)
	case len(found.Data) > 0:
		return nil
	}
	within := search.Request{Query: a.prompt, Syntax: search.Plain, Limit: candidates, Snippet: entryBytes, Filter: search.Filter{And: filters}}
	if !a.asks() {
		within.Query, within.Newest = "", true
	}
	inside, err := a.engine.Search(ctx, a.query.Account, &within)
	if err == nil && len(inside.Data) == 0 && named && !within.Newest {
		within.Query, within.Newest = "", true
		inside, err = a.engine.Search(ctx, a.query.Account, &within)
	}
	if err != nil {
		return err
	}
	var both []search.Hit
	for i := range max(len(inside.Data), len(found.Data)) {
		if i < len(inside.Data) {
			inside.Data[i].Score = 1
			if within.Newest {
				inside.Data[i].Match = matchTime
			}
			both = append(both, inside.Data[i])
		}
		if i < len(found.Data) {
			both = append(both, found.Data[i])
		}
	}
	found.Data = both
	return nil
}

func (a *question) turn(exchange string) (record.TimelineEntry, error) {
	return a.engine.Turn(a.query.Account, exchange)
}

func hitOf(t record.TimelineEntry, coverage float64) Hit {
	return Hit{
		Exchange: t.Exchange.ID, Session: t.Exchange.Session, Time: t.Exchange.Started, Coverage: coverage,
		Client: t.Exchange.Client(), Project: t.Exchange.Project,
	}
}
