package messages

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// Error types of the format, a closed set (wire sheet: messages, section 5).
const (
	errorInvalidRequest = "invalid_request_error"
	errorAuthentication = "authentication_error"
	errorBilling        = "billing_error"
	errorPermission     = "permission_error"
	errorNotFound       = "not_found_error"
	errorConflict       = "conflict_error"
	errorTooLarge       = "request_too_large"
	errorRateLimit      = "rate_limit_error"
	errorAPI            = "api_error"
	errorTimeout        = "timeout_error"
	errorOverloaded     = "overloaded_error"
)

// statusOverloaded has no name in net/http: the format's own status for a provider at capacity.
const statusOverloaded = 529

// errorForms says how each kind of error looks to a client of the format (wire sheet: translation, section 3.3).
var errorForms = map[codec.Kind]struct {
	status int
	name   string
}{
	codec.KindInternal:         {http.StatusInternalServerError, errorAPI},
	codec.KindAuthentication:   {http.StatusUnauthorized, errorAuthentication},
	codec.KindPermission:       {http.StatusForbidden, errorPermission},
	codec.KindInvalidRequest:   {http.StatusBadRequest, errorInvalidRequest},
	codec.KindNotFound:         {http.StatusNotFound, errorNotFound},
	codec.KindConflict:         {http.StatusConflict, errorConflict},
	codec.KindTooLarge:         {http.StatusRequestEntityTooLarge, errorTooLarge},
	codec.KindUnsupportedMedia: {http.StatusUnsupportedMediaType, errorInvalidRequest},
	codec.KindRateLimited:      {http.StatusTooManyRequests, errorRateLimit},
	codec.KindQuota:            {http.StatusPaymentRequired, errorBilling},
	codec.KindOverloaded:       {statusOverloaded, errorOverloaded},
	codec.KindUpstream:         {http.StatusBadGateway, errorAPI},
	codec.KindUpstreamAuth:     {http.StatusBadGateway, errorAPI},
	codec.KindTimeout:          {http.StatusGatewayTimeout, errorTimeout},
	codec.KindContextTooLong:   {http.StatusBadRequest, errorInvalidRequest},
	codec.KindStorage:          {http.StatusServiceUnavailable, errorAPI},
}

// formOf is the form of a kind; one that is not in the table is a fault of ours.
func formOf(kind codec.Kind) (status int, name string) {
	form, known := errorForms[kind]
	if !known {
		form = errorForms[codec.KindInternal]
	}
	return form.status, form.name
}

func (client) Status(e *codec.Error) int {
	if e.Kind == codec.KindUpstream && e.Status == http.StatusInternalServerError {
		return http.StatusInternalServerError
	}
	status, _ := formOf(e.Kind)
	return status
}

func (client) AppendError(dst []byte, e *codec.Error, o *codec.AnswerOptions) []byte {
	return appendError(dst, e, o)
}

// appendError writes the error envelope: the body of an HTTP error and the data of an error event.
func appendError(dst []byte, e *codec.Error, o *codec.AnswerOptions) []byte {
	_, name := formOf(e.Kind)
	dst = append(dst, `{"type":"error","error":{"type":"`...)
	dst = append(dst, name...)
	dst = append(dst, `","message":`...)
	dst = appendQuoted(dst, clientMessage(e))
	if e.Code != "" {
		dst = append(dst, `,"details":{"error_code":`...)
		dst = appendQuoted(dst, e.Code)
		dst = append(dst, '}')
	}
	dst = append(dst, `},"request_id":`...)
	if o == nil || o.ID == "" {
		return append(dst, `null}`...)
	}
	dst = append(dst, `"req_`...)
	dst = append(dst, o.ID...)
	return append(dst, `"}`...)
}

// clientMessage is the message with the member at fault before it, as the format has no member for the place, and with
// the wording that agents know for a conversation that does not fit.
func clientMessage(e *codec.Error) string {
	message := e.Message
	if e.Kind == codec.KindContextTooLong {
		message = contextMessage(message)
	}
	if e.Param == "" {
		return message
	}
	return e.Param + ": " + message
}

const promptTooLong = "prompt is too long"

// contextMessage says that the conversation is too long in the words by which Claude Code knows it (wire sheet:
// messages, section 8), with the provider's figures where its message has them: the larger one is the conversation's.
func contextMessage(message string) string {
	if strings.Contains(message, promptTooLong) || strings.Contains(message, "exceed context limit") {
		return message
	}
	used, limit := int64(0), int64(0)
	for _, word := range strings.FieldsFunc(message, func(r rune) bool { return r < '0' || r > '9' }) {
		n, err := strconv.ParseInt(word, 10, 64)
		if err != nil || n < 1000 || n == used || n == limit {
			continue
		}
		if n > used {
			used, limit = n, used
		} else if n > limit {
			limit = n
		}
	}
	if limit == 0 {
		return promptTooLong + ": " + message
	}
	return fmt.Sprintf("%s: %d tokens > %d maximum", promptTooLong, used, limit)
}

