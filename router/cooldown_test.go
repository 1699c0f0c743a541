package router

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

func TestTheWaitThatAProviderAsksForIsReadInEveryForm(t *testing.T) {
	now := newHandClock().Now()
	for _, test := range []struct {
		name   string
		header map[string]string
		want   time.Duration
	}{
		{"nothing", nil, 0},
		{"seconds", map[string]string{"Retry-After": "7"}, 7 * time.Second},
		{"parts of seconds", map[string]string{"Retry-After": "0.5"}, 500 * time.Millisecond},
		{"a date", map[string]string{"Retry-After": now.Add(90 * time.Second).Format(http.TimeFormat)}, 90 * time.Second},
		{"a date that is past", map[string]string{"Retry-After": now.Add(-time.Hour).Format(http.TimeFormat)}, 0},
		{"milliseconds before seconds", map[string]string{"Retry-After-Ms": "250", "Retry-After": "1"}, 250 * time.Millisecond},
		{"words", map[string]string{"Retry-After": "soon"}, 0},
		{"below zero", map[string]string{"Retry-After": "-3"}, 0},
		{"no number", map[string]string{"Retry-After": "NaN"}, 0},
		{"for ever", map[string]string{"Retry-After": "1e300"}, maxRetryAfter},
		{"milliseconds for ever", map[string]string{"Retry-After-Ms": "Inf"}, maxRetryAfter},
		{"Anthropic's limit that is used up", map[string]string{
			"Anthropic-Ratelimit-Requests-Remaining": "12", "Anthropic-Ratelimit-Requests-Reset": now.Add(time.Hour).Format(time.RFC3339),
			"Anthropic-Ratelimit-Input-Tokens-Remaining": "0", "Anthropic-Ratelimit-Input-Tokens-Reset": now.Add(42 * time.Second).Format(time.RFC3339),
		}, 42 * time.Second},
		{"OpenAI's limit that is used up", map[string]string{
			"X-Ratelimit-Remaining-Requests": "59", "X-Ratelimit-Reset-Requests": "1h",
			"X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "6m0s",
		}, 6 * time.Minute},
		{"what is asked for before what can be concluded", map[string]string{
			"Retry-After": "3", "X-Ratelimit-Remaining-Tokens": "0", "X-Ratelimit-Reset-Tokens": "6m0s",
		}, 3 * time.Second},
	} {
		var header Header
		for name, value := range test.header {
			header.Set(name, value)
		}
		if got := cmp.Or(retryAfter(header, now), spentLimits(header, now)); got != test.want {
			t.Errorf("%s: %v, want %v", test.name, got, test.want)
		}
	}
}

func TestCoolDownsWithoutATimeDoubleUntilACallSucceeds(t *testing.T) {
	var c coolDown
	clock := newHandClock()
	for _, seconds := range []int{1, 2, 4, 8, 16, 32, 60, 60} {
		c.begin(clock.Now(), 0)
		if got := c.rest(clock.Now()); got.Seconds() != float64(seconds) {
			t.Errorf("%v, want %ds", got, seconds)
		}
		clock.pass(c.rest(clock.Now()))
		if c.rest(clock.Now()) != 0 {
			t.Error("it does not end")
		}
	}
	c.succeeded()
	if c.begin(clock.Now(), 0); c.rest(clock.Now()) != time.Second {
		t.Errorf("after a success it lasts %v", c.rest(clock.Now()))
	}
}

func TestACoolDownIsNeitherShortenedNorEndless(t *testing.T) {
	var c coolDown
	now := newHandClock().Now()
	c.begin(now, 24*time.Hour)
	if got := c.rest(now); got != longestCoolDown {
		t.Errorf("%v is believed", got)
	}
	if c.begin(now, time.Second); c.rest(now) != longestCoolDown {
		t.Error("a later answer shortened it")
	}
}

// says answers with a status and a body, which names the time to wait or does not.
func says(code int, body string, header ...string) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

const retryInfo = `{"error":{"code":429,"message":"Quota.","status":"RESOURCE_EXHAUSTED","details":[` +
	`{"@type":"type.googleapis.com/google.rpc.Help"},{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"31.4s"}]}}`

