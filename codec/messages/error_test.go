package messages_test

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/messages"
)

func asError(err error, e **codec.Error) bool { return errors.As(err, e) }

// Every kind has a status and a type of the closed set (P103: 429 stays 429, 529 stays retryable).
func TestErrorsAsClientsExpectThem(t *testing.T) {
	for _, c := range []struct {
		err    codec.Error
		status int
		body   string
	}{
		{codec.Error{Kind: codec.KindInternal, Message: "m"}, 500, `"api_error","message":"m"`},
		{codec.Error{Kind: codec.KindAuthentication, Message: "m"}, 401, `"authentication_error","message":"m"`},
		{codec.Error{Kind: codec.KindPermission, Message: "m"}, 403, `"permission_error","message":"m"`},
		{codec.Error{Kind: codec.KindInvalidRequest, Message: "m", Param: "messages[1].role"}, 400, `"invalid_request_error","message":"messages[1].role: m"`},
		{codec.Error{Kind: codec.KindNotFound, Message: "m", Code: "model_not_found"}, 404, `"not_found_error","message":"m","details":{"error_code":"model_not_found"}`},
		{codec.Error{Kind: codec.KindConflict, Message: "m"}, 409, `"conflict_error","message":"m"`},
		{codec.Error{Kind: codec.KindTooLarge, Message: "m"}, 413, `"request_too_large","message":"m"`},
		{codec.Error{Kind: codec.KindUnsupportedMedia, Message: "m"}, 415, `"invalid_request_error","message":"m"`},
		{codec.Error{Kind: codec.KindRateLimited, Message: "m"}, 429, `"rate_limit_error","message":"m"`},
		{codec.Error{Kind: codec.KindQuota, Message: "m"}, 402, `"billing_error","message":"m"`},
		{codec.Error{Kind: codec.KindOverloaded, Message: "m"}, 529, `"overloaded_error","message":"m"`},
		{codec.Error{Kind: codec.KindUpstream, Message: "m"}, 502, `"api_error","message":"m"`},
		{codec.Error{Kind: codec.KindUpstream, Message: "m", Status: 500}, 500, `"api_error","message":"m"`},
		{codec.Error{Kind: codec.KindUpstreamAuth, Message: "m"}, 502, `"api_error","message":"m"`},
		{codec.Error{Kind: codec.KindTimeout, Message: "m"}, 504, `"timeout_error","message":"m"`},
		{codec.Error{Kind: codec.KindStorage, Message: "m"}, 503, `"api_error","message":"m"`},
		{
			codec.Error{Kind: codec.KindContextTooLong, Message: "This model's maximum context length is 128000 tokens. However, your messages resulted in 130001 tokens."},
			400, `"invalid_request_error","message":"prompt is too long: 130001 tokens \u003e 128000 maximum"`,
		},
		{
			codec.Error{Kind: codec.KindContextTooLong, Message: "prompt is too long: 5 tokens > 4 maximum"},
			400, `"invalid_request_error","message":"prompt is too long: 5 tokens \u003e 4 maximum"`,
		},
		{codec.Error{Kind: codec.KindContextTooLong, Message: "too much"}, 400, `"invalid_request_error","message":"prompt is too long: too much"`},
	} {
		side := messages.Client()
		if got := side.Status(&c.err); got != c.status {
			t.Errorf("%s: status %d, want %d", c.err.Kind, got, c.status)
		}
		got := string(side.AppendError(nil, &c.err, options()))
		want := `{"type":"error","error":{"type":` + strings.ReplaceAll(c.body, `\u003e`, ">") + `},"request_id":"req_01x"}`
		if got != want || !json.Valid([]byte(got)) {
			t.Errorf("%s:\n got %s\nwant %s", c.err.Kind, got, want)
		}
	}
}

// P47: error bodies of any shape keep their class; nothing of a credential is repeated.
func TestProviderErrorsOfAnyShape(t *testing.T) {
	type seen struct {
		Kind          codec.Kind
		Message, Code string
	}
	for _, c := range []struct {
		name   string
		status int
		body   string
		want   seen
	}{
		{
			"own envelope", 529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"},"request_id":null}`,
			seen{codec.KindOverloaded, "Overloaded", ""},
		},
		{
			"with details", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"x","details":{"error_code":"tool_name_conflict"}}}`,
			seen{codec.KindInvalidRequest, "x", "tool_name_conflict"},
		},
		{
			"context", 400, `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 300000 tokens > 200000 maximum"}}`,
			seen{codec.KindContextTooLong, "prompt is too long: 300000 tokens > 200000 maximum", ""},
		},
		{"billing", 402, `{"type":"error","error":{"type":"billing_error","message":"x"}}`, seen{codec.KindQuota, "x", ""}},
		{"too large", 413, `{"type":"error","error":{"type":"request_too_large","message":"x"}}`, seen{codec.KindTooLarge, "x", ""}},
		{"the type beats the status", 400, `{"type":"error","error":{"type":"rate_limit_error","message":"x"}}`, seen{codec.KindRateLimited, "x", ""}},
		{
			"OpenAI's", 400, `{"error":{"message":"too long","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
			seen{codec.KindContextTooLong, "too long", "context_length_exceeded"},
		},
		{"Google's in an array", 429, `[{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}]`, seen{codec.KindRateLimited, "slow", ""}},
		{"a string", 500, `{"error":"boom"}`, seen{codec.KindUpstream, "boom", ""}},
		{"a message", 503, `{"message":"busy"}`, seen{codec.KindOverloaded, "busy", ""}},
		{"a detail", 404, `{"detail":"Not Found"}`, seen{codec.KindNotFound, "Not Found", ""}},
		{"HTML", 502, "<html>\n<h1>Bad\x00 Gateway</h1>", seen{codec.KindUpstream, "the provider answered with status 502: <html> <h1>Bad Gateway</h1>", ""}},
		{"nothing", 504, "", seen{codec.KindTimeout, "the provider answered with status 504 and gave no reason", ""}},
		{"an empty object", 500, "{}", seen{codec.KindUpstream, "the provider answered with status 500: {}", ""}},
		{
			"a credential", 401, `{"type":"error","error":{"type":"authentication_error","message":"invalid x-api-key sk-ant-1234"}}`,
			seen{codec.KindUpstreamAuth, "the provider refused the credential that is configured for it", ""},
		},
		{
			"a credential, as OpenAI has it", 401, `{"error":{"message":"Incorrect API key provided: sk-1234","type":"invalid_request_error","code":null}}`,
			seen{codec.KindUpstreamAuth, "the provider refused the credential that is configured for it", ""},
		},
	} {
		e := messages.Provider().DecodeError(c.status, 3*time.Second, []byte(c.body))
		if diff := cmp.Diff(c.want, seen{e.Kind, e.Message, e.Code}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
		if e.Status != c.status || e.RetryAfter != 3*time.Second {
			t.Errorf("%s: status %d, retry after %s", c.name, e.Status, e.RetryAfter)
		}
	}
	for _, body := range []string{strings.Repeat("é", 5000), `{"error":{"message":"` + strings.Repeat("é", 5000) + `"}}`} {
		if long := messages.Provider().DecodeError(500, 0, []byte(body)); len(long.Message) > 2<<10 {
			t.Errorf("a message of %d bytes", len(long.Message))
		}
	}
}
