package router

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec/failure"
)

// wait returns how long an answer asks to wait before the next request, 0 if it does not. If a limit or lack of
// capacity is the cause and the header does not say, the body may: Google puts it there
// (docs/wire/generate-content.md#5).
func (r *Reply) wait(why Failure, now time.Time) time.Duration {
	if r.Status < http.StatusBadRequest {
		return 0
	}
	wait := retryAfter(r.Header, now)
	if wait == 0 && (why == FailureRateLimited || why == FailureNoCredit || why == FailureOverloaded) {
		wait = believed(failure.Wait(r.Body.readAhead(maxWaitBody, waitBodyTimeout)))
	}
	return wait
}

// retryAfter returns the wait in a header, 0 if there is none: retry-after-ms, else Retry-After as seconds or as a date
// (RFC 9110, section 10.2.3).
func retryAfter(h Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 {
		return believed(time.Duration(min(ms, float64(maxRetryAfter/time.Millisecond)) * float64(time.Millisecond)))
	}
	value := h.Get("Retry-After")
	if seconds, err := strconv.ParseFloat(value, 64); err == nil && seconds >= 0 {
		return believed(time.Duration(min(seconds, maxRetryAfter.Seconds()) * float64(time.Second)))
	}
	if at, err := http.ParseTime(value); err == nil {
		return believed(at.Sub(now))
	}
	return 0
}

func believed(d time.Duration) time.Duration { return min(max(d, 0), maxRetryAfter) }

// spentLimits returns the wait until the last of the used-up limits is reset, by the rate-limit headers, 0 if none is
// used up: Anthropic's give the time (RFC 3339), OpenAI's the duration ("6m0s", "20ms").
func spentLimits(h Header, now time.Time) (wait time.Duration) {
	for _, limit := range []string{"Requests", "Tokens", "Input-Tokens", "Output-Tokens"} {
		if h.Get("Anthropic-Ratelimit-"+limit+"-Remaining") != "0" {
			continue
		}
		if at, err := time.Parse(time.RFC3339, h.Get("Anthropic-Ratelimit-"+limit+"-Reset")); err == nil {
			wait = max(wait, at.Sub(now))
		}
	}
	for _, limit := range []string{"Requests", "Tokens"} {
		if h.Get("X-Ratelimit-Remaining-"+limit) != "0" {
			continue
		}
		if d, err := time.ParseDuration(strings.TrimSpace(h.Get("X-Ratelimit-Reset-" + limit))); err == nil {
			wait = max(wait, d)
		}
	}
	return believed(wait)
}

// maxRetryAfter is the longest wait that is passed on.
const maxRetryAfter = 24 * time.Hour

// Limits on reading an error body for the time to wait: Google's, with every exceeded quota, have some 2 KiB and arrive
// with their header. A provider that holds the rest back for longer is not waited for, so that an attempt elsewhere is
// not delayed.
const (
	maxWaitBody     = 32 << 10
	waitBodyTimeout = 2 * time.Second
)
