package router

import (
	"fmt"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// several is the provider of [compatible] with these keys and endpoints.
func several(keys []APIKey, endpoints []Endpoint) Config {
	c := compatible("")
	host := c.Providers["host"]
	host.APIKey, host.BaseURL, host.APIKeys, host.Endpoints = "", "", keys, endpoints
	c.Providers["host"] = host
	return c
}

func names(at destination) string {
	if at.key == nil {
		return at.endpoint.address
	}
	return at.endpoint.address + " " + at.key.secret
}

// served counts where sessions go.
func served(t testing.TB, p *Provider, sessions int) map[string]int {
	t.Helper()
	count := map[string]int{}
	for i := range sessions {
		at, ok := p.first(&Call{Affinity: Affinity("acme", fmt.Sprint(i))}, p.clock.Now())
		if !ok {
			t.Fatal("there is no place for a call")
		}
		count[names(at)]++
	}
	return count
}

func TestSessionsAreSpreadByWeight(t *testing.T) {
	p := newRouter(t, several(
		[]APIKey{{Key: "a", Weight: 3}, {Key: "b"}},
		[]Endpoint{{BaseURL: "http://one:1"}, {BaseURL: "http://two:1", Weight: 2}, {BaseURL: "http://three:1", APIKey: "own"}},
	)).Provider("host")
	const sessions = 20_000
	got := served(t, p, sessions)
	for where, share := range map[string]float64{
		"one:1 a": 0.75 * 0.25, "one:1 b": 0.25 * 0.25, "two:1 a": 0.75 * 0.5, "two:1 b": 0.25 * 0.5, "three:1 own": 0.25,
	} {
		// Four standard deviations of a binomial share.
		if d := math.Abs(float64(got[where])/sessions - share); d > 4*math.Sqrt(share*(1-share)/sessions) {
			t.Errorf("%s serves %d of %d sessions, want a share of %v", where, got[where], sessions, share)
		}
	}
	if len(got) != 5 {
		t.Errorf("served by %v", got)
	}
}

// A prompt cache is lost with every session that moves.
func TestOnlyTheSessionsOfWhatIsTakenAwayMove(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOfN(rapid.IntRange(1, 5), 2, 6).Draw(t, "weights")
		shares := make([]share, len(weights))
		for i, w := range weights {
			shares[i] = newShare(fmt.Sprint("key", i), w)
		}
		gone := rapid.IntRange(0, len(weights)-1).Draw(t, "gone")
		affinity := rapid.Uint64Min(1).Draw(t, "session")
		nearest := func(without int) int {
			best, least := -1, math.Inf(1)
			for i, s := range shares {
				if d := s.distance(affinity); i != without && d < least {
					best, least = i, d
				}
			}
			return best
		}
		if before, after := nearest(-1), nearest(gone); before != gone && before != after {
			t.Fatalf("the session went from %d to %d when %d was taken away", before, after, gone)
		}
	})
}

func TestASessionIsServedInOnePlaceWhateverTheOrderOfTheConfiguration(t *testing.T) {
	keys := []APIKey{{Key: "a"}, {Key: "b"}, {Key: "c"}}
	ends := []Endpoint{{BaseURL: "http://one:1"}, {BaseURL: "http://two:1"}}
	one := newRouter(t, several(keys, ends)).Provider("host")
	two := newRouter(t, several([]APIKey{keys[2], keys[0], keys[1]}, []Endpoint{ends[1], ends[0]})).Provider("host")
	for i := range 100 {
		c := &Call{Affinity: Affinity("acme", fmt.Sprint(i))}
		a, _ := one.first(c, one.clock.Now())
		b, _ := two.first(c, two.clock.Now())
		if names(a) != names(b) {
			t.Fatalf("session %d goes to %s and to %s", i, names(a), names(b))
		}
	}
	if Affinity("acme", "x") == Affinity("other", "x") || Affinity("ac", "mex") == Affinity("acme", "x") {
		t.Error("accounts share their sessions")
	}
}

func TestCallsWithoutASessionAreSpread(t *testing.T) {
	host := newRouter(t, several([]APIKey{{Key: "a"}, {Key: "b"}}, []Endpoint{{BaseURL: "http://one:1"}})).Provider("host")
	got := map[string]bool{}
	for range 200 { // all the same with probability 2^-199
		at, _ := host.first(&Call{}, host.clock.Now())
		got[names(at)] = true
	}
	if len(got) != 2 {
		t.Errorf("served by %v", got)
	}
}
