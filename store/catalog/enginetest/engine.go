// Package enginetest has a search engine in memory, for tests of what uses one.
package enginetest

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// key names a copy.
type key struct {
	account  store.AccountNumber
	exchange string
}

// Engine is a search engine that keeps its copies in memory. All methods may be called concurrently.
type Engine struct {
	mu       sync.Mutex
	fill     string
	copies   map[key]catalog.Copied
	versions map[key]int64 // also of deleted copies
	away     bool
	refuses  string // exchange
	held     chan struct{}
	stuck    *stuck
	searches int
}

// New returns an engine without copies.
func New() *Engine { return new(Engine) }

var errAway = errors.New("the engine is away")

// Away has all requests fail, or answers them again.
func (e *Engine) Away(away bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.away = away
}

// Refuse has the copies of an exchange refused; "" ends that.
func (e *Engine) Refuse(exchange string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.refuses = exchange
}

// Hold has the next change arrive only after release is called, while later ones overtake it.
func (e *Engine) Hold() (release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	held := make(chan struct{})
	e.held = held
	return sync.OnceFunc(func() { close(held) })
}

// stuck are refreshes that get no answer.
type stuck struct {
	begun sync.Once
	one   chan struct{} // closed once there is one
	end   chan struct{}
}

// Stick has refreshes wait until release is called. one is closed when one waits.
func (e *Engine) Stick() (one <-chan struct{}, release func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := &stuck{one: make(chan struct{}), end: make(chan struct{})}
	e.stuck = s
	return s.one, sync.OnceFunc(func() { close(s.end) })
}

// Lose deletes everything, as a new machine would have it.
func (e *Engine) Lose() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fill, e.copies, e.versions = "", nil, nil
}

// Has reports whether there is a copy of an exchange.
func (e *Engine) Has(exchange string) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	for k := range e.copies {
		if k.exchange == exchange {
			return true
		}
	}
	return false
}

// Turns returns how many copies there are.
func (e *Engine) Turns() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.copies)
}

// Searches returns how often candidates were asked for.
func (e *Engine) Searches() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.searches
}

// enter locks the engine.
func (e *Engine) enter() (leave func(), err error) {
	e.mu.Lock()
	if e.away {
		e.mu.Unlock()
		return nil, errAway
	}
	return e.mu.Unlock, nil
}

// Name implements [catalog.Engine].
func (e *Engine) Name() string { return "memory" }

// Begin implements [catalog.Engine].
func (e *Engine) Begin(_ context.Context, _, fill string) error {
	leave, err := e.enter()
	if err != nil {
		return err
	}
	defer leave()
	e.fill, e.copies, e.versions = fill, make(map[key]catalog.Copied), make(map[key]int64)
	return nil
}

// Fill implements [catalog.Engine].
func (e *Engine) Fill(context.Context) (string, error) {
	leave, err := e.enter()
	if err != nil {
		return "", err
	}
	defer leave()
	return e.fill, nil
}

// Put implements [catalog.Engine].
func (e *Engine) Put(_ context.Context, changes []catalog.Change) ([]catalog.Outcome, error) {
	e.mu.Lock()
	held := e.held
	e.held = nil
	e.mu.Unlock()
	if held != nil {
		<-held
	}
	leave, err := e.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	if e.copies == nil {
		return nil, errors.New("there is no index")
	}
	outcomes := make([]catalog.Outcome, len(changes))
	for i, c := range changes {
		k := key{c.Account, c.Exchange}
		switch {
		case c.Exchange == e.refuses:
			outcomes[i] = catalog.CopyRefused
		case c.Version <= e.versions[k]:
		case c.Turn == nil:
			e.versions[k] = c.Version
			delete(e.copies, k)
		default:
			e.versions[k], e.copies[k] = c.Version, *c.Turn
		}
	}
	return outcomes, nil
}

// DropAccount implements [catalog.Engine].
func (e *Engine) DropAccount(_ context.Context, account store.AccountNumber) (done bool, err error) {
	leave, err := e.enter()
	if err != nil {
		return false, err
	}
	defer leave()
	for k := range e.copies {
		if k.account == account {
			delete(e.copies, k)
		}
	}
	return true, nil
}

