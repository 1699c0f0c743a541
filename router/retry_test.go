package router

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// A cluster is some endpoints of one provider, each of which answers as a test says, by key.
type cluster struct {
	t         *testing.T
	mu        sync.Mutex
	answers   map[string]http.HandlerFunc // by "endpoint key", "endpoint" or "key"
	asked     []string                    // "endpoint key"
	addresses map[string]string           // by host:port
	clock     *handClock
	provider  *Provider
	router    *Router
	attempts  []Attempt
}

// newCluster has the endpoints e1, e2 … and the keys k1, k2 ….
func newCluster(t *testing.T, endpoints, keys int, change ...func(*Config)) *cluster {
	t.Helper()
	u := &cluster{t: t, answers: map[string]http.HandlerFunc{}, clock: newHandClock(), addresses: map[string]string{}}
	var ends []Endpoint
	for i := range endpoints {
		s := httptest.NewServer(u.endpoint(fmt.Sprintf("e%d", i+1)))
		t.Cleanup(s.Close)
		s.Config.SetKeepAlivesEnabled(false) // a stale pooled connection is another matter
		u.addresses[strings.TrimPrefix(s.URL, "http://")] = fmt.Sprintf("e%d", i+1)
		ends = append(ends, Endpoint{BaseURL: s.URL})
	}
	var list []APIKey
	for i := range keys {
		list = append(list, APIKey{Key: fmt.Sprintf("k%d", i+1)})
	}
	c := several(list, ends)
	c.Clock = u.clock
	for _, f := range change {
		f(&c)
	}
	u.router = newRouter(t, c)
	u.provider = u.router.Provider("host")
	return u
}

func (u *cluster) endpoint(name string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		u.mu.Lock()
		u.asked = append(u.asked, name+" "+key)
		var answer http.HandlerFunc
		for _, of := range []string{name + " " + key, name, key} {
			if answer == nil {
				answer = u.answers[of]
			}
		}
		u.mu.Unlock()
		if answer != nil {
			answer(w, r)
			return
		}
		_, _ = io.WriteString(w, "{}")
	})
}

func (u *cluster) answer(of string, with func(http.ResponseWriter)) {
	u.answerRequest(of, func(w http.ResponseWriter, _ *http.Request) { with(w) })
}

func (u *cluster) answerRequest(of string, with http.HandlerFunc) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.answers[of] = with
}

func (u *cluster) well(of string) { u.answerRequest(of, nil) }

func status(code int, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, `{"error":{"message":"no"}}`)
	}
}

// cut ends the connection without an answer.
func cut(http.ResponseWriter) { panic(http.ErrAbortHandler) }

