package router

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// places are the endpoints of a provider, and the server's keys for them.
type places struct {
	endpoints []*endpoint // at least one
	keys      []*apiKey   // for every endpoint without a key of its own
}

// destination is an endpoint and a key for a call.
type destination struct {
	endpoint *endpoint
	key      *apiKey // nil: the caller's own credential
	trial    trial   // of the endpoint's breaker
}

// candidate is a place with the criteria for choosing it.
type candidate struct {
	destination
	rest              time.Duration // until its cool-downs end
	toEndpoint, toKey float64       // distances from the session
}

// first chooses the place of a first attempt: the nearest healthy one to the session. If all are cooling down it is the
// one that is ready first, since the caller has no other. There is none only if breakers are open everywhere.
func (p *places) first(c *Call, now time.Time) (at destination, ok bool) {
	if at, ok = p.only(c); ok {
		at.trial, ok = at.endpoint.breaker.admit(now, c.Account)
		return at, ok
	}
	candidates := p.candidates(c, now)
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.rest, b.rest), cmp.Compare(a.toEndpoint, b.toEndpoint), cmp.Compare(a.toKey, b.toKey))
	})
	return admitted(c, candidates, now)
}

// another chooses the place of a further attempt, which has to be healthy and untried.
func (p *places) another(c *Call, now time.Time, failed *failedPlaces) (destination, bool) {
	candidates := slices.DeleteFunc(p.candidates(c, now), func(x candidate) bool {
		return x.rest > 0 || slices.Contains(failed.endpoints, x.endpoint) || slices.Contains(failed.keys, x.key)
	})
	slices.SortFunc(candidates, func(a, b candidate) int {
		return cmp.Or(cmp.Compare(a.toEndpoint, b.toEndpoint), cmp.Compare(a.toKey, b.toKey))
	})
	return admitted(c, candidates, now)
}

func admitted(c *Call, candidates []candidate, now time.Time) (destination, bool) {
	for i := range candidates {
		at := candidates[i].destination
		var ok bool
		if at.trial, ok = at.endpoint.breaker.admit(now, c.Account); ok {
			return at, true
		}
	}
	return destination{}, false
}

// only returns the place if there is no choice.
func (p *places) only(c *Call) (destination, bool) {
	e := p.endpoints[0]
	switch {
	case len(p.endpoints) > 1:
		return destination{}, false
	case !c.Credential.IsZero():
		return destination{endpoint: e}, true
	case len(e.keys) == 1:
		return destination{endpoint: e, key: e.keys[0]}, true
	default:
		return destination{}, false
	}
}

func (p *places) candidates(c *Call, now time.Time) []candidate {
	affinity := c.Affinity
	if affinity == 0 {
		affinity = rand.Uint64() //nolint:gosec // spreads load
	}
	all := make([]candidate, 0, len(p.endpoints)*max(len(p.keys), 1))
	for _, e := range p.endpoints {
		x := candidate{destination: destination{endpoint: e}, rest: e.cooling.rest(now), toEndpoint: e.share.distance(affinity)}
		if !c.Credential.IsZero() {
			all = append(all, x)
			continue
		}
		for _, key := range e.keys {
			with := x
			with.key, with.rest, with.toKey = key, max(x.rest, key.cooling.rest(now)), key.share.distance(affinity)
			all = append(all, with)
		}
	}
	return all
}

// rest returns the time until the first of the open breakers admits a call.
func (p *places) rest(c *Call, now time.Time) time.Duration {
	wait := maxBreakerPause
	for _, e := range p.endpoints {
		_, rest := e.breaker.look(now, c.Account)
		wait = min(wait, rest)
	}
	return max(wait.Round(time.Second), time.Second) // a half-open breaker decides in a moment
}

// resting returns the error for a caller while the breakers of all endpoints are open for wait.
func (p *Provider) resting(wait time.Duration) *codec.Error {
	err := p.endpoints[0].faultf(codec.KindOverloaded, nil,
		"%s (%s) is left alone for another %v, because its last calls failed. The records of the exchanges before say why.",
		p.name, p.Address(), wait)
	err.RetryAfter = wait
	return err
}
