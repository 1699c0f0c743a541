package server_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store"
)

// hands are a clock that tests set, for the store and the server.
type hands struct {
	mu sync.Mutex
	at time.Time
}

func (h *hands) now() time.Time {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.at
}

func (h *hands) turn(d time.Duration) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.at = h.at.Add(d)
}

// timed is a harness whose clock is in the test's hands.
func timed(t *testing.T, changes ...func(*plan)) (*harness, *hands) {
	clock := &hands{at: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
	return build(t, append(changes, func(p *plan) { p.server.Clock, p.store.Clock = clock.now, clock.now })...), clock
}

// limit makes a key with limits of its own the harness's key, and gives its id.
func (h *harness) limit(l store.Limits) (id string) {
	h.t.Helper()
	secret, key, err := h.store.Keys().Create("acme", store.ScopeWrite, "limited", func(k *store.Key) { k.Limits = l })
	ok(h.t, err)
	h.key = secret
	return key.ID
}

// monthTokens is what was used with a key this month, as lists show it.
func (h *harness) monthTokens(id string) int64 {
	for _, k := range h.store.Keys().List("acme") {
		if k.ID == id {
			return k.MonthTokens
		}
	}
	return -1
}

func TestRequestsOverTheLimitOfTheirKeyAreToldWhenToRetry(t *testing.T) {
	h, clock := timed(t)
	other := h.key
	for _, s := range surfaces {
		h.limit(store.Limits{RequestsPerMinute: 2})
		for i := range 2 {
			if a := h.post(s.path, s.body(`text "hi"`, i == 1)); a.status != 200 {
				t.Fatalf("%s, request %d: %d %s", s.name, i, a.status, a.body)
			}
		}
		asked := len(h.provider.Requests())
		a := h.post(s.path, s.body(`text "hi"`, true))
		kind, message := errorOf(t, s, a)
		if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "30" || !strings.Contains(message, "2 requests a minute") {
			t.Errorf("%s: %d, %q: %s %q", s.name, a.status, a.header.Get("Retry-After"), kind, message)
		}
		if len(h.provider.Requests()) != asked {
			t.Errorf("%s: the provider was asked", s.name)
		}
		if a := h.post(s.path, s.body(`text "hi"`, false), "Authorization", "Bearer "+other); a.status != 200 {
			t.Errorf("%s: a key without limits: %d", s.name, a.status)
		}
		clock.turn(30 * time.Second)
		if a := h.post(s.path, s.body(`text "hi"`, false)); a.status != 200 {
			t.Errorf("%s, after the wait: %d %s", s.name, a.status, a.body)
		}
	}
}

func TestAnswersReportWhatIsLeftOfTheLimits(t *testing.T) {
	h, _ := timed(t)
	for _, s := range surfaces {
		for _, stream := range []bool{false, true} {
			h.limit(store.Limits{RequestsPerMinute: 60, TokensPerMinute: 6000})
			body := s.body(`text "hi"`, stream)
			left := 6000 - len(body)/4 - 1
			want := map[string]string{
				"X-Ratelimit-Limit-Requests": "60", "X-Ratelimit-Remaining-Requests": "59", "X-Ratelimit-Reset-Requests": "1s",
				"X-Ratelimit-Limit-Tokens": "6000", "X-Ratelimit-Remaining-Tokens": fmt.Sprint(left),
				"X-Ratelimit-Reset-Tokens": (time.Duration(6000-left) * 10 * time.Millisecond).String(),
			}
			if s.name == "messages" {
				want = map[string]string{
					"Anthropic-Ratelimit-Requests-Limit": "60", "Anthropic-Ratelimit-Requests-Remaining": "59",
					"Anthropic-Ratelimit-Requests-Reset": "2026-11-20T12:00:01Z", "Anthropic-Ratelimit-Tokens-Limit": "6000",
					"Anthropic-Ratelimit-Tokens-Remaining": fmt.Sprint(left), "X-Ratelimit-Limit-Requests": "",
				}
			}
			a := h.post(s.path, body)
			for name, value := range want {
				if got := a.header.Get(name); got != value {
					t.Errorf("%s, stream %t: %s is %q, want %q", s.name, stream, name, got, value)
				}
			}
		}
	}
}

func TestTokensCountAsTheProviderCountsThem(t *testing.T) {
	h, clock := timed(t)
	h.limit(store.Limits{TokensPerMinute: 6000})
	h.post(messages.path, messages.body("usage input=3000 cached=2000 written=500 output=7000", true))
	eventually(t, func() error { // the exchange is counted when it has ended
		a := h.post(messages.path, messages.body("", false))
		if a.status != http.StatusTooManyRequests {
			return fmt.Errorf("4,000 tokens over the limit: %d", a.status)
		}
		if a.header.Get("Retry-After") != "41" { // and the prompt of this one
			t.Errorf("come back in %s s", a.header.Get("Retry-After"))
		}
		return nil
	})
	clock.turn(41 * time.Second)
	if a := h.post(messages.path, messages.body("", false)); a.status != 200 {
		t.Errorf("after the wait: %d %s", a.status, a.body)
	}
}

func TestConcurrentExchangesAreLimited(t *testing.T) {
	h, _ := timed(t, func(p *plan) { p.server.Heartbeat = 10 * time.Millisecond }) // the first exchange is seen to be open by its sign of life
	h.limit(store.Limits{Concurrent: 1})
	ctx, leave := context.WithCancel(context.Background())
	defer leave()
	response, err := h.client.Do(h.request(ctx, http.MethodPost, chat.path, chat.body(`delay first=1h`, true), "Authorization", "Bearer "+h.key))
	ok(t, err)
	a := h.post(responses.path, responses.body("", false))
	if _, message := errorOf(t, responses, a); a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "1" || !strings.Contains(message, "1 exchange") {
		t.Errorf("a second one: %d %q", a.status, message)
	}
	leave()
	_ = response.Body.Close()
	eventually(t, func() error {
		if a := h.post(responses.path, responses.body("", false)); a.status != 200 {
			return fmt.Errorf("after the first has ended: %d %s", a.status, a.body)
		}
		return nil
	})
}

func TestABudgetLastsForTheMonth(t *testing.T) {
	h, clock := timed(t)
	id := h.limit(store.Limits{TokensPerMonth: 1000})
	h.post(messages.path, messages.body("usage input=900 output=100", false))
	eventually(t, func() error {
		if got := h.monthTokens(id); got != 1000 {
			return fmt.Errorf("%d tokens are counted, want 1000", got)
		}
		return nil
	})
	for _, s := range surfaces {
		a := h.post(s.path, s.body("", true))
		_, message := errorOf(t, s, a)
		want := http.StatusTooManyRequests
		if s.name == "messages" {
			want = http.StatusPaymentRequired // as Anthropic says it
		}
		if a.status != want || a.header.Get("X-Should-Retry") != "false" || !strings.Contains(message, "1 December 2026") {
			t.Errorf("%s: %d %v %q", s.name, a.status, a.header, message)
		}
	}
	clock.turn(11 * 24 * time.Hour)
	if a := h.post(chat.path, chat.body("", false)); a.status != 200 {
		t.Errorf("in December: %d %s", a.status, a.body)
	}
}

// However many calls come at once, the budget is exceeded by one of them at most.
func TestParallelCallsShareTheBudgetOfTheMonth(t *testing.T) {
	h, _ := timed(t)
	id := h.limit(store.Limits{TokensPerMonth: 100})
	body := messages.body("delay header=100ms; usage input=6 output=6", false)
	answers := make([]*answer, 60)
	var calls sync.WaitGroup
	for i := range answers {
		calls.Go(func() { answers[i] = h.post(messages.path, body) })
	}
	calls.Wait()
	passed := int64(0)
	for _, a := range answers {
		switch {
		case a.status == http.StatusOK:
			passed++
		case a.status == http.StatusPaymentRequired && a.header.Get("X-Should-Retry") == "false": // used up by now
		case a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != "1" || !strings.Contains(a.body, "reserved"):
			t.Errorf("%d %v %s", a.status, a.header, a.body)
		}
	}
	if passed == 0 || passed > 9 {
		t.Errorf("%d calls of 12 tokens passed of a budget of 100", passed)
	}
	eventually(t, func() error {
		if got := h.monthTokens(id); got != 12*passed {
			return fmt.Errorf("%d tokens are counted, want %d", got, 12*passed)
		}
		return nil
	})
	if n := len(h.records("acme")); n != int(passed) {
		t.Errorf("%d exchanges are on record, %d passed", n, passed)
	}
	if a := h.post(messages.path, body); passed < 9 && a.status != http.StatusOK {
		t.Errorf("what was reserved is not given back: %d %s", a.status, a.body)
	}
}

// longest is what a model writes at most where its request sets no limit.
const longest = 32_000

// The provider reads a prompt, and bills it and what it has thought, whether or not its sender waits for the answer.
func TestLeavingBeforeTheFirstByteIsNotFree(t *testing.T) {
	for _, stream := range []bool{false, true} {
		h, _ := timed(t)
		id := h.limit(store.Limits{TokensPerMonth: 1e6})
		body := chat.body("delay header=1h", stream)
		const callers = 4
		ctx, leave := context.WithCancel(context.Background())
		var calls sync.WaitGroup
		for range callers {
			calls.Go(func() {
				if response, err := h.client.Do(h.request(ctx, http.MethodPost, chat.path, body, "Authorization", "Bearer "+h.key)); err == nil {
					_ = response.Body.Close()
				}
			})
		}
		eventually(t, func() error {
			if n := len(h.provider.Requests()); n != callers {
				return fmt.Errorf("the provider has %d requests", n)
			}
			return nil
		})
		leave()
		calls.Wait()
		want := int64(callers * (len(body)/4 + 1 + longest))
		eventually(t, func() error {
			if got := h.monthTokens(id); got != want {
				return fmt.Errorf("stream %t: %d tokens are counted, want %d", stream, got, want)
			}
			return nil
		})
	}
}

// A host may not tell usage, though it was asked for it. How much the model thought is then unknown.
func TestALimitCountsAnAnswerWithoutUsageAsTheLongest(t *testing.T) {
	h, _ := timed(t)
	id := h.limit(store.Limits{TokensPerMonth: 1e6})
	body := chat.body(`text "one two three four five six seven eight nine ten"; omit usage`, true)
	a := h.post(chat.path, body)
	if strings.Contains(a.body, `"usage":{`) {
		t.Fatalf("the provider tells usage: %s", a.body)
	}
	want := int64(len(body)/4 + 1 + longest)
	eventually(t, func() error {
		if got := h.monthTokens(id); got != want {
			return fmt.Errorf("%d tokens are counted, want %d", got, want)
		}
		return nil
	})
}

func TestLimitsOfTheServerAreForKeysWithoutTheirOwn(t *testing.T) {
	h, metrics, log := observed(t, nil, func(p *plan) { p.server.KeyLimits = store.Limits{RequestsPerMinute: 1} })
	h.post(chat.path, chat.body("", false))
	for range 3 {
		if a := h.post(chat.path, chat.body("", false)); a.status != http.StatusTooManyRequests {
			t.Errorf("a second request: %d", a.status)
		}
	}
	if n := len(h.records("acme")); n != 1 {
		t.Errorf("%d exchanges are on record: those that were turned away are not to be", n)
	}
	eventually(t, func() error {
		if got := metrics()[`mneme_limited_total{limit="requests_per_minute"}`]; got != 3 {
			return fmt.Errorf("%v requests are counted as limited", got)
		}
		return nil
	})
	h.limit(store.Limits{RequestsPerMinute: store.Unlimited})
	for range 3 {
		if a := h.post(chat.path, chat.body("", false)); a.status != 200 {
			t.Errorf("a key that is to have no limit: %d", a.status)
		}
	}
	h.proxy.LimitKeys(store.Limits{})
	h.limit(store.Limits{})
	for range 3 {
		if a := h.post(chat.path, chat.body("", false)); a.status != 200 {
			t.Errorf("with the server's limit taken away: %d", a.status)
		}
	}
	h.noSecrets("the log", log.String())
}

func TestAnExpiredKeyOpensNothing(t *testing.T) {
	h, clock := timed(t)
	secret, _, err := h.store.Keys().Create("acme", store.ScopeWrite, "", func(k *store.Key) { k.Expires = clock.now().Add(time.Hour) })
	ok(t, err)
	h.key = secret
	if a := h.post(chat.path, chat.body("", false)); a.status != 200 {
		t.Fatal(a.status)
	}
	clock.turn(time.Hour)
	a := h.post(chat.path, chat.body("", false))
	if _, message := errorOf(t, chat, a); a.status != http.StatusUnauthorized || !strings.Contains(message, "expired on") {
		t.Errorf("%d %q", a.status, message)
	}
}
