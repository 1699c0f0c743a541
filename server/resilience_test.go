package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/record"
)

// handClock is a clock that a test moves.
type handClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) Sleep(ctx context.Context, d time.Duration) error {
	c.pass(d)
	return ctx.Err()
}

func (c *handClock) pass(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

func TestAFailingProviderIsNotCalledUntilItsPauseIsOver(t *testing.T) {
	clock := &handClock{now: time.Now()}
	var well atomic.Bool
	var asked atomic.Int32
	up := newUpstream(t, func(c *upstreamCall) {
		asked.Add(1)
		if well.Load() {
			c.stream(chatStream)
		}
	})
	h, metrics, _ := observed(t, nil, up.serves, func(p *plan) {
		p.router.Clock = clock
		p.router.Breaker = router.Breaker{Failures: 6, Pause: 30 * time.Second}
	})
	state := func(want float64) {
		t.Helper()
		name := fmt.Sprintf(`mneme_upstream_breaker_state{endpoint="http://%s/v1",provider="openai"}`, up.listener.Addr())
		if got, known := metrics()[name]; got != want || !known {
			t.Errorf("the breaker's state is %v, want %v", got, want)
		}
	}
	for i := range 6 {
		s := []surface{chat, responses}[i%2]
		if a := h.post(s.path, s.body("", i%3 == 0)); a.status != 502 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	state(2)
	clock.pass(10 * time.Second)
	for _, s := range []surface{chat, responses, {messages.name, messages.path, chat.model, messages.format, ""}} {
		for _, stream := range []bool{false, true} {
			a := h.post(s.path, s.body("", stream))
			_, message := errorOf(t, s, a)
			want := http.StatusServiceUnavailable
			if s.name == messages.name {
				want = 529
			}
			if a.status != want || a.header.Get("Retry-After") != "20" || !strings.Contains(message, "left alone for another 20s") {
				t.Errorf("%s: %d %s, retry after %s", s.name, a.status, a.body, a.header.Get("Retry-After"))
			}
			x := h.record(a.exchange())
			if x.Outcome != record.OutcomeUpstreamError || len(x.Attempts) != 1 || x.Attempts[0].Failure != "breaker_open" {
				t.Errorf("%s: on record as %v with %+v", s.name, x.Outcome, x.Attempts)
			}
		}
	}
	if n := asked.Load(); n != 6 {
		t.Errorf("the provider was asked %d times", n)
	}
	// Other providers are not concerned.
	if a := h.post(chat.path, strings.Replace(chat.body(`text "hi"`, false), chat.model, "deepseek-v4-pro", 1)); a.status != 200 {
		t.Errorf("another provider: %d %s", a.status, a.body)
	}

	clock.pass(20 * time.Second)
	well.Store(true)
	for range 2 {
		if a := h.post(chat.path, chat.body("", true)); a.status != 200 || a.cut != nil {
			t.Errorf("after the pause: %d %s", a.status, a.body)
		}
	}
	state(0)
}

func TestWhileABreakerIsOpenTheFallbackAnswersAtOnce(t *testing.T) {
	h, asked := ill(t, chat, func(*upstreamCall) {}, func(p *plan) {
		p.router.Clock = &handClock{now: time.Now()}
		p.router.Breaker = router.Breaker{Failures: 2, Pause: time.Minute}
	})
	for i := range 5 {
		a := h.post(chat.path, chat.body(`text "hi"`, true))
		if a.status != 200 || a.header.Get("X-Service-Fallback") == "" {
			t.Fatalf("%d: %d %s", i, a.status, a.body)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the provider was asked %d times", n)
	}
}

// keyring is a provider with several keys, each of which may be limited.
type keyring struct {
	mu      sync.Mutex
	used    []string
	limited map[string]bool
}

func (k *keyring) serve(c *upstreamCall) {
	key := strings.TrimPrefix(c.request.Header.Get("Authorization"), "Bearer ")
	k.mu.Lock()
	defer k.mu.Unlock()
	k.used = append(k.used, key)
	if k.limited[key] {
		c.write(full(429, "Retry-After: 60\r\n", chat.errorBody("rate_limit_error", "slow down")))
		return
	}
	c.stream(chatStream)
}

func (k *keyring) limit(key string, limited bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.limited = map[string]bool{key: limited}
}

// last returns the keys of the newest n requests.
func (k *keyring) last(n int) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.used[len(k.used)-n:]
}

func TestASessionStaysWithItsKeyWhileThatIsHealthy(t *testing.T) {
	clock := &handClock{now: time.Now()}
	ring := &keyring{}
	up := newUpstream(t, ring.serve)
	h, metrics, _ := observed(t, nil, func(p *plan) {
		up.servesAs(p, "openai")
		openai := p.router.Providers["openai"]
		openai.APIKey, openai.APIKeys = "", []router.APIKey{{Key: serverDefaultKey + "-1"}, {Key: serverDefaultKey + "-2"}}
		p.router.Providers["openai"] = openai
		p.router.Clock = clock
	})
	turn := func(key string) *answer {
		t.Helper()
		a := h.post(chat.path, chat.body("", true), "X-Service-Chat-Key", key)
		if a.status != 200 || a.cut != nil {
			t.Fatalf("%d %s", a.status, a.body)
		}
		return a
	}
	of := map[string]string{}
	for session := range 20 {
		name := fmt.Sprint("session ", session)
		for range 3 {
			turn(name)
		}
		used := ring.last(3)
		if used[0] != used[1] || used[1] != used[2] {
			t.Errorf("%s is served with %q", name, used)
		}
		of[used[0]] = name
	}
	if len(of) != 2 {
		t.Fatalf("20 sessions share %d keys", len(of))
	}

	mine, other := serverDefaultKey+"-1", serverDefaultKey+"-2"
	ring.limit(mine, true)
	a := turn(of[mine])
	if used := ring.last(2); used[0] != mine || used[1] != other {
		t.Errorf("a limited key is followed by %q", used)
	}
	x := h.record(a.exchange())
	if len(x.Attempts) != 2 || x.Attempts[0].Failure != "rate_limited" || x.Attempts[0].Status != 429 || x.Attempts[0].Key != 1 || x.Attempts[1].Key != 2 {
		t.Errorf("on record with %+v", x.Attempts)
	}
	if turn(of[mine]); ring.last(1)[0] != other {
		t.Error("a key that cools down is used")
	}
	await(t, metrics, series{
		`mneme_upstream_retries_total{provider="openai",reason="rate_limited"}`:                                 1,
		`mneme_upstream_cool_downs_total{provider="openai",reason="rate_limited"}`:                              1,
		fmt.Sprintf(`mneme_upstream_keys_ready{endpoint="http://%s/v1",provider="openai"}`, up.listener.Addr()): 1,
	})
	ring.limit(mine, false)
	clock.pass(time.Minute)
	if turn(of[mine]); ring.last(1)[0] != mine {
		t.Error("the session does not return to where its prompt cache is")
	}
	h.noSecrets("the log", h.log.String())
}

// Google says in the body how long to wait, and SDKs of other formats look into the header alone.
func TestTheTimeToWaitReachesTheClientWhereverTheProviderPutsIt(t *testing.T) {
	const asGoogle = `[{"error":{"code":429,"message":"Quota.","status":"RESOURCE_EXHAUSTED","details":[` +
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"31.4s"}]}}]`
	up := newUpstream(t, func(c *upstreamCall) { c.write(full(429, "", asGoogle)) })
	h := build(t, func(p *plan) { up.servesAs(p, "openai") })
	for _, s := range generating {
		for _, stream := range []bool{false, true} {
			body := strings.Replace(s.body("error 429 retry-after=31.4", stream), s.model, "gemini-3.8-flash", 1)
			if a := h.post(s.path, body); a.status != 429 || a.header.Get("Retry-After") != "32" {
				t.Errorf("%s, stream=%t, from Google: %d %s, retry after %q", s.name, stream, a.status, a.body, a.header.Get("Retry-After"))
			}
			if s.owner() != "openai" {
				continue
			}
			if a := h.post(s.path, s.body("", stream)); a.status != 429 || a.header.Get("Retry-After") != "32" || a.body != asGoogle {
				t.Errorf("%s, stream=%t, in its own format: %d %s, retry after %q", s.name, stream, a.status, a.body, a.header.Get("Retry-After"))
			}
		}
	}
}

// Agents repeat a failed request on their own; what cannot be helped elsewhere is left to them.
func TestAFailedRequestIsSentOnceIfThereIsNoOtherEndpoint(t *testing.T) {
	var asked atomic.Int32
	var status atomic.Int32
	up := newUpstream(t, func(c *upstreamCall) {
		asked.Add(1)
		if code := int(status.Load()); code != 0 {
			c.write(full(code, "", chat.errorBody("server_error", "no")))
		}
	})
	h := build(t, up.serves)
	for _, code := range []int32{0, 429, 500, 502, 503, 529} {
		status.Store(code)
		asked.Store(0)
		h.post(chat.path, chat.body("", code%2 == 0))
		if n := asked.Load(); n != 1 {
			t.Errorf("%d: sent %d times", code, n)
		}
	}
}