// call makes a call of one session and says which endpoints and keys were asked, and how it ended.
func (u *cluster) call(change ...func(*Call)) (asked []string, status int, fault *codec.Error) {
	u.t.Helper()
	u.mu.Lock()
	u.asked, u.attempts = nil, nil
	u.mu.Unlock()
	c := chatCall()
	c.Affinity = Affinity("acme", "one session")
	c.Observe = func(a Attempt) { u.attempts = append(u.attempts, a) }
	for _, f := range change {
		f(c)
	}
	reply, fault := u.provider.Do(u.t.Context(), c)
	if reply != nil {
		if _, err := readAll(reply); err != nil {
			u.t.Error(err)
		}
		status = reply.Status
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.asked, status, fault
}

func (u *cluster) mustAsk(want []string, wantStatus int, change ...func(*Call)) {
	u.t.Helper()
	asked, status, fault := u.call(change...)
	if strings.Join(asked, ", ") != strings.Join(want, ", ") || status != wantStatus {
		u.t.Errorf("asked %q and ended with %d, %v; want %q and %d", asked, status, fault, want, wantStatus)
	}
}

// favorite is where the session goes while all is well, and the other place of two.
func (u *cluster) favorite(of ...string) (first, second string) {
	u.t.Helper()
	asked, _, _ := u.call()
	for i, name := range of {
		if strings.Contains(asked[0], name) {
			return name, of[1-i]
		}
	}
	u.t.Fatalf("asked %q", asked)
	return "", ""
}

func TestAKeyThatHasUsedUpItsLimitIsPassedOverUntilItIsReady(t *testing.T) {
	u := newCluster(t, 1, 2)
	first, second := u.favorite("k1", "k2")
	u.answer(first, status(429, "Retry-After", "30"))

	u.mustAsk([]string{"e1 " + first, "e1 " + second}, 200)
	if a := u.attempts; len(a) != 2 || a[0].Failure != FailureRateLimited || a[0].CoolDown != 30*time.Second || !a[0].Retried || a[0].Key == a[1].Key || a[1].Failure != FailureNone {
		t.Errorf("told of %+v", a)
	}
	u.mustAsk([]string{"e1 " + second}, 200)
	u.well(first)
	u.clock.pass(29 * time.Second)
	u.mustAsk([]string{"e1 " + second}, 200)
	u.clock.pass(time.Second)
	u.mustAsk([]string{"e1 " + first}, 200) // where the session's prompt cache is
}

func TestWhenAllKeysCoolDownTheOneThatIsReadyFirstIsAsked(t *testing.T) {
	u := newCluster(t, 1, 2)
	first, second := u.favorite("k1", "k2")
	u.answer(first, status(429, "Retry-After", "60"))
	u.answer(second, status(429, "Retry-After", "20"))
	u.mustAsk([]string{"e1 " + first, "e1 " + second}, 429)
	u.mustAsk([]string{"e1 " + second}, 429) // one request of the client's is one request to the provider
	u.well(second)
	u.mustAsk([]string{"e1 " + second}, 200)
}

func TestKeysThatAreRefusedOrUnpaidArePassedOver(t *testing.T) {
	for code, failure := range map[int]Failure{401: FailureCredentialRefused, 402: FailureNoCredit} {
		u := newCluster(t, 1, 2)
		first, second := u.favorite("k1", "k2")
		u.answer(first, status(code))
		u.mustAsk([]string{"e1 " + first, "e1 " + second}, 200)
		if u.attempts[0].Failure != failure {
			t.Errorf("%d is told as %v", code, u.attempts[0].Failure)
		}
		u.mustAsk([]string{"e1 " + second}, 200)
	}
}

func TestAnEndpointThatFailsIsReplacedByAnother(t *testing.T) {
	for name, test := range map[string]struct {
		answer  func(http.ResponseWriter)
		failure Failure
		rests   bool
	}{
		"500": {status(500), FailureServerError, false},
		"502": {status(502), FailureServerError, false},
		"503": {status(503, "Retry-After", "9"), FailureOverloaded, true},
		"529": {status(529), FailureOverloaded, true},
		"302": {status(302, "Location", "http://elsewhere"), FailureUnreadable, false},
	} {
		u := newCluster(t, 2, 1)
		first, second := u.favorite("e1", "e2")
		u.answer(first, test.answer)
		u.mustAsk([]string{first + " k1", second + " k1"}, 200)
		if a := u.attempts[0]; a.Failure != test.failure || u.addresses[a.Address] != first || (a.CoolDown > 0) != test.rests {
			t.Errorf("%s: told of %+v", name, a)
		}
		want := []string{first + " k1", second + " k1"}
		if test.rests {
			want = want[1:]
		}
		u.mustAsk(want, 200)
	}
}

func TestARequestThatIsAtFaultIsSentOnce(t *testing.T) {
	for _, code := range []int{400, 403, 404, 409, 413, 422} {
		u := newCluster(t, 2, 2)
		u.answer("e1", status(code))
		u.answer("e2", status(code))
		if asked, got, _ := u.call(); len(asked) != 1 || got != code {
			t.Errorf("%d: asked %q, answered %d", code, asked, got)
		}
	}
}

// With another key the same endpoint would fail again.
func TestWhatOnlyTheClientCanWaitForIsLeftToIt(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter){
		"500": status(500), "503": status(503), "529": status(529, "Retry-After", "1"), "cut": cut,
	} {
		u := newCluster(t, 1, 2)
		u.answer("e1", answer)
		if asked, _, _ := u.call(); len(asked) != 1 {
			t.Errorf("%s: asked %q", name, asked)
		}
	}
	u := newCluster(t, 2, 1)
	u.answer("k1", status(429, "Retry-After", "1"))
	if asked, _, _ := u.call(); len(asked) != 1 {
		t.Errorf("a limit of the only key: asked %q", asked)
	}
	u.answer("k1", status(500, "X-Should-Retry", "false"))
	u.clock.pass(time.Second)
	if asked, _, _ := u.call(); len(asked) != 1 {
		t.Errorf("a provider that does not want it: asked %q", asked)
	}
}

func TestTheCallersCredentialIsNeverSwapped(t *testing.T) {
	u := newCluster(t, 2, 2)
	own := func(c *Call) { c.Credential = Credential{Header: "Authorization", Value: "Bearer mine"} }
	for _, code := range []int{401, 402, 429} {
		u.answer("mine", status(code, "Retry-After", "60"))
		if asked, got, _ := u.call(own); len(asked) != 1 || got != code {
			t.Errorf("%d: asked %q, answered %d", code, asked, got)
		}
	}
	u.well("mine")
	asked, _, _ := u.call(own)
	name, _, _ := strings.Cut(asked[0], " ")
	u.answer(name, status(500))
	if asked, got, _ := u.call(own); got != 200 || len(asked) != 2 || !strings.HasSuffix(asked[1], " mine") || u.attempts[1].Key != 0 {
		t.Errorf("at another endpoint: asked %q, answered %d", asked, got)
	}
	for _, h := range u.router.Health() {
		if h.Provider == "host" && (h.Ready != 2 || h.Keys != 2) {
			t.Errorf("the server's keys rest for a caller's: %+v", h)
		}
	}
}

