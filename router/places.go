package router

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"slices"
	"time"
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

// newPlaces makes the endpoints of a provider, at least one. at makes one without keys and URLs. Errors begin with the
// setting.
func newPlaces(name string, row *Dialect, c *ProviderConfig, at func(*url.URL) *endpoint) (p places, err error) {
	list, err := c.keyConfig()
	if err != nil {
		return p, err
	}
	if len(list) == 1 && len(c.APIKeys) == 0 && !validHeaderValue(c.APIKey) {
		return p, errors.New("api_key holds a line break or another character that cannot stand in a header")
	}
	if p.keys, err = newKeys(list); err != nil {
		return p, err
	}
	if len(c.Endpoints) == 0 {
		base, err := baseURL(c.BaseURL, lookupDialect(name), row)
		if err == nil {
			err = p.add(at(base), base, row, p.keys, 1)
		}
		if err != nil {
			return p, fmt.Errorf("base_url %w", err)
		}
		return p, nil
	}
	if c.BaseURL != "" {
		return p, errors.New("endpoints: base_url is set as well; move it into the list, or remove one of them")
	}
	number := len(p.keys)
	for i, e := range c.Endpoints {
		keys := p.keys
		if e.APIKey != "" {
			if !validHeaderValue(e.APIKey) {
				return p, fmt.Errorf("endpoints[%d].api_key holds a line break or another character that cannot stand in a header", i)
			}
			number++
			keys = []*apiKey{{secret: e.APIKey, number: number, share: newShare(e.APIKey, 1)}}
		}
		base, err := parseBaseURL(e.BaseURL)
		if err == nil {
			err = p.add(at(base), base, row, keys, e.Weight)
		}
		if err != nil {
			return p, fmt.Errorf("endpoints[%d].base_url %w", i, err)
		}
	}
	return p, nil
}

func (p *places) add(e *endpoint, base *url.URL, row *Dialect, keys []*apiKey, weight int) error {
	paths, err := newURLs(base, row)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(p.endpoints, func(e *endpoint) bool { return *e.urls.base == *base }) {
		return errors.New("is that of another endpoint already: give it a weight there, and its keys under api_keys")
	}
	e.urls, e.keys, e.share = paths, keys, newShare(base.String(), weight)
	p.endpoints = append(p.endpoints, e)
	return nil
}

// failedPlaces are the places where a call must not be tried again.
type failedPlaces struct {
	endpoints  []*endpoint
	keys       []*apiKey
	unanswered bool // a request of the call was sent, and not answered
}

// baseURL returns the configured URL, else that of the row with the provider's name, else that of its dialect.
func baseURL(configured string, own, row *Dialect) (*url.URL, error) {
	switch {
	case configured != "":
		return parseBaseURL(configured)
	case own != nil && own.BaseURL != "":
		return parseBaseURL(own.BaseURL)
	case row.BaseURL != "":
		return parseBaseURL(row.BaseURL)
	default:
		return nil, errors.New("is missing: give the URL that SDKs take for this host, such as http://127.0.0.1:8000/v1")
	}
}
