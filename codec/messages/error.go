package messages

import (
	"cmp"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/failure"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// Error types of the format, a closed set (docs/wire/messages.md#5).
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

// errorTypes is how clients of the format see each kind of error; the others are errorAPI (docs/wire/translation.md#3.3).
var errorTypes = map[codec.Kind]string{
	codec.KindAuthentication:   errorAuthentication,
	codec.KindPermission:       errorPermission,
	codec.KindInvalidRequest:   errorInvalidRequest,
	codec.KindNotFound:         errorNotFound,
	codec.KindConflict:         errorConflict,
	codec.KindTooLarge:         errorTooLarge,
	codec.KindUnsupportedMedia: errorInvalidRequest,
	codec.KindRateLimited:      errorRateLimit,
	codec.KindQuota:            errorBilling,
	codec.KindOverloaded:       errorOverloaded,
	codec.KindTimeout:          errorTimeout,
	codec.KindContextTooLong:   errorInvalidRequest,
	codec.KindUnsupported:      errorInvalidRequest,
}

func (client) Status(e *codec.Error) int {
	switch e.Kind {
	case codec.KindQuota:
		return http.StatusPaymentRequired
	case codec.KindOverloaded:
		return failure.StatusOverloaded
	}
	return e.HTTPStatus()
}

func (client) AppendError(dst []byte, e *codec.Error, o *codec.AnswerOptions) []byte {
	return appendError(dst, e, o)
}

// appendError writes the error envelope: the body of an HTTP error and the data of an error event.
func appendError(dst []byte, e *codec.Error, o *codec.AnswerOptions) []byte {
	name := cmp.Or(errorTypes[e.Kind], errorAPI)
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

// clientMessage returns the message, preceded by the member at fault, because the format has no member for it, and with
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

// contextMessage returns the message for too long a conversation in the words that Claude Code recognizes
// (docs/wire/messages.md#8), with the provider's figures if its message has them: the larger one is the conversation's.
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
// a string, {"message":…} and {"detail":…}. A body that is not JSON is quoted.
func (provider) DecodeError(status int, retryAfter time.Duration, body []byte) *codec.Error {
	kind, _ := failure.KindOfStatus(status)
	e := &codec.Error{Kind: kind, Status: status, RetryAfter: retryAfter}
	if scan.Valid(body) {
		readError(e, body)
	}
	if e.Message == "" {
		e.Message = failure.Unreadable(status, body)
	}
	return failure.Finish(e)
}

// decodeEventError reads the envelope of an error inside a stream.
func decodeEventError(envelope []byte) *codec.Error {
	e := &codec.Error{Kind: codec.KindUpstream}
	readError(e, envelope)
	return failure.Finish(e)
}

// readError reads type, message, code and, unless a header gave it, the wait from any provider's error envelope. A
// param is dropped: it is a path in the provider's request and means nothing to the client.
func readError(e *codec.Error, envelope []byte) {
	detail := failure.Find(envelope)
	if e.RetryAfter == 0 {
		e.RetryAfter = failure.Wait(detail)
	}
	if scan.IsString(detail) {
		e.Message = failure.String(detail)
		return
	}
	var word string
	for m := scan.Object(detail); m.Next(); {
		switch string(m.Key) {
		case "type", "status":
			if _, known := kindOfWord(word); !known {
				word = failure.String(m.Value)
			}
		case "message":
			e.Message = failure.String(m.Value)
		case "detail":
			if e.Message == "" {
				e.Message = failure.String(m.Value)
			}
		case "code":
			e.Code = failure.String(m.Value)
		case "details":
			if named := scan.Get(m.Value, "error_code"); scan.IsString(named) {
				e.Code = failure.String(named)
			}
		}
	}
	e.Kind = kindOfError(e, word)
}

// kindOfError uses the code and the type if they are known words, then e's kind, which is from the status. A refused
// credential stays one: OpenAI's type for it is that of any bad request.
func kindOfError(e *codec.Error, word string) codec.Kind {
	kind, known := kindOfWord(e.Code)
	if !known {
		kind, known = kindOfWord(word)
	}
	if !known || e.Kind == codec.KindUpstreamAuth {
		kind = e.Kind
	}
	if kind == codec.KindInvalidRequest {
		return failure.KindOfRefusal(e.Message)
	}
	return kind
}

// kindOfWord knows the words of all providers, and this format's words for a provider's failure.
func kindOfWord(word string) (kind codec.Kind, known bool) {
	if word == errorAPI || word == "server_error" {
		return codec.KindUpstream, true
	}
	return failure.KindOfWord(word)
}
