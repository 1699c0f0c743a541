package responses

import (
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// maxQuoted is how much of a provider's own words reaches a client, in bytes (wire sheet: translation, section 3.3).
const maxQuoted = 2 << 10

// DecodeError implements [codec.ProviderHalf].
func (provider) DecodeError(status int, retryAfter time.Duration, body []byte) *codec.Error {
	err := &codec.Error{Kind: codec.KindUpstream}
	switch {
	case !scan.Valid(body):
		err.Message = quote(body)
	case scan.IsArray(body): // Google wraps its error object in an array
		if list := scan.Array(body); list.Next() {
			err = errorIn(list.Value)
		}
	default:
		err = errorIn(body)
	}
	err.Status, err.RetryAfter = status, retryAfter
	if kind, known := kindOfStatus(status); known && !finer(err.Kind, kind) {
		err.Kind = kind
	}
	if err.Message == "" {
		err.Message = http.StatusText(status)
	}
	return guarded(err)
}

// guarded replaces what must not reach a client: a provider's own words about a credential may quote it, and an endless
// message helps nobody.
func guarded(err *codec.Error) *codec.Error {
	switch {
	case err.Kind == codec.KindUpstreamAuth:
		err.Message, err.Code = "The provider refused the credential that is set for it.", ""
	case len(err.Message) > maxQuoted:
		err.Message = quote([]byte(err.Message))
	}
	return err
}

// errorIn reads an error object: the member error of v, or v itself. The kind is what the codes say, and KindUpstream
// when they say nothing. A param is left out: it is a path in this format, and the client may speak another.
func errorIn(v []byte) *codec.Error {
	e := scan.Get(v, "error")
	if scan.IsString(e) {
		return &codec.Error{Kind: codec.KindUpstream, Message: scan.String(e)}
	}
	if !scan.IsObject(e) {
		e = v
	}
	err := &codec.Error{Kind: codec.KindUpstream}
	var words [3]string // code, type and status: any of them may hold the telling word
	for m := scan.Object(e); m.Next(); {
		switch string(m.Key) {
		case "message", "detail":
			err.Message = scan.String(m.Value)
		case "code":
			words[0] = scan.String(m.Value)
		case "type":
			words[1] = scan.String(m.Value)
		case "status":
			words[2] = scan.String(m.Value)
		}
	}
	err.Code = words[0]
	for _, word := range words {
		if kind, known := kindOfWord(word); known {
			err.Kind = kind
			break
		}
	}
	if err.Kind == codec.KindInvalidRequest && tooLong(err.Message) {
		err.Kind = codec.KindContextTooLong
	}
	if err.Message == "" {
		err.Message = "The provider reported an error without saying which."
	}
	return guarded(err)
}

func tooLong(message string) bool {
	return strings.Contains(message, "context window") || strings.Contains(message, "maximum context length") ||
		strings.HasPrefix(message, "prompt is too long")
}

// kindOfWord classifies the code, type or status that providers use.
func kindOfWord(word string) (codec.Kind, bool) {
	switch word {
	case "context_length_exceeded":
		return codec.KindContextTooLong, true
	case "insufficient_quota", "usage_not_included", "usage_limit_reached", "billing_error", "billing_hard_limit_reached":
		return codec.KindQuota, true
	case "rate_limit_exceeded", "rate_limit_error", "requests", "tokens", "RESOURCE_EXHAUSTED":
		return codec.KindRateLimited, true
	case "server_is_overloaded", "slow_down", "overloaded_error", "UNAVAILABLE":
		return codec.KindOverloaded, true
	case "model_not_found", "not_found_error", "previous_response_not_found", "NOT_FOUND":
		return codec.KindNotFound, true
	case "permission_error", "insufficient_permissions", "PERMISSION_DENIED":
		return codec.KindPermission, true
	case "invalid_api_key", "authentication_error", "UNAUTHENTICATED":
		return codec.KindUpstreamAuth, true
	case "timeout", "timeout_error", "vector_store_timeout", "DEADLINE_EXCEEDED":
		return codec.KindTimeout, true
	case "request_too_large":
		return codec.KindTooLarge, true
	case "server_error", "api_error", "INTERNAL":
		return codec.KindUpstream, true
	case "invalid_request_error", "invalid_prompt", "bio_policy", "cyber_policy", "misalignment_policy_violation",
		"data_residency_mismatch", "INVALID_ARGUMENT":
		return codec.KindInvalidRequest, true
	}
	if strings.Contains(word, "image") { // invalid_image_format, image_too_large and their like
		return codec.KindInvalidRequest, true
	}
	return codec.KindUpstream, false
}

func kindOfStatus(status int) (codec.Kind, bool) {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity, http.StatusMethodNotAllowed:
		return codec.KindInvalidRequest, true
	case http.StatusUnauthorized:
		return codec.KindUpstreamAuth, true
	case http.StatusForbidden:
		return codec.KindPermission, true
	case http.StatusPaymentRequired:
		return codec.KindQuota, true
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
	case http.StatusServiceUnavailable, 529: // 529: Anthropic's word for overloaded
		return codec.KindOverloaded, true
	}
	return codec.KindUpstream, status >= http.StatusInternalServerError
}

// finer tells whether what the codes said is a closer look at what the status said.
func finer(code, status codec.Kind) bool {
	switch status {
	case codec.KindInvalidRequest:
		return code == codec.KindContextTooLong || code == codec.KindQuota || code == codec.KindNotFound
	case codec.KindRateLimited:
		return code == codec.KindQuota || code == codec.KindOverloaded
	case codec.KindUpstream:
		return code == codec.KindOverloaded || code == codec.KindTimeout
	}
	return false
}

// quote is the readable part of a body that is not JSON: an HTML page of a load balancer, say.
func quote(body []byte) string {
	if len(body) > maxQuoted {
		body = body[:maxQuoted]
	}
	text := strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case r < ' ' || r == utf8.RuneError:
			return -1
		}
		return r
	}, string(body))
	return strings.TrimSpace(text)
}
