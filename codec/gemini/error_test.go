package gemini_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/gemini"
)

// P47, P103: whatever an error answer looks like, its class, its delay and its message come through.
func TestErrorAnswersAreRead(t *testing.T) {
	const details = `"details":[{"@type":"type.googleapis.com/google.rpc.Help"},`
	cases := []struct {
		name   string
		status int
		header time.Duration
		body   string
		kind   codec.Kind
		retry  time.Duration
		text   string
	}{
		{"rate limit with a delay", 429, 0, `{"error":{"code":429,"message":"Quota.","status":"RESOURCE_EXHAUSTED",` + details + `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"31.4s"}]}}`, codec.KindRateLimited, 31400 * time.Millisecond, "Quota."},
		{"delay in the text", 429, 0, `{"error":{"status":"RESOURCE_EXHAUSTED","message":"Please retry in 7.5s."}}`, codec.KindRateLimited, 7500 * time.Millisecond, "retry in"},
		{"delay in the header", 429, 3 * time.Second, `{"error":{"status":"RESOURCE_EXHAUSTED","message":"Please retry in 7.5s."}}`, codec.KindRateLimited, 3 * time.Second, ""},
		{"daily quota", 429, 0, `{"error":{"status":"RESOURCE_EXHAUSTED","message":"q",` + details + `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"GenerateRequestsPerDayPerProject"}]}]}}`, codec.KindQuota, 0, "q"},
		{"no quota at all", 429, 0, `{"error":{"status":"RESOURCE_EXHAUSTED","message":"x, limit: 0, model: y"}}`, codec.KindQuota, 0, "limit: 0"},
		{"in an array", 400, 0, `[{"error":{"code":400,"message":"Unknown name \"x\"","status":"INVALID_ARGUMENT"}}]`, codec.KindInvalidRequest, 0, `Unknown name "x"`},
		{"key refused", 400, 0, `{"error":{"code":400,"message":"API key not valid: AIzaSECRET","status":"INVALID_ARGUMENT",` + details + `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"API_KEY_INVALID"}]}}`, codec.KindUpstreamAuth, 0, "API_KEY_INVALID"},
		{"no right", 403, 0, `{"error":{"code":403,"message":"denied","status":"PERMISSION_DENIED"}}`, codec.KindPermission, 0, "denied"},
		{"no such model", 404, 0, `{"error":{"code":404,"message":"models/x is not found","status":"NOT_FOUND"}}`, codec.KindNotFound, 0, "not found"},
		{"too long", 400, 0, `{"error":{"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}`, codec.KindContextTooLong, 0, "1200000"},
		{"overloaded", 503, 0, `{"error":{"code":503,"message":"The model is overloaded.","status":"UNAVAILABLE"}}`, codec.KindOverloaded, 0, "overloaded"},
		{"no capacity", 429, 0, `{"error":{"message":"m","status":"RESOURCE_EXHAUSTED",` + details + `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":"MODEL_CAPACITY_EXHAUSTED"}]}}`, codec.KindOverloaded, 0, "m"},
		{"deadline", 504, 0, `{"error":{"code":504,"message":"late","status":"DEADLINE_EXCEEDED"}}`, codec.KindTimeout, 0, "late"},
		{"internal", 500, 0, `{"error":{"code":500,"message":"oops","status":"INTERNAL"}}`, codec.KindUpstream, 0, "oops"},
		{"wrapped by a relay as text", 400, 0, `{"error":{"message":"{\"error\":{\"code\":429,\"message\":\"inner\",\"status\":\"RESOURCE_EXHAUSTED\"}}"}}`, codec.KindRateLimited, 0, "inner"},
		{"another format's shape", 529, 0, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, codec.KindOverloaded, 0, "Overloaded"},
		{"a string", 429, 0, `{"error":"slow down"}`, codec.KindRateLimited, 0, "slow down"},
		{"a bare message", 400, 0, `{"message":"bad"}`, codec.KindInvalidRequest, 0, "bad"},
		{"not JSON", 502, 0, "<html>\r\n<h1>Bad Gateway</h1>\x00", codec.KindUpstream, 0, "Bad Gateway"},
		{"nothing", 413, 0, "", codec.KindTooLarge, 0, "status 413 and gave no reason"},
		{"an empty array", 500, 0, "[]", codec.KindUpstream, 0, "status 500 and gave no reason"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			err := gemini.Provider().DecodeError(c.status, c.header, []byte(c.body))
			if err.Kind != c.kind || err.RetryAfter != c.retry || err.Status != c.status || !strings.Contains(err.Message, c.text) {
				t.Errorf("got %s %q retry %s status %d", err.Kind, err.Message, err.RetryAfter, err.Status)
			}
			if strings.Contains(err.Message, "SECRET") || strings.ContainsAny(err.Message, "\x00\r\n") {
				t.Errorf("the message quotes too much: %q", err.Message)
			}
		})
	}
}

func TestLongErrorBodiesAreCut(t *testing.T) {
	err := gemini.Provider().DecodeError(500, 0, []byte(strings.Repeat("日本語", 10_000)))
	if len(err.Message) > 2<<10 || !strings.HasPrefix(err.Message, "the provider answered with status 500: 日本語") {
		t.Errorf("message of %d bytes", len(err.Message))
	}
}
