package server

import (
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// Answers tell how far the provider's limits are in headers that OpenAI's clients and Anthropic's call differently
// (docs/wire/chat-completions.md#4.4, docs/wire/messages.md#5). The names are canonical. What Anthropic tells of input and
// output apart has no twin.
var (
	anthropicLimitNames = map[string]string{ //nolint:gosec // names of headers, no credentials
		"X-Ratelimit-Limit-Requests":     "Anthropic-Ratelimit-Requests-Limit",
		"X-Ratelimit-Remaining-Requests": "Anthropic-Ratelimit-Requests-Remaining",
		"X-Ratelimit-Reset-Requests":     "Anthropic-Ratelimit-Requests-Reset",
		"X-Ratelimit-Limit-Tokens":       "Anthropic-Ratelimit-Tokens-Limit",
		"X-Ratelimit-Remaining-Tokens":   "Anthropic-Ratelimit-Tokens-Remaining",
		"X-Ratelimit-Reset-Tokens":       "Anthropic-Ratelimit-Tokens-Reset",
	}
	openAILimitNames = inverted(anthropicLimitNames)
)

func inverted(names map[string]string) map[string]string {
	inverse := make(map[string]string, len(names))
	for name, twin := range names {
		inverse[twin] = name
	}
	return inverse
}

// limitAsRead gives a header of a provider as clients of the surface read it, if it tells of a limit in the way of the other
// ones and has a twin; else it gives it as it is.
func (x *exchange) limitAsRead(name, value string) (twin, converted string) {
	var twins map[string]string
	var reset func(value string, now time.Time) (string, bool)
	switch {
	case x.format == x.surface:
		return name, value
	case x.surface == codec.Messages:
		twins, reset = anthropicLimitNames, resetTime
	case x.format == codec.Messages:
		twins, reset = openAILimitNames, resetDuration
	}
	twin, ok := twins[name]
	converted = value
	if ok && strings.Contains(name, "-Reset") {
		converted, ok = reset(value, x.server.opts.Clock())
	}
	if !ok {
		return name, value
	}
	return twin, converted
}

// resetTime is when a limit is whole again (RFC 3339) that is so after a duration, such as "6m0s" or "12ms". It is not early.
func resetTime(duration string, now time.Time) (string, bool) {
	d, err := time.ParseDuration(duration)
	if err != nil || d < 0 {
		return "", false
	}
	return now.Add(d + time.Second - 1).UTC().Format(time.RFC3339), true
}

// resetDuration is the time left until a limit is whole again.
func resetDuration(at string, now time.Time) (string, bool) {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return "", false
	}
	return max(t.Sub(now), 0).Round(time.Millisecond).String(), true
}