func TestRetriesAreBoundedPerRequest(t *testing.T) {
	for retries, want := range map[int]int{-1: 1, 0: 3, 1: 2, 4: 5} {
		u := newCluster(t, 6, 1, func(c *Config) { c.Retries = retries })
		for i := range 6 {
			u.answer(fmt.Sprintf("e%d", i+1), status(500))
		}
		if asked, got, _ := u.call(); len(asked) != want || got != 500 {
			t.Errorf("retries %d: asked %q, answered %d", retries, asked, got)
		}
	}
}

func TestRetriesStayAFractionOfTheRequests(t *testing.T) {
	u := newCluster(t, 2, 1)
	u.answer("e1", status(500))
	u.answer("e2", status(500))
	const calls = 1000
	sent := 0
	for range calls {
		asked, _, _ := u.call()
		sent += len(asked)
	}
	if most := calls + calls/5 + fullBudget/oneRetry; sent > most || sent < calls+calls/5 {
		t.Errorf("%d requests were sent for %d, want up to %d", sent, calls, most)
	}
}

// refused is an address where nothing listens. A port that was free a moment ago might be taken by another test.
const refused = "http://127.0.0.1:1/v1"

func TestWhatReachedNobodyIsSentOnceMoreAfterAPause(t *testing.T) {
	clock := newHandClock()
	c := compatible(refused)
	c.Clock = clock
	p := newRouter(t, c).Provider("host")
	attempts := 0
	call := chatCall()
	call.Observe = func(a Attempt) {
		if attempts++; a.Failure != FailureUnreachable || a.Status != 0 {
			t.Errorf("told of %+v", a)
		}
	}
	_, err := p.Do(t.Context(), call)
	mustFail(t, err, codec.KindUpstream, "refuses connections")
	if attempts != 2 || len(clock.slept) != 1 || clock.slept[0] < shortestPause || clock.slept[0] > longestPause {
		t.Errorf("%d attempts, pauses %v", attempts, clock.slept)
	}
}

func TestARequestThatMayHaveBeenReadIsSentAgainOnlyWhereThatIsHarmless(t *testing.T) {
	named := fields("Idempotency-Key: one")
	for _, test := range []struct {
		operation Operation
		header    Header
		want      int
	}{{Generate, nil, 1}, {Generate, named, 2}, {Embed, nil, 2}, {ListModels, nil, 2}} {
		for endpoints := 1; endpoints <= 3; endpoints++ {
			u := newCluster(t, endpoints, 1)
			for i := range endpoints {
				u.answer(fmt.Sprintf("e%d", i+1), cut)
			}
			asked, _, fault := u.call(func(c *Call) {
				c.Operation, c.Header = test.operation, test.header
				if test.operation == Embed {
					c.Format = codec.Embeddings
				}
			})
			if len(asked) != test.want || len(u.attempts) != test.want || fault == nil {
				t.Errorf("%v %v at %d endpoints: asked %q, %v", test.operation, test.header, endpoints, asked, fault)
			}
		}
	}
}

func TestACallerWhoLeavesIsNotTriedForElsewhere(t *testing.T) {
	u := newCluster(t, 2, 1)
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	for _, e := range []string{"e1", "e2"} {
		u.answer(e, func(http.ResponseWriter) { leave(); cut(nil) })
	}
	c := chatCall()
	c.Observe = func(a Attempt) { u.attempts = append(u.attempts, a) }
	if _, err := u.provider.Do(ctx, c); err == nil || len(u.attempts) != 1 {
		t.Errorf("%v after %+v", err, u.attempts)
	}
}

func TestAnEndpointThatKeepsFailingIsLeftAloneAndTriedAgain(t *testing.T) {
	u := newCluster(t, 2, 1, func(c *Config) { c.Breaker = Breaker{Failures: 3, Pause: time.Minute} })
	first, second := u.favorite("e1", "e2")
	u.answer(first, status(502))
	for range 3 {
		u.mustAsk([]string{first + " k1", second + " k1"}, 200)
	}
	u.mustAsk([]string{second + " k1"}, 200)
	u.well(first)
	u.clock.pass(time.Minute)
	u.mustAsk([]string{first + " k1"}, 200)
	u.mustAsk([]string{first + " k1"}, 200)
}

