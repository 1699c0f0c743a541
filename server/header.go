package server

import (
	"cmp"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/quota"
)

// header sets the headers of the answer, complete or streamed.
func (r providerReply) header() {
	r.x.providerHeader(r.Header)
	if r.RetryAfter > 0 && r.Header.Get("Retry-After") == "" { // not every client looks for it in the body
		r.x.answer.out.SetRetryAfter(r.RetryAfter)
	}
	r.x.ourHeader()
}

func (x *exchange) ourHeader() {
	if x.allowance.pass != nil {
		x.allowance.announce(x.answer.out, x.request.surface)
	}
	if x.recording.capture != nil {
		x.answer.out.Set(headerExchangeID, x.recording.capture.ID())
		x.recording.nameSession(x.answer.out)
		switch {
		case x.recording.capture.Shed():
			x.answer.out.Set(headerCapture, "shed")
		case x.recording.off:
			x.answer.out.Set(headerCapture, "off")
		case x.request.asksOffRecord():
			x.answer.out.Set(headerCapture, "on") // the caller asked for another value
		}
	}
	if x.route.placement.Provider != nil && x.route.placement.Provider.Simulated() {
		x.answer.out.Set(headerSimulated, "true")
	}
	if x.route.fallback {
		x.answer.out.Set(headerFallback, x.request.masked(x.route.placement.Asked))
	}
}

// Bounds on relayed provider headers. Providers send some twenty fields that clients read; clients fail at a hundred
// fields in all (Python's http.client) or at 16 KB (Node.js).
const (
	mostRelayed  = 64
	relayedBytes = 8 << 10 // names and values
)

// providerHeader relays the fields of a provider's header that clients read. If they are too many, those that clients
// act on go first.
func (x *exchange) providerHeader(header router.Header) {
	fields, size := make(router.Header, 0, 24), 0 // on the stack
	for _, f := range header {
		if router.PassesDownstream(f.Name) || x.request.passing != nil && router.PassesBack(f.Name) {
			fields = append(fields, f)
			size += len(f.Name) + len(f.Value)
		}
	}
	if len(fields) > mostRelayed || size > relayedBytes {
		fields = withinBounds(fields)
	}
	from, to := &crossing.Traits(x.route.format).HTTP.Limits, &crossing.Traits(x.request.surface).HTTP.Limits
	for _, f := range fields {
		x.answer.out.Add(limitAsRead(from, to, f.Name, x.request.redactor.Known(f.Value), x.proxy.opts.Clock))
	}
}

// withinBounds returns the fields to relay if there are too many.
func withinBounds(fields router.Header) (kept router.Header) {
	slices.SortFunc(fields, func(a, b router.Field) int {
		return cmp.Or(importance(a.Name)-importance(b.Name), strings.Compare(a.Name, b.Name), strings.Compare(a.Value, b.Value))
	})
	size := 0
	for _, f := range fields {
		if size+len(f.Name)+len(f.Value) > relayedBytes {
			continue
		}
		if kept = append(kept, f); len(kept) == mostRelayed {
			break
		}
		size += len(f.Name) + len(f.Value)
	}
	return kept
}

// importance ranks the fields of a provider's header, the most important first.
func importance(name string) int {
	switch {
	case strings.HasSuffix(name, "Request-Id"), name == "X-Ds-Trace-Id", strings.HasPrefix(name, "Retry-After"), name == "X-Should-Retry":
		return 0
	case strings.Contains(name, "Ratelimit-"), name == "Openai-Processing-Ms", strings.HasPrefix(name, "X-Codex-"):
		return 1
	}
	return 2
}

// jsonType returns the content type of a JSON answer: the provider's own if it is JSON, in the encoding that JSON
// requires.
func jsonType(header router.Header) string {
	said := header.Get("Content-Type")
	if said == "application/json" || said == "application/json; charset=utf-8" {
		return said // the usual value
	}
	media, parameters, err := mime.ParseMediaType(said)
	if err != nil || media != "application/json" {
		return "application/json"
	}
	for name, value := range parameters {
		if name != "charset" || !strings.EqualFold(value, "utf-8") {
			return "application/json"
		}
	}
	return said
}

// The quantities that limits are of, as headers name them.
const (
	limitedRequests = "Requests"
	limitedTokens   = "Tokens"
)

// limitAsRead converts a provider's limit header to the one that clients of the surface read, if there is an
// equivalent; else it returns it unchanged. Anthropic's separate limits for input and output have none.
func limitAsRead(from, to *codec.LimitHeaders, name, value string, now func() time.Time) (twin, converted string) {
	if *from == *to || to.Limit == "" || !strings.Contains(name, "Ratelimit") {
		return name, value
	}
	for _, of := range [...]string{limitedRequests, limitedTokens} {
		switch {
		case from.Is(name, from.Limit, of):
			return to.Name(to.Limit, of), value
		case from.Is(name, from.Remaining, of):
			return to.Name(to.Remaining, of), value
		case from.Is(name, from.Reset, of):
			if converted, ok := convertReset(value, from.ResetAt, to.ResetAt, now()); ok {
				return to.Name(to.Reset, of), converted
			}
		}
	}
	return name, value
}

// convertReset converts a duration to a time, or the reverse.
func convertReset(value string, isMoment, wanted bool, now time.Time) (string, bool) {
	switch {
	case isMoment == wanted:
		return value, true
	case wanted:
		return resetTime(value, now)
	}
	return resetDuration(value, now)
}

// resetTime returns the time (RFC 3339) after a duration such as "6m0s" or "12ms", rounded up.
func resetTime(duration string, now time.Time) (string, bool) {
	d, err := time.ParseDuration(duration)
	if err != nil || d < 0 {
		return "", false
	}
	return now.Add(d + time.Second - 1).UTC().Format(time.RFC3339), true
}

// resetDuration returns the time left until a limit is reset.
func resetDuration(at string, now time.Time) (string, bool) {
	t, err := time.Parse(time.RFC3339, at)
	if err != nil {
		return "", false
	}
	return max(t.Sub(now), 0).Round(time.Millisecond).String(), true
}

// announce tells the caller how much of its limits is left, in place of the provider's limits for our credential.
func (a *allowance) announce(out *edge.Response, surface codec.Format) {
	now, names := a.proxy.opts.Clock(), &crossing.Traits(surface).HTTP.Limits
	for _, window := range [...]struct {
		of string
		quota.Window
	}{{limitedRequests, a.pass.Standing.Requests}, {limitedTokens, a.pass.Standing.Tokens}} {
		if window.Limit == 0 {
			continue
		}
		out.Set(names.Name(names.Limit, window.of), strconv.FormatInt(window.Limit, 10))
		out.Set(names.Name(names.Remaining, window.of), strconv.FormatInt(window.Remaining, 10))
		reset := window.Reset.Round(time.Millisecond).String()
		if names.ResetAt {
			reset = now.Add(window.Reset).UTC().Format(time.RFC3339)
		}
		out.Set(names.Name(names.Reset, window.of), reset)
	}
}
