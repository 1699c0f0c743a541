package router

import (
	"fmt"
	"hash/fnv"
	"math"
	"net/url"
	"time"
)

// endpoint is one address of a provider, with its health.
type endpoint struct {
	peer     *peer
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

// peer is what the endpoints of a provider have in common.
type peer struct {
	name      string // of the provider
	headers   headerPolicy
	firstByte time.Duration
	idle      time.Duration
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

// urlOf returns the URL of a call to the endpoint, nil if it has no such operation.
func (e *endpoint) urlOf(c *Call) *url.URL {
	if e.wire != nil {
		return e.wire.url(c)
	}
	if c.Operation == Pass {
		return passURL(e.urls.base, c.Path, c.Query)
	}
	return e.urls.of(c)
}