func TestWithAllBreakersOpenACallFailsAtOnceAndSaysForHowLong(t *testing.T) {
	u := newCluster(t, 1, 1, func(c *Config) { c.Breaker = Breaker{Failures: 2, Pause: 8 * time.Second} })
	u.answer("e1", status(502))
	u.mustAsk([]string{"e1 k1"}, 502)
	u.mustAsk([]string{"e1 k1"}, 502)
	u.clock.pass(3 * time.Second)
	asked, _, fault := u.call()
	mustFail(t, fault, codec.KindOverloaded, "left alone for another 5s")
	if len(asked) != 0 || fault.RetryAfter != 5*time.Second {
		t.Errorf("asked %q, retry after %v", asked, fault.RetryAfter)
	}
	if len(u.attempts) != 1 || u.attempts[0].Failure != FailureBreakerOpen {
		t.Errorf("told of %+v", u.attempts)
	}
	for _, h := range u.router.Health() {
		if (h.Breaker == BreakerOpen) != (h.Provider == "host") {
			t.Errorf("%+v", h)
		}
	}
	u.well("e1")
	u.clock.pass(5 * time.Second)
	u.mustAsk([]string{"e1 k1"}, 200)
}

// One client's request that a provider cannot digest must not shut the others out.
func TestErrorsThatMayBeTheRequestsDoNotOpenABreaker(t *testing.T) {
	for _, code := range []int{400, 401, 404, 429, 500, 529} {
		u := newCluster(t, 1, 1, func(c *Config) { c.Breaker = Breaker{Failures: 2} })
		u.answer("e1", status(code))
		for range 10 {
			if asked, _, _ := u.call(); len(asked) != 1 {
				t.Fatalf("%d: asked %q", code, asked)
			}
		}
	}
}

// The endpoint may be at work all the same.
func TestALimitOnTheFirstByteLeadsToAnotherEndpointOnlyWhereThatIsHarmless(t *testing.T) {
	end := make(chan struct{})
	defer close(end)
	for name, test := range map[string]struct {
		header Header
		want   int // requests
		status int
	}{
		"unnamed": {nil, 1, 0},
		"named":   {fields("Idempotency-Key: one"), 2, 200},
	} {
		// The first endpoint has to be reached within the limit, and the other one to answer. Where the machine has no time
		// for that, a longer one is tried.
		for limit := 50 * time.Millisecond; ; limit *= 2 {
			u := newCluster(t, 2, 1)
			first, second := u.favorite("e1", "e2")
			u.provider.firstByte = limit
			u.answer(first, func(http.ResponseWriter) { <-end })
			asked, status, fault := u.call(func(c *Call) { c.Header = test.header })
			want := []string{first + " k1", second + " k1"}[:test.want]
			if (status != test.status || !slices.Equal(asked, want)) && limit < timeout {
				continue
			}
			if !slices.Equal(asked, want) || status != test.status {
				t.Errorf("%s: asked %q and ended with %d, %v; want %q and %d", name, asked, status, fault, want, test.status)
			}
			if u.attempts[0].Failure != FailureNoFirstByte {
				t.Errorf("%s: told of %+v", name, u.attempts[0])
			}
			break
		}
	}
}

func TestChainsOfFallbacksAreCheckedAtTheStart(t *testing.T) {
	for want, list := range map[string][]Fallback{
		"needs both model and to":       {{Model: "m1"}},
		"has fallbacks already":         {{Model: "m1", To: []string{"m2"}}, {Model: "m1", To: []string{"m3"}}},
		"stands in this chain already":  {{Model: "m1", To: []string{"m1"}}},
		"No provider is known for":      {{Model: "m1", To: []string{"llama"}}},
		`"m2" stands in this chain alr`: {{Model: "m1", To: []string{"m2", "m2"}}},
	} {
		c := compatible("http://127.0.0.1:1")
		c.Fallbacks = list
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: %v", list, err)
		}
	}
	c := compatible("http://127.0.0.1:1")
	c.Aliases = []Alias{{Model: "fast", To: "m1"}}
	c.Fallbacks = []Fallback{{Model: "m1", To: []string{"m2", "fast"}}}
	r := newRouter(t, c)
	for _, model := range []string{"m1", "fast"} {
		if chain := r.Fallbacks(place(t, r, model)); len(chain) != 2 || chain[0].Model != "m2" || chain[1].Model != "m1" {
			t.Errorf("%s: %+v", model, chain)
		}
	}
	if chain := r.Fallbacks(place(t, r, "m2")); chain != nil {
		t.Errorf("m2: %+v", chain)
	}
}