// DecodeError reads the format's own envelope, OpenAI's {"error":{…}}, Google's, also inside an array, an error that is
// a string, {"message":…} and {"detail":…}. A body that is no JSON is quoted, cut and without control characters.
func (provider) DecodeError(status int, retryAfter time.Duration, body []byte) *codec.Error {
	e := &codec.Error{Kind: kindOfStatus(status), Status: status, RetryAfter: retryAfter}
	if !scan.Valid(body) {
		e.Message = quoteBody(status, body)
		return guarded(e)
	}
	if el := scan.Array(body); el.Next() {
		body = el.Value
	}
	readError(e, body)
	if e.Message == "" {
		e.Message = quoteBody(status, body)
	}
	return guarded(e)
}

// decodeEventError reads the envelope of an error inside a stream.
func decodeEventError(envelope []byte) *codec.Error {
	e := &codec.Error{Kind: codec.KindUpstream}
	readError(e, envelope)
	if e.Message == "" {
		e.Message = "the provider reported an error without saying which"
	}
	return guarded(e)
}

// readError takes type, message and code out of an error envelope of any provider.
func readError(e *codec.Error, envelope []byte) {
	detail := scan.Get(envelope, "error")
	if scan.IsString(detail) {
		e.Message = scan.String(detail)
		return
	}
	if !scan.IsObject(detail) {
		detail = envelope
	}
	var kind, code string
	for m := scan.Object(detail); m.Next(); {
		switch string(m.Key) {
		case "type", "status":
			if kind == "" || kindOfType(kind) == codec.KindInternal {
				kind = scan.String(m.Value)
			}
		case "message":
			e.Message = scan.String(m.Value)
		case "detail":
			if e.Message == "" {
				e.Message = scan.String(m.Value)
			}
		case "code":
			code = scan.String(m.Value)
		case "param":
			// A path in the provider's request: it would name nothing that the client sent.
		case "details":
			if named := scan.Get(m.Value, "error_code"); scan.IsString(named) {
				code = scan.String(named)
			}
		}
	}
	e.Code = code
	if k := kindOfType(code); k != codec.KindInternal {
		e.Kind = k
	} else if k := kindOfType(kind); k != codec.KindInternal {
		e.Kind = k
	}
	if e.Kind == codec.KindInvalidRequest && contextTooLong(e.Message) {
		e.Kind = codec.KindContextTooLong
	}
}

// kindOfType knows the type and code words of all providers; KindInternal stands for a word that says nothing more
// than the status.
func kindOfType(word string) codec.Kind {
	switch word {
	case errorInvalidRequest, "INVALID_ARGUMENT", "FAILED_PRECONDITION":
		return codec.KindInvalidRequest
	case errorAuthentication, "invalid_api_key", "UNAUTHENTICATED":
		return codec.KindUpstreamAuth
	case errorPermission, "PERMISSION_DENIED":
		return codec.KindPermission
	case errorNotFound, "model_not_found", "NOT_FOUND":
		return codec.KindNotFound
	case errorConflict:
		return codec.KindConflict
	case errorTooLarge:
		return codec.KindTooLarge
	case errorRateLimit, "rate_limit_exceeded", "RESOURCE_EXHAUSTED":
		return codec.KindRateLimited
	case errorBilling, "insufficient_quota":
		return codec.KindQuota
	case errorOverloaded, "server_is_overloaded", "slow_down", "UNAVAILABLE":
		return codec.KindOverloaded
	case errorTimeout, "DEADLINE_EXCEEDED":
		return codec.KindTimeout
	case errorAPI, "server_error":
		return codec.KindUpstream
	case "context_length_exceeded":
		return codec.KindContextTooLong
	}
	return codec.KindInternal
}

func kindOfStatus(status int) codec.Kind {
	switch status {
	case http.StatusBadRequest, http.StatusUnprocessableEntity:
		return codec.KindInvalidRequest
	case http.StatusUnauthorized:
		return codec.KindUpstreamAuth
	case http.StatusPaymentRequired:
		return codec.KindQuota
	case http.StatusForbidden:
		return codec.KindPermission
	case http.StatusNotFound:
		return codec.KindNotFound
	case http.StatusRequestTimeout, http.StatusGatewayTimeout:
		return codec.KindTimeout
	case http.StatusConflict:
		return codec.KindConflict
	case http.StatusRequestEntityTooLarge:
		return codec.KindTooLarge
	case http.StatusUnsupportedMediaType:
		return codec.KindUnsupportedMedia
	case http.StatusTooManyRequests:
		return codec.KindRateLimited
	case http.StatusServiceUnavailable, statusOverloaded:
		return codec.KindOverloaded
	}
	return codec.KindUpstream
}

// contextTooLong knows a conversation over the limit by its words: the format has no code for it.
func contextTooLong(message string) bool {
	return strings.Contains(message, promptTooLong) || strings.Contains(message, "exceed context limit")
}

// guarded replaces the message of a refused credential: providers quote parts of the key in it.
func guarded(e *codec.Error) *codec.Error {
	if e.Kind == codec.KindUpstreamAuth {
		e.Message = "the provider refused the credential that it was sent; check the provider key"
	}
	return e
}

// maxQuoted is how much of an unreadable error body a person gets to see, in bytes.
const maxQuoted = 2 << 10

func quoteBody(status int, body []byte) string {
	body = bytes.TrimSpace(body)
	if len(body) == 0 {
		return fmt.Sprintf("the provider answered with status %d and an empty body", status)
	}
	text := strings.Map(func(r rune) rune {
		if r < 0x20 || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, string(body[:min(len(body), maxQuoted)]))
	return fmt.Sprintf("the provider answered with status %d: %s", status, text)
}
