// Package quota enforces the limits of service keys: requests and tokens per minute, concurrent exchanges, and tokens
// per month.
//
// The per-minute limits are token buckets that start full and refill evenly. A request is admitted when the buckets
// hold one request and its estimated prompt tokens. When it ends, the estimate is replaced by the actual use, which may
// take the bucket below zero.
//
// A request reserves what it may use of the month's budget, and is admitted while anything is left that is neither used
// nor reserved. So the budget is exceeded by less than one request's reservation, provided that no request uses more
// than it reserved.
//
// All of this is in memory and lost with the process, except the tokens used in the month, which [store.KeyUse] counts.
//
// Servers that share limits have a common [Lender]. Each admits what it has on lease, see [Leases].
//
// The package reads no clock: callers pass the time.
package quota

import (
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
)

// Limit names one of the limits.
type Limit string

// The limits, by the names of their metric and configuration.
const (
	RequestsPerMinute Limit = "requests_per_minute"
	TokensPerMinute   Limit = "tokens_per_minute" //nolint:gosec // counts tokens of text and is no credential
	Concurrent        Limit = "concurrent"
	TokensPerMonth    Limit = "tokens_per_month"
	Repeats           Limit = "repeats"
	StalledTokens     Limit = "stalled_tokens"
	BudgetDay         Limit = "budget_usd_day"
	BudgetMonth       Limit = "budget_usd_month"
	BudgetBurst       Limit = "budget_usd_burst"
)

// Table holds the state of every key with limits. The zero Table is ready to use.
type Table struct {
	Leases *Leases // of limits shared with other servers; nil: none are

	mu   sync.Mutex
	keys map[string]*state // by key id
}

// state is the state of one key.
type state struct {
	mu       sync.Mutex
	requests bucket
	tokens   bucket
	open     int64
	reserved int64 // of the month, by open requests
}

// Refusal is the reason why a request is not admitted.
type Refusal struct {
	Limit Limit
	Error *codec.Error

	// Coming is closed when the first lease of the limit may have arrived and the request may be admitted; nil: there
	// is no lease to wait for. The channel may never be closed.
	Coming <-chan struct{}
}

func (r *Refusal) until(coming <-chan struct{}) *Refusal {
	r.Coming = coming
	return r
}

// Enter admits a request or returns why not. limits are the key's own joined with the server's; estimate is the
// estimated tokens of the prompt. The pass of a key without limits is nil.
func (t *Table) Enter(now time.Time, key string, limits store.Limits, use *store.KeyUse, estimate int64) (*Pass, *Refusal) {
	limits.Budget = store.Budget{} // see [Budgets]
	if limits == (store.Limits{}) {
		return nil, nil
	}
	on := shared{t.Leases, key, limits, now}
	limits = on.here()
	s := t.of(key)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests.fill(now, limits.RequestsPerMinute)
	s.tokens.fill(now, limits.TokensPerMinute)
	if refusal := s.refusal(now, limits, on.tokens(use), estimate); refusal != nil {
		return nil, refusal
	}
	if refusal := on.refusal(estimate); refusal != nil {
		return nil, refusal
	}
	s.open++
	s.requests.level--
	s.tokens.level -= float64(estimate)
	on.enter(estimate)
	return &Pass{state: s, shared: on, use: use, budget: limits.TokensPerMonth, estimate: estimate, Standing: Standing{
		Requests: s.requests.window(limits.RequestsPerMinute), Tokens: s.tokens.window(limits.TokensPerMinute),
	}}, nil
}

func (t *Table) of(key string) *state {
	t.mu.Lock()
	defer t.mu.Unlock()
	s, ok := t.keys[key]
	if !ok {
		if t.keys == nil {
			t.keys = make(map[string]*state)
		}
		s = new(state)
		t.keys[key] = s
	}
	return s
}

// retrySoon is the wait when a place may become free at any moment.
const retrySoon = time.Second

// refusal returns why a request is not admitted, with used tokens of the month.
func (s *state) refusal(now time.Time, limits store.Limits, used, estimate int64) *Refusal {
	switch most := limits.TokensPerMonth; {
	case most > 0 && used >= most:
		return usedUp(now, most)
	case limits.Concurrent > 0 && s.open >= limits.Concurrent:
		return tooMuch(Concurrent, retrySoon, "%d exchanges of this service key are open, and no more are let in at a time", limits.Concurrent)
	}
	if most := limits.RequestsPerMinute; most > 0 {
		if wait := s.requests.wait(most, 1); wait > 0 {
			return tooMuch(RequestsPerMinute, wait, "this service key may send %d requests a minute", most)
		}
	}
	if most := limits.TokensPerMinute; most > 0 {
		// A prompt larger than the bucket waits for a full one.
		if wait := s.tokens.wait(most, float64(min(max(estimate, 1), most))); wait > 0 {
			return tooMuch(TokensPerMinute, wait, "this service key may use %d tokens a minute", most)
		}
	}
	return nil
}

