package chat_test

import (
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chat"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// P103: errors keep their class, so that clients retry what can be retried and nothing else.
func TestEachKindOfErrorHasItsStatusTypeAndCode(t *testing.T) {
	cases := []struct {
		err    codec.Error
		status int
		body   string
	}{
		{codec.Error{Kind: codec.KindInternal}, 500, `"type":"server_error","param":null,"code":"internal_error"`},
		{codec.Error{Kind: codec.KindAuthentication}, 401, `"type":"invalid_request_error","param":null,"code":"invalid_api_key"`},
		{codec.Error{Kind: codec.KindPermission}, 403, `"type":"insufficient_permissions","param":null,"code":"insufficient_permissions"`},
		{codec.Error{Kind: codec.KindInvalidRequest, Param: "messages[0].role"}, 400, `"type":"invalid_request_error","param":"messages[0].role","code":null`},
		{codec.Error{Kind: codec.KindInvalidRequest, Code: "unsupported_value"}, 400, `"type":"invalid_request_error","param":null,"code":"unsupported_value"`},
		{codec.Error{Kind: codec.KindNotFound, Code: "model_not_found"}, 404, `"type":"invalid_request_error","param":null,"code":"model_not_found"`},
		{codec.Error{Kind: codec.KindConflict}, 409, `"type":"invalid_request_error","param":null,"code":null`},
		{codec.Error{Kind: codec.KindTooLarge}, 413, `"type":"invalid_request_error","param":null,"code":"request_too_large"`},
		{codec.Error{Kind: codec.KindUnsupportedMedia}, 415, `"type":"invalid_request_error","param":null,"code":"unsupported_media_type"`},
		{codec.Error{Kind: codec.KindRateLimited}, 429, `"type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"`},
		{codec.Error{Kind: codec.KindQuota}, 429, `"type":"insufficient_quota","param":null,"code":"insufficient_quota"`},
		{codec.Error{Kind: codec.KindOverloaded}, 503, `"type":"server_error","param":null,"code":"server_is_overloaded"`},
		{codec.Error{Kind: codec.KindUpstream}, 502, `"type":"server_error","param":null,"code":"upstream_error"`},
		{codec.Error{Kind: codec.KindUpstream, Status: 500}, 500, `"type":"server_error","param":null,"code":"upstream_error"`},
		{codec.Error{Kind: codec.KindUpstream, Status: 520}, 502, `"type":"server_error","param":null,"code":"upstream_error"`},
		{codec.Error{Kind: codec.KindUpstreamAuth}, 502, `"type":"api_error","param":null,"code":"upstream_auth"`},
		{codec.Error{Kind: codec.KindTimeout}, 504, `"type":"server_error","param":null,"code":"timeout"`},
		{codec.Error{Kind: codec.KindContextTooLong}, 400, `"type":"invalid_request_error","param":null,"code":"context_length_exceeded"`},
		{codec.Error{Kind: codec.KindStorage}, 503, `"type":"server_error","param":null,"code":"storage_unavailable"`},
	}
	for _, c := range cases {
		c.err.Message = `say "what"`
		if got := chat.Client().Status(&c.err); got != c.status {
			t.Errorf("%s: status %d, want %d", c.err.Kind, got, c.status)
		}
		want := `{"error":{"message":"say \"what\"",` + c.body + `}}`
		if got := chat.Client().AppendError(nil, &c.err, nil); string(got) != want {
			t.Errorf("%s:\ngot  %s\nwant %s", c.err.Kind, got, want)
		}
	}
}

func TestAProvidersErrorIsReadInWhateverShapeItComes(t *testing.T) {
	cases := map[string]struct {
		status  int
		body    string
		kind    codec.Kind
		message string
		code    string
	}{
		"openai":           {400, `{"error":{"message":"Unknown parameter","type":"invalid_request_error","param":"x","code":"unsupported_parameter"}}`, codec.KindInvalidRequest, "Unknown parameter", "unsupported_parameter"},
		"context":          {400, `{"error":{"message":"too long","type":"invalid_request_error","code":"context_length_exceeded"}}`, codec.KindContextTooLong, "too long", ""},
		"context, vllm":    {400, `{"object":"error","message":"This model's maximum context length is 8192 tokens","type":"BadRequestError","code":400}`, codec.KindContextTooLong, "This model's maximum context length is 8192 tokens", ""},
		"our key":          {401, `{"error":{"message":"Incorrect API key provided: sk-mo***","type":"invalid_request_error","code":"invalid_api_key"}}`, codec.KindUpstreamAuth, "the provider refused the credential that is configured for it", ""},
		"our key, xai":     {400, `{"code":"Client specified an invalid argument","error":"Incorrect API key provided: xa***"}`, codec.KindUpstreamAuth, "the provider refused the credential that is configured for it", ""},
		"quota":            {429, `{"error":{"message":"You exceeded your current quota","type":"insufficient_quota","code":"insufficient_quota"}}`, codec.KindQuota, "You exceeded your current quota", "insufficient_quota"},
		"quota, by type":   {429, `{"error":{"message":"No credit","type":"insufficient_quota","code":null}}`, codec.KindQuota, "No credit", ""},
		"balance":          {402, `{"error":{"message":"Insufficient Balance","type":"unknown_error"}}`, codec.KindQuota, "Insufficient Balance", ""},
		"rate limit":       {429, `{"error":{"message":"Slow","type":"requests","code":"rate_limit_exceeded"}}`, codec.KindRateLimited, "Slow", ""},
		"no model":         {404, `{"error":{"message":"The model does not exist","code":"model_not_found"}}`, codec.KindNotFound, "The model does not exist", "model_not_found"},
		"mistral":          {400, `{"object":"error","message":"Tool call id was x","type":"invalid_function_call","param":null,"code":"3280"}`, codec.KindInvalidRequest, "Tool call id was x", ""},
		"fastapi":          {422, `{"detail":[{"loc":["body","messages",0,"name"],"msg":"Extra inputs are not permitted","type":"extra_forbidden"}]}`, codec.KindInvalidRequest, "body.messages.0.name: Extra inputs are not permitted", ""},
		"detail as text":   {403, `{"detail":"Not allowed"}`, codec.KindPermission, "Not allowed", ""},
		"google, in array": {429, `[{"error":{"code":429,"message":"Quota","status":"RESOURCE_EXHAUSTED"}}]`, codec.KindRateLimited, "Quota", ""},
		"anthropic":        {529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, codec.KindOverloaded, "Overloaded", ""},
		"error as text":    {500, `{"error":"boom"}`, codec.KindUpstream, "boom", ""},
		"status 200":       {200, `{"code":"The service is currently unavailable","error":"down"}`, codec.KindOverloaded, "down", ""},
		"openrouter":       {200, `{"error":{"code":502,"message":"Bad gateway"}}`, codec.KindUpstream, "Bad gateway", ""},
		"P47: plain text":  {503, "no healthy\x00 upstream\n", codec.KindOverloaded, "the provider answered with status 503: no healthy upstream", ""},
		"P47: markup":      {502, "<html><body>Bad Gateway</body></html>", codec.KindUpstream, "the provider answered with status 502 and gave no reason", ""},
		"empty":            {504, "", codec.KindTimeout, "the provider answered with status 504 and gave no reason", ""},
		"too large":        {413, "{}", codec.KindTooLarge, "the provider answered with status 413 and gave no reason", ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := chat.Provider().DecodeError(c.status, 0, []byte(c.body))
			if got.Kind != c.kind || got.Message != c.message || got.Code != c.code {
				t.Errorf("got %s, %q, code %q; want %s, %q, code %q", got.Kind, got.Message, got.Code, c.kind, c.message, c.code)
			}
		})
	}
}

