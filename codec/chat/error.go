package chat

import (
	"bytes"
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// rendering is how this format's clients are told of a kind of error (wire sheet: translation, section 3.3).
type rendering struct {
	status int
	kind   string // the member type
	code   string // where the error names none; "" is null on the wire
}

func render(e *codec.Error) rendering {
	r := renderings(e.Kind)
	if e.Kind == codec.KindUpstream && e.Status == http.StatusInternalServerError {
		r.status = http.StatusInternalServerError
	}
	if e.Code != "" {
		r.code = e.Code
	}
	return r
}

func renderings(kind codec.Kind) rendering {
	switch kind {
	case codec.KindAuthentication:
		return rendering{http.StatusUnauthorized, "invalid_request_error", "invalid_api_key"}
	case codec.KindPermission:
		return rendering{http.StatusForbidden, "insufficient_permissions", "insufficient_permissions"}
	case codec.KindInvalidRequest:
		return rendering{http.StatusBadRequest, "invalid_request_error", ""}
	case codec.KindNotFound:
		return rendering{http.StatusNotFound, "invalid_request_error", ""}
	case codec.KindConflict:
		return rendering{http.StatusConflict, "invalid_request_error", ""}
	case codec.KindTooLarge:
		return rendering{http.StatusRequestEntityTooLarge, "invalid_request_error", "request_too_large"}
	case codec.KindUnsupportedMedia:
		return rendering{http.StatusUnsupportedMediaType, "invalid_request_error", "unsupported_media_type"}
	case codec.KindRateLimited:
		return rendering{http.StatusTooManyRequests, "rate_limit_error", "rate_limit_exceeded"}
	case codec.KindQuota:
		return rendering{http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota"}
	case codec.KindOverloaded:
		return rendering{http.StatusServiceUnavailable, "server_error", "server_is_overloaded"}
	case codec.KindUpstream:
		return rendering{http.StatusBadGateway, "server_error", "upstream_error"}
	case codec.KindUpstreamAuth:
		return rendering{http.StatusBadGateway, "api_error", "upstream_auth"}
	case codec.KindTimeout:
		return rendering{http.StatusGatewayTimeout, "server_error", "timeout"}
	case codec.KindContextTooLong:
		return rendering{http.StatusBadRequest, "invalid_request_error", "context_length_exceeded"}
	case codec.KindStorage:
		return rendering{http.StatusServiceUnavailable, "server_error", "storage_unavailable"}
	}
	return rendering{http.StatusInternalServerError, "server_error", "internal_error"}
}

// Status is the HTTP status for e.
func (client) Status(e *codec.Error) int { return render(e).status }

// AppendError writes the body of an error, before an answer or inside a stream: all four members are always there.
func (client) AppendError(dst []byte, e *codec.Error, _ *codec.AnswerOptions) []byte {
	r := render(e)
	dst = append(dst, `{"error":{"message":`...)
	dst = scan.Quote(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = scan.Quote(dst, r.kind)
	dst = append(dst, `,"param":`...)
	dst = quoteOrNull(dst, e.Param)
	dst = append(dst, `,"code":`...)
	dst = quoteOrNull(dst, r.code)
	return append(dst, `}}`...)
}

func quoteOrNull(dst []byte, text string) []byte {
	if text == "" {
		return append(dst, "null"...)
	}
	return scan.Quote(dst, text)
}

// DecodeError reads the body of an error answer.
func (provider) DecodeError(status int, retryAfter time.Duration, body []byte) *codec.Error {
	return readError(status, retryAfter, body)
}

// report is what an error body says, in whatever shape.
type report struct {
	message string
	code    string
	kind    string // the member type, or Google's status word
	number  int    // an HTTP status that stands in the body; 0 when none does
}

// readError reads an error body or an error inside a stream, where status is 0.
func readError(status int, retryAfter time.Duration, body []byte) *codec.Error {
	r := readReport(body)
	if status < http.StatusBadRequest { // xAI reports errors with status 200
		status = r.number
	}
	e := &codec.Error{
		Kind: classify(status, &r), Message: r.message, Code: r.code, Status: status, RetryAfter: retryAfter,
	}
	if e.Kind == codec.KindRateLimited && e.RetryAfter == 0 {
		e.RetryAfter = announcedDelay(r.message)
	}
	if e.Kind == codec.KindUpstreamAuth {
		// The provider's own text may quote the credential.
		e.Message, e.Code = "the provider refused the credential that is configured for it", ""
	}
	if e.Message == "" {
		e.Message = withoutMessage(status)
	}
	if !codeOfFormat(e.Kind, e.Code) {
		e.Code = ""
	}
	return e
}

func withoutMessage(status int) string {
	if status == 0 {
		return "the provider reported an error and gave no reason"
	}
	return "the provider answered with status " + strconv.Itoa(status) + " and gave no reason"
}

// codeOfFormat keeps codes that tell a client more than the kind does; a kind's own code is written with it anyway.
func codeOfFormat(kind codec.Kind, code string) bool {
	switch kind {
	case codec.KindInvalidRequest, codec.KindNotFound, codec.KindConflict, codec.KindPermission, codec.KindQuota:
		return code != "" && strings.Trim(code, "0123456789") != ""
	}
	return false
}

// readReport finds the message, wherever it stands: {"error":{…}}, {"error":"…"}, flat members (Mistral, xAI), a list of
// complaints (FastAPI's detail), the same inside an array (Google), or text that is not JSON at all (P47).
func readReport(body []byte) (r report) {
	body = bytes.TrimSpace(body)
	if !scan.Valid(body) {
		r.message = quoteText(body)
		return r
	}
	if first := scan.Array(body); first.Next() {
		body = first.Value
	}
	r.members(body)
	for m := scan.Object(body); m.Next(); {
		switch string(m.Key) {
		case "error":
			if text := scan.Body(m.Value); text != nil {
				r.message = clean(scan.Text(text))
			}
			r.members(m.Value)
		case "detail":
			r.detail(m.Value)
		}
	}
	return r
}

func (r *report) members(object []byte) {
	for m := scan.Object(object); m.Next(); {
		switch string(m.Key) {
		case "message":
			if text := clean(scan.String(m.Value)); text != "" {
				r.message = text
			}
		case "code":
			if n, ok := scan.Int(m.Value); ok && n >= 400 && n < 600 {
				r.number = int(n)
			} else if text := clean(scan.String(m.Value)); text != "" {
				r.code = text
			}
		case "type", "status":
			if text := clean(scan.String(m.Value)); text != "" && text != "error" {
				r.kind = text
			}
		}
	}
}

// detail joins FastAPI's complaints: where, and what.
func (r *report) detail(v []byte) {
	if text := scan.Body(v); text != nil {
		r.message = clean(scan.Text(text))
		return
	}
	var all strings.Builder
	for e := scan.Array(v); e.Next() && all.Len() < maxMessage; {
		if all.Len() > 0 {
			all.WriteString("; ")
		}
		for l := scan.Array(scan.Get(e.Value, "loc")); l.Next(); {
			if all.Len() > 0 && !strings.HasSuffix(all.String(), " ") {
				all.WriteByte('.')
			}
			all.WriteString(strings.Trim(string(l.Value), `"`))
		}
		all.WriteString(": ")
		all.WriteString(scan.String(scan.Get(e.Value, "msg")))
	}
	if all.Len() > 0 {
		r.message = clean(all.String())
		r.kind = "invalid_request_error"
	}
}

// classify goes by the code and type where they are known words, then by the status (P103).
func classify(status int, r *report) codec.Kind {
	if kind, ok := kindOfWord(r.code); ok {
		return kind
	}
	if kind, ok := kindOfStatus(status, r); ok {
		return kind
	}
	if kind, ok := kindOfWord(r.kind); ok {
		return kind
	}
	return codec.KindUpstream
}

func kindOfWord(word string) (codec.Kind, bool) {
	switch strings.ToLower(word) {
	case "context_length_exceeded", "string_above_max_length", "model_max_prompt_tokens_exceeded":
		return codec.KindContextTooLong, true
	case "insufficient_quota", "credit_balance_exhausted", "organization_spend_limit_exceeded",
		"project_spend_limit_exceeded", "organization_usage_limit_exceeded", "billing_error", "billing_hard_limit_reached",
		"payment_required":
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
	case "model_not_found", "not_found_error", "not_found":
		return codec.KindNotFound, true
	case "timeout", "timeout_error", "deadline_exceeded":
		return codec.KindTimeout, true
	case "request_too_large":
		return codec.KindTooLarge, true
	case "invalid_request_error", "invalid_argument", "failed_precondition":
		return codec.KindInvalidRequest, true
	}
	return 0, false
}

func kindOfStatus(status int, r *report) (codec.Kind, bool) {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return kindOfRefusal(r.message), true
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
	case http.StatusTooManyRequests:
		if kind, ok := kindOfWord(r.kind); ok && kind == codec.KindQuota {
			return kind, true
		}
		return codec.KindRateLimited, true
	case http.StatusServiceUnavailable, 529:
		return codec.KindOverloaded, true
	}
	return codec.KindUpstream, status >= http.StatusInternalServerError
}

// kindOfRefusal tells two causes apart that some hosts report as an ordinary bad request: a conversation that does not
// fit (vLLM and others) and a wrong key (xAI).
func kindOfRefusal(message string) codec.Kind {
	text := strings.ToLower(message)
	switch {
	case strings.Contains(text, "context length") || strings.Contains(text, "context window"):
		return codec.KindContextTooLong
	case strings.Contains(text, "incorrect api key") || strings.Contains(text, "invalid api key"):
		return codec.KindUpstreamAuth
	}
	return codec.KindInvalidRequest
}

// announcedDelay reads "try again in 1.2s" or "in 350ms".
func announcedDelay(message string) time.Duration {
	_, rest, ok := strings.Cut(message, "try again in ")
	if !ok {
		return 0
	}
	digits := strings.IndexFunc(rest, func(r rune) bool { return (r < '0' || r > '9') && r != '.' })
	if digits <= 0 {
		return 0
	}
	n, err := strconv.ParseFloat(rest[:digits], 64)
	if err != nil {
		return 0
	}
	unit := float64(time.Second)
	if strings.HasPrefix(rest[digits:], "ms") {
		unit = float64(time.Millisecond)
	}
	return time.Duration(math.Min(n*unit, float64(time.Hour)))
}

// maxMessage bounds what is passed on of a provider's text, in bytes.
const maxMessage = 2 << 10

// quoteText is a body that is not JSON, when a person could read it: a page of markup says less than the status.
func quoteText(body []byte) string {
	if bytes.HasPrefix(body, []byte("<")) || len(body) == 0 {
		return ""
	}
	text := clean(string(body[:min(len(body), 2*maxMessage)]))
	if text == "" {
		return ""
	}
	return "the provider answered: " + text
}

// clean makes a provider's text fit for a client: no control characters, valid UTF-8, bounded.
func clean(text string) string {
	text = strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\r' || r == '\t':
			return ' '
		case unicode.IsControl(r) || r == utf8.RuneError:
			return -1
		}
		return r
	}, text))
	if len(text) <= maxMessage {
		return text
	}
	cut := maxMessage
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + "…"
}