func TestAKeyRestsForAsLongAsTheBodySays(t *testing.T) {
	for name, test := range map[string]struct {
		answer func(http.ResponseWriter)
		want   time.Duration
	}{
		"Google's detail":               {says(429, retryInfo), 31400 * time.Millisecond},
		"in an array":                   {says(429, "["+retryInfo+"]"), 31400 * time.Millisecond},
		"in words":                      {says(429, `{"error":{"message":"Rate limit reached. Please try again in 6m0s."}}`), 6 * time.Minute},
		"the header before the body":    {says(429, retryInfo, "Retry-After", "7"), 7 * time.Second},
		"the body before the limits":    {says(429, retryInfo, "X-Ratelimit-Remaining-Tokens", "0", "X-Ratelimit-Reset-Tokens", "2s"), 31400 * time.Millisecond},
		"longer than is believed":       {says(402, `{"error":{"message":"try again in 9000h"}}`), longestCoolDown},
		"nothing":                       {says(429, `{"error":{"message":"no"}}`), shortCoolDown},
		"behind what is read of a body": {says(429, strings.Repeat(" ", maxWaitBody)+retryInfo), shortCoolDown},
	} {
		u := newCluster(t, 1, 2)
		first, second := u.favorite("k1", "k2")
		u.answer(first, test.answer)
		u.mustAsk([]string{"e1 " + first, "e1 " + second}, 200)
		if got := u.attempts[0].CoolDown; got != test.want {
			t.Errorf("%s: it rests for %v, want %v", name, got, test.want)
		}
		u.clock.pass(test.want)
		u.mustAsk([]string{"e1 " + first, "e1 " + second}, 200)
	}
}

func TestAnEndpointRestsForAsLongAsTheBodySays(t *testing.T) {
	u := newCluster(t, 2, 1)
	first, second := u.favorite("e1", "e2")
	u.answer(first, says(503, `{"error":{"code":503,"status":"UNAVAILABLE","message":"Overloaded.","details":[`+
		`{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"40s"}]}}`))
	u.mustAsk([]string{first + " k1", second + " k1"}, 200)
	u.well(first)
	u.clock.pass(39 * time.Second)
	u.mustAsk([]string{second + " k1"}, 200)
	u.clock.pass(time.Second)
	u.mustAsk([]string{first + " k1"}, 200)
}

// What was read for the time to wait is still the caller's to read, in every size.
func TestTheBodyOfAnErrorIsHandedOnWhole(t *testing.T) {
	for _, size := range []int{0, 1, maxWaitBody - 1, maxWaitBody, maxWaitBody + 1, 3 * maxWaitBody} {
		u := newCluster(t, 1, 1)
		body := strings.Repeat("x", size)
		u.answer("e1", says(429, body))
		reply, fault := u.provider.Do(t.Context(), chatCall())
		if fault != nil {
			t.Fatal(fault)
		}
		if got, err := readAll(reply); err != nil || got != body {
			t.Errorf("of %d bytes came %d, %v", size, len(got), err)
		}
	}
}

// An error whose end does not come must not hold up the attempt elsewhere, nor the client.
func TestAnErrorThatIsHeldBackIsTakenAsFarAsItCame(t *testing.T) {
	u := newCluster(t, 1, 1)
	end := make(chan struct{})
	defer close(end)
	u.answer("e1", func(w http.ResponseWriter) {
		says(429, `{"error":{"message":"slow`)(w)
		w.(http.Flusher).Flush()
		<-end
	})
	reply, fault := u.provider.Do(t.Context(), chatCall())
	if fault != nil {
		t.Fatal(fault)
	}
	if got, err := readAll(reply); err != nil || got != `{"error":{"message":"slow` || reply.Status != 429 {
		t.Errorf("%d, %q, %v", reply.Status, got, err)
	}
}

func TestACallerWhoLeavesDuringAnErrorEndsTheCall(t *testing.T) {
	u := newCluster(t, 1, 2)
	ctx, leave := context.WithCancel(t.Context())
	u.answer("e1", func(w http.ResponseWriter) {
		says(429, "{")(w)
		w.(http.Flusher).Flush()
		leave()
	})
	c := chatCall()
	c.Observe = func(a Attempt) { u.attempts = append(u.attempts, a) }
	reply, fault := u.provider.Do(ctx, c)
	if len(u.attempts) != 1 {
		t.Errorf("asked %d times", len(u.attempts))
	}
	if fault == nil {
		_, _ = readAll(reply)
	}
}
