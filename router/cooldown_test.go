package router

import (
	"net/http"
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
		header := http.Header{}
		for name, value := range test.header {
			header.Set(name, value)
		}
		if got := untilReady(header, now); got != test.want {
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