// Refresh implements [catalog.Engine].
func (e *Engine) Refresh(ctx context.Context) error {
	leave, err := e.enter()
	if err != nil {
		return err
	}
	s := e.stuck
	leave()
	if s == nil {
		return nil
	}
	s.begun.Do(func() { close(s.one) })
	select {
	case <-s.end:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Measure implements [catalog.Candidates].
func (e *Engine) Measure(_ context.Context, account store.AccountNumber, w *search.Wanted) error {
	leave, err := e.enter()
	if err != nil {
		return err
	}
	defer leave()
	e.searches++
	w.Corpus = lexical.Corpus{Frequencies: make(map[string]uint64)}
	for k, c := range e.copies {
		if k.account != account {
			continue
		}
		w.Corpus.Documents++
		w.MeanLength += float64(len(c.Terms))
		for i := range w.Scored {
			if satisfies(c.Terms, &w.Scored[i]) {
				w.Corpus.Frequencies[w.Scored[i].Key()]++
			}
		}
	}
	w.MeanLength /= float64(max(w.Corpus.Documents, 1))
	return nil
}

// Words implements [catalog.Candidates].
func (e *Engine) Words(_ context.Context, account store.AccountNumber, w *search.Wanted) ([]string, error) {
	return e.best(account, w, func(c *catalog.Copied) (weight float64) {
		switch {
		case len(w.Scored) == 0:
			return 1
		case w.Demand != nil:
			for _, part := range w.Parts() {
				if satisfies(c.Terms, &part.Holds) {
					weight += part.Weight
				}
			}
			return weight
		}
		for i := range w.Scored {
			if satisfies(c.Terms, &w.Scored[i]) {
				weight += w.Corpus.Weight(&w.Scored[i])
			}
		}
		return weight / (2.33 + float64(len(c.Terms)+1)/w.MeanLength)
	})
}

// Alike implements [catalog.Candidates].
func (e *Engine) Alike(_ context.Context, account store.AccountNumber, w *search.Wanted, q *search.VectorQuery) ([]string, error) {
	return e.best(account, w, func(c *catalog.Copied) float64 {
		if c.Embedder != q.Embedder || len(c.Codes) != len(q.Codes) {
			return 0
		}
		var product, a, b float64
		for i, code := range c.Codes {
			product += float64(code) * float64(q.Codes[i])
			a += float64(code) * float64(code)
			b += float64(q.Codes[i]) * float64(q.Codes[i])
		}
		return 1 + product/math.Sqrt(a*b)
	})
}

// mostFound is how many candidates are found at most.
const mostFound = 400

// best returns the turns with the highest weights above 0.
func (e *Engine) best(account store.AccountNumber, w *search.Wanted, weigh func(*catalog.Copied) float64) ([]string, error) {
	leave, err := e.enter()
	if err != nil {
		return nil, err
	}
	defer leave()
	weights := make(map[string]float64)
	var ids []string
	for k, c := range e.copies {
		if k.account != account || w.Demanded != nil && !satisfies(c.Terms, w.Demanded) ||
			c.Began.Before(w.Since) || !w.Until.IsZero() && !c.Began.Before(w.Until) {
			continue
		}
		if weight := weigh(&c); weight > 0 {
			weights[k.exchange] = weight
			ids = append(ids, k.exchange)
		}
	}
	slices.SortFunc(ids, func(a, b string) int { return cmp.Or(cmp.Compare(weights[b], weights[a]), cmp.Compare(b, a)) })
	return ids[:min(len(ids), mostFound)], nil
}

// satisfies reports whether a turn with some terms satisfies a condition.
func satisfies(terms []string, c *lexical.Condition) bool {
	switch {
	case c.Term != "":
		return slices.Contains(terms, catalog.StoredTerm(c.Term))
	case c.Prefix != "":
		return slices.ContainsFunc(terms, func(t string) bool { return strings.HasPrefix(t, catalog.StoredTerm(c.Prefix)) })
	case c.Not != nil:
		return !satisfies(terms, c.Not)
	case len(c.All) > 0:
		return !slices.ContainsFunc(c.All, func(one lexical.Condition) bool { return !satisfies(terms, &one) })
	}
	return slices.ContainsFunc(c.Any, func(one lexical.Condition) bool { return satisfies(terms, &one) })
}
