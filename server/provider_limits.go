package server

import (
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec/crossing"
)

// What limits are of, as headers name it.
const (
	limitedRequests = "Requests"
	limitedTokens   = "Tokens"
)

// limitAsRead gives a header of a provider as clients of the surface read it, if it tells of a limit in the way of the
// provider's format and has a twin; else it gives it as it is. What Anthropic says of input and output apart has none.
func (x *exchange) limitAsRead(name, value string) (twin, converted string) {
	from, to := &crossing.Traits(x.format).HTTP.Limits, &crossing.Traits(x.surface).HTTP.Limits
	if *from == *to || to.Limit == "" || !strings.Contains(name, "Ratelimit") {
		return name, value
	}
	for _, of := range [...]string{limitedRequests, limitedTokens} {
		switch name {
		case from.Name(from.Limit, of):
			return to.Name(to.Limit, of), value
		case from.Name(from.Remaining, of):
			return to.Name(to.Remaining, of), value
		case from.Name(from.Reset, of):
			if converted, ok := convertReset(value, from.ResetAt, to.ResetAt, x.server.opts.Clock()); ok {
				return to.Name(to.Reset, of), converted
			}
		}
	}
	return name, value
}

// convertReset writes a duration as a moment, or the other way round.
func convertReset(value string, isMoment, wanted bool, now time.Time) (string, bool) {
	switch {
	case isMoment == wanted:
		return value, true
	case wanted:
		return resetTime(value, now)
	}
	return resetDuration(value, now)
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