// usedUp returns the refusal for a month's budget of most tokens.
func usedUp(now time.Time, most int64) *Refusal {
	next := store.NextMonth(now)
	e := codec.Errorf(codec.KindQuota, "The budget of this service key, %d tokens a month, is exhausted. It resets on %s; an operator can raise it with: mneme key update",
		most, next.Format("2 January 2006 at 15:04 MST"))
	e.RetryAfter = next.Sub(now)
	return &Refusal{Limit: TokensPerMonth, Error: e}
}

func tooMuch(limit Limit, wait time.Duration, format string, most int64) *Refusal {
	e := codec.Errorf(codec.KindRateLimited, "Too much at once: "+format+". Try again in %v.", most, wait.Round(time.Millisecond))
	e.RetryAfter = wait
	return &Refusal{Limit: limit, Error: e}
}

// Pass is an admitted request. The methods of a nil Pass do nothing.
type Pass struct {
	state    *state
	shared   shared
	use      *store.KeyUse
	budget   int64 // tokens per month; 0: no limit
	estimate int64
	reserved int64 // of the budget
	refused  bool  // for lack of budget

	Standing Standing // when the request was admitted
}

// mostReserved bounds one request's reservation: clients may ask for any answer length.
const mostReserved = 1 << 40

// Reserve reserves the tokens of the month that the request may use, or returns why it is not admitted after all. In
// that case [Pass.Leave] takes nothing of the minute. A pass reserves once.
func (p *Pass) Reserve(now time.Time, tokens int64) *Refusal {
	if p == nil || p.budget == 0 {
		return nil
	}
	s := p.state
	s.mu.Lock()
	defer s.mu.Unlock()
	used := p.shared.tokens(p.use)
	p.refused = true
	if used >= p.budget {
		return usedUp(now, p.budget)
	}
	if admits, coming := p.shared.admits(TokensPerMonth, 1); used+s.reserved >= p.budget || !admits {
		return tooMuch(TokensPerMonth, retrySoon, "what is left of the %d tokens a month of this service key is reserved for its open exchanges", p.budget).until(coming)
	}
	p.refused = false
	p.reserved = min(max(tokens, 0), mostReserved)
	s.reserved += p.reserved
	p.shared.add(TokensPerMonth, 0, p.reserved)
	return nil
}

// Leave ends the request: the used tokens replace its reservation in the key's month.
func (p *Pass) Leave(now time.Time, used int64) {
	if p == nil {
		return
	}
	p.state.mu.Lock()
	defer p.state.mu.Unlock()
	if p.refused {
		p.state.requests.level++
		p.shared.add(RequestsPerMinute, -1, 0)
	}
	p.state.open--
	p.state.tokens.level += float64(p.estimate - used)
	p.state.reserved -= p.reserved
	p.shared.leave(p.estimate, used, p.reserved)
	p.use.AddTokens(now, used)
}

// Standing is what is left of a key's limits.
type Standing struct{ Requests, Tokens Window }

// Window is one per-minute limit.
type Window struct {
	Limit     int64 // 0: there is none
	Remaining int64
	Reset     time.Duration // until it is full again
}

// bucket holds what may be used at once. It refills at the limit per minute, up to the limit.
type bucket struct {
	level float64 // may be below zero
	at    time.Time
}

// fill brings the level up to date. Without a limit it starts over, so that earlier unlimited use does not count
// against the key when it gets a limit.
func (b *bucket) fill(now time.Time, limit int64) {
	switch passed := now.Sub(b.at); {
	case limit == 0:
		*b = bucket{}
		return
	case b.at.IsZero():
		b.level = float64(limit)
	case passed > 0:
		b.level += passed.Minutes() * float64(limit)
	}
	b.level = min(b.level, float64(limit))
	b.at = now
}

// wait returns how long it takes until the level is at least want.
func (b *bucket) wait(limit int64, want float64) time.Duration {
	const rounding = 1e-9 // a share of the limit, so that a wait that was served is not asked for again
	missing := want - b.level
	if missing <= rounding*float64(limit) {
		return 0
	}
	return time.Duration(min(missing/float64(limit), longestWait.Minutes()) * float64(time.Minute))
}

// longestWait is the longest wait that callers are told; a time.Duration ends at 292 years.
const longestWait = 365 * 24 * time.Hour

func (b *bucket) window(limit int64) Window {
	if limit == 0 {
		return Window{}
	}
	return Window{Limit: limit, Remaining: max(int64(b.level), 0), Reset: b.wait(limit, float64(limit))}
}
