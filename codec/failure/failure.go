// Package failure reads the error answers of all providers. An error answer can have any shape, whatever format its
// provider speaks: relays, load balancers and validators answer in their own. So one table lists the statuses of all
// providers and another their wording. A format adds only entries that are specific to it.
package failure

import (
	"net/http"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// MaxText bounds what of a provider's own words reaches a client, in bytes (docs/wire/translation.md#3.3).
const MaxText = 2 << 10

// StatusOverloaded is Anthropic's status of a provider at capacity, for which net/http has no name.
const StatusOverloaded = 529

// Element returns the object of an error answer that may be in an array, as with Google. It is a view into body, and
// body itself if that is not an array, or is an empty one.
func Element(body []byte) []byte {
	if list := scan.Array(body); list.Next() {
		return list.Value
	}
	return body
}

// Find returns the value of an error answer, or of an error frame, that describes the error: the member error, an
// object or a string, or the [Element] itself if it has no such member. It is a view into body.
func Find(body []byte) []byte {
	object := Element(body)
	if failure := scan.Get(object, "error"); scan.IsObject(failure) || scan.IsString(failure) {
		return failure
	}
	return object
}

// Text prepares a provider's text for a client: one line of valid UTF-8 without control characters, truncated between
// characters to at most [MaxText] bytes.
func Text(words []byte) string {
	words = words[:min(len(words), 2*MaxText)]
	text := strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case unicode.IsControl(r) || r == utf8.RuneError:
			return -1
		}
		return r
	}, string(words)))
	if len(text) <= MaxText {
		return text
	}
	const more = "…"
	cut := MaxText - len(more)
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + more
}

// String returns the [Text] of a JSON string, and "" for any other value.
func String(v []byte) string { return Text(scan.Unescape(nil, scan.Body(v))) }

// Unreadable returns the message for an answer that is not JSON, such as the page of a load balancer. It is "" for an
// empty one, and does not mention a status inside a stream, where status is 0.
func Unreadable(status int, body []byte) string {
	text := Text(body)
	switch {
	case text == "":
		return ""
	case status == 0:
		return Text([]byte("the provider answered: " + text))
	}
	return Text([]byte("the provider answered with status " + strconv.Itoa(status) + ": " + text))
}

// Finish prepares e for a client: an error without a message gets one, and what a provider says about a credential is
// replaced, because it may quote it.
func Finish(e *codec.Error) *codec.Error {
	switch {
	case e.Kind == codec.KindUpstreamAuth:
		e.Message, e.Code = "the provider refused the credential that is configured for it", ""
	case e.Message != "":
	case e.Status == 0:
		e.Message = "the provider reported an error and gave no reason"
	default:
		e.Message = "the provider answered with status " + strconv.Itoa(e.Status) + " and gave no reason"
	}
	return e
}

// KindOfStatus returns the kind for a provider's HTTP status. If known is false, the status does not determine one, and
// the kind is [codec.KindUpstream].
func KindOfStatus(status int) (kind codec.Kind, known bool) {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusMethodNotAllowed:
		return codec.KindInvalidRequest, true
	case http.StatusUnauthorized:
		return codec.KindUpstreamAuth, true
	case http.StatusPaymentRequired:
		return codec.KindQuota, true
	case http.StatusForbidden:
		return codec.KindPermission, true
	case http.StatusNotFound:
		return codec.KindNotFound, true
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return codec.KindTimeout, true
	case http.StatusConflict:
		return codec.KindConflict, true
	case http.StatusRequestEntityTooLarge:
		return codec.KindTooLarge, true
	case http.StatusUnsupportedMediaType:
		return codec.KindUnsupportedMedia, true
	case http.StatusTooManyRequests:
		return codec.KindRateLimited, true
	case http.StatusServiceUnavailable, StatusOverloaded:
		return codec.KindOverloaded, true
	}
	return codec.KindUpstream, status >= http.StatusInternalServerError
}

// KindOfWord returns the kind for the code, type or status word of an error object, in any format and in either case.
// If known is false, the word does not determine one, and the kind is [codec.KindUpstream].
func KindOfWord(word string) (kind codec.Kind, known bool) {
	switch strings.ToLower(word) {
	case "context_length_exceeded", "string_above_max_length", "model_max_prompt_tokens_exceeded":
		return codec.KindContextTooLong, true
	case "insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
		"project_spend_limit_exceeded", "organization_usage_limit_exceeded", "billing_error", "billing_hard_limit_reached",
		"payment_required", "usage_not_included", "usage_limit_reached":
		return codec.KindQuota, true
	case "server_is_overloaded", "overloaded_error", "service_unavailable_error", "unavailable", "overloaded", "slow_down",
		"the service is currently unavailable":
		return codec.KindOverloaded, true
	case "rate_limit_exceeded", "rate_limit_error", "resource_exhausted", "requests", "tokens", "too_many_requests":
		return codec.KindRateLimited, true
	case "invalid_api_key", "authentication_error", "unauthenticated":
		return codec.KindUpstreamAuth, true
	case "permission_error", "insufficient_permissions", "permission_denied", "unsupported_country_region_territory":
		return codec.KindPermission, true
	case "model_not_found", "not_found_error", "not_found", "previous_response_not_found":
		return codec.KindNotFound, true
	case "timeout", "timeout_error", "deadline_exceeded", "vector_store_timeout":
		return codec.KindTimeout, true
	case "conflict_error":
		return codec.KindConflict, true
	case "request_too_large":
		return codec.KindTooLarge, true
	case "invalid_request_error", "invalid_argument", "failed_precondition":
		return codec.KindInvalidRequest, true
	}
	return codec.KindUpstream, false
}

// KindOfRefusal derives from the message of an ordinary bad request why it was refused, if that reason has its own
// kind: a conversation that does not fit the model (Messages has no code for it, and vLLM and others send none), or a
// wrong key (xAI).
func KindOfRefusal(message string) codec.Kind {
	message = strings.ToLower(message)
	for _, phrase := range [...]string{"context length", "context window", "exceed context limit", "prompt is too long"} {
		if strings.Contains(message, phrase) {
			return codec.KindContextTooLong
		}
	}
	if strings.Contains(message, "incorrect api key") || strings.Contains(message, "invalid api key") {
		return codec.KindUpstreamAuth
	}
	return codec.KindInvalidRequest
}