func TestTheDelayIsTheHeadersOrTheOneInTheMessage(t *testing.T) {
	body := []byte(`{"error":{"message":"Rate limit reached. Please try again in 1.5s.","code":"rate_limit_exceeded"}}`)
	if got := chat.Provider().DecodeError(429, 0, body).RetryAfter; got != 1500*time.Millisecond {
		t.Errorf("got %v", got)
	}
	if got := chat.Provider().DecodeError(429, 7*time.Second, body).RetryAfter; got != 7*time.Second {
		t.Errorf("got %v", got)
	}
	body = []byte(`{"error":{"message":"try again in 350ms","code":"rate_limit_exceeded"}}`)
	if got := chat.Provider().DecodeError(429, 0, body).RetryAfter; got != 350*time.Millisecond {
		t.Errorf("got %v", got)
	}
}

func TestALongErrorIsCutBetweenCharacters(t *testing.T) {
	for _, body := range []string{strings.Repeat("日", 5000), `{"error":{"message":"` + strings.Repeat("日", 5000) + `"}}`} {
		e := chat.Provider().DecodeError(500, 0, []byte(body))
		if len(e.Message) > 3000 || !scan.Valid(chat.Client().AppendError(nil, e, nil)) {
			t.Errorf("%d bytes: %.40q", len(e.Message), e.Message)
		}
	}
}
