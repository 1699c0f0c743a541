package router

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"net/url"
	"slices"
)

// An APIKey is one of several credentials that the server has for a provider.
type APIKey struct {
	Key    string
	Weight int // share of the sessions served with it; 0 means 1
}

// String keeps the key out of logs.
func (APIKey) String() string { return "[redacted]" }

// GoString keeps the key out of logs.
func (k APIKey) GoString() string { return k.String() }

// An Endpoint is one of several addresses at which a provider serves the same models.
type Endpoint struct {
	BaseURL string
	APIKey  string // for this endpoint only; "" for the provider's keys
	Weight  int    // share of the sessions served there; 0 means 1
}

// String keeps the key out of logs.
func (e Endpoint) String() string { return "endpoint at " + e.BaseURL }

// GoString keeps the key out of logs.
func (e Endpoint) GoString() string { return e.String() }

// endpoint is one address of a provider, with its health.
type endpoint struct {
	provider *Provider
	address  string // host:port, for messages to people
	upstream upstream
	uploads  *transport // for bodies that are sent as they arrive
	urls     urls
	wire     wire      // nil: that of the dialect
	keys     []*apiKey // empty: callers bring their own
	share    share
	breaker  breaker
	cooling  coolDown
}

// apiKey is one of the server's credentials, with its state.
type apiKey struct {
	secret  string
	number  int // in the configuration, from 1: the provider's first, then those of its endpoints
	share   share
	cooling coolDown
}

// share decides which sessions something serves, and how many.
type share struct {
	seed   uint64
	weight float64
}

// newShare makes the share of something, identified by its name: sessions stay where they are when something else is
// added, removed or reordered.
func newShare(name string, weight int) share {
	h := fnv.New64a()
	_, _ = h.Write([]byte(name))
	return share{seed: h.Sum64(), weight: float64(max(weight, 1))}
}

// distance returns how far the share is from a session. The nearest of several serves it: over all sessions, each is
// the nearest in proportion to its weight (weighted rendezvous hashing).
func (s share) distance(affinity uint64) float64 {
	// 53 bits fill a float64's mantissa; 1 keeps the logarithm away from 0.
	u := (float64(mixed(affinity^s.seed)>>11) + 1) / (1<<53 + 1)
	return -math.Log(u) / s.weight
}

// mixed spreads every bit of x over all of the result (the finalizer of SplitMix64).
func mixed(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// Affinity returns a hash for what is served in one healthy place, so that a provider's prompt cache, which is per
// credential and host, keeps hitting. It is the same in every process, and never 0.
func Affinity(account, session string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(account))
	_, _ = h.Write([]byte{0})
	_, _ = h.Write([]byte(session))
	return max(h.Sum64(), 1)
}

// keyConfig returns all keys that may open any endpoint.
func (c *ProviderConfig) keyConfig() ([]APIKey, error) {
	switch {
	case len(c.APIKeys) == 0 && c.APIKey == "":
		return nil, nil
	case len(c.APIKeys) == 0:
		return []APIKey{{Key: c.APIKey}}, nil
	case c.APIKey != "":
		return nil, errors.New("api_keys: api_key is set as well; move it into the list, or remove one of them")
	default:
		return c.APIKeys, nil
	}
}

func newKeys(list []APIKey) ([]*apiKey, error) {
	keys := make([]*apiKey, len(list))
	for i, k := range list {
		switch {
		case k.Key == "":
			return nil, fmt.Errorf("api_keys[%d].key is empty", i)
		case !validHeaderValue(k.Key):
			return nil, fmt.Errorf("api_keys[%d].key holds a line break or another character that cannot stand in a header", i)
		}
		keys[i] = &apiKey{secret: k.Key, number: i + 1, share: newShare(k.Key, k.Weight)}
	}
	return keys, nil
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
