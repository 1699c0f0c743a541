package gemini

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// errorForms is how clients of the format see each kind of error (docs/wire/translation.md#3.3): the HTTP status and the
// canonical code of google.rpc.
var errorForms = map[codec.Kind]struct {
	status int
	word   string
}{
	codec.KindInternal:         {http.StatusInternalServerError, "INTERNAL"},
	codec.KindAuthentication:   {http.StatusUnauthorized, "UNAUTHENTICATED"},
	codec.KindPermission:       {http.StatusForbidden, "PERMISSION_DENIED"},
	codec.KindInvalidRequest:   {http.StatusBadRequest, "INVALID_ARGUMENT"},
	codec.KindNotFound:         {http.StatusNotFound, "NOT_FOUND"},
	codec.KindConflict:         {http.StatusConflict, "ABORTED"},
	codec.KindTooLarge:         {http.StatusRequestEntityTooLarge, "INVALID_ARGUMENT"},
	codec.KindUnsupportedMedia: {http.StatusUnsupportedMediaType, "INVALID_ARGUMENT"},
	codec.KindRateLimited:      {http.StatusTooManyRequests, "RESOURCE_EXHAUSTED"},
	codec.KindQuota:            {http.StatusTooManyRequests, "RESOURCE_EXHAUSTED"},
	codec.KindOverloaded:       {http.StatusServiceUnavailable, "UNAVAILABLE"},
	codec.KindUpstream:         {http.StatusBadGateway, "INTERNAL"},
	codec.KindUpstreamAuth:     {http.StatusBadGateway, "INTERNAL"},
	codec.KindTimeout:          {http.StatusGatewayTimeout, "DEADLINE_EXCEEDED"},
	codec.KindContextTooLong:   {http.StatusBadRequest, "INVALID_ARGUMENT"},
	codec.KindStorage:          {http.StatusServiceUnavailable, "UNAVAILABLE"},
	codec.KindUnsupported:      {http.StatusNotImplemented, "UNIMPLEMENTED"},
}

func (c *client) Status(e *codec.Error) int { return statusOf(e) }

func statusOf(e *codec.Error) int {
	form, known := errorForms[e.Kind]
	switch {
	case !known:
		return http.StatusInternalServerError
	case e.Kind == codec.KindUpstream && e.Status == http.StatusInternalServerError:
		return http.StatusInternalServerError
	}
	return form.status
}

func (c *client) AppendError(dst []byte, e *codec.Error, _ *codec.AnswerOptions) []byte {
	return appendError(dst, e)
}

// appendError writes a google.rpc.Status: the body of an HTTP error and the data of an error frame. Its details have the
// machine-readable cause, the member at fault, and when to try again.
func appendError(dst []byte, e *codec.Error) []byte {
	form, known := errorForms[e.Kind]
	if !known {
		form = errorForms[codec.KindInternal]
	}
	dst = append(dst, `{"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(statusOf(e)), 10)
	dst = scan.Quote(append(dst, `,"message":`...), clientMessage(e))
	dst = append(append(append(dst, `,"status":"`...), form.word...), `","details":[`...)
	if e.Code != "" {
		dst = scan.Quote(append(appendComma(dst), `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":`...), strings.ToUpper(e.Code))
		dst = append(dst, `,"domain":"mneme"}`...)
	}
	if e.Param != "" {
		dst = scan.Quote(append(appendComma(dst), `{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":`...), e.Param)
		dst = append(scan.Quote(append(dst, `,"description":`...), e.Message), `}]}`...)
	}
	if e.Kind == codec.KindQuota { // a quota of the day does not come back within minutes, and SDKs do not try again
		dst = append(appendComma(dst), `{"@type":"type.googleapis.com/google.rpc.QuotaFailure","violations":[{"quotaId":"CreditPerDay"}]}`...)
	}
	if e.RetryAfter > 0 {
		dst = append(appendComma(dst), `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"`...)
		dst = append(strconv.AppendFloat(dst, e.RetryAfter.Seconds(), 'f', -1, 64), `s"}`...)
	}
	return append(dst, `]}}`...)
}

// clientMessage returns the message, preceded by the member at fault, with the wording that clients know for a
// conversation that does not fit.
func clientMessage(e *codec.Error) string {
	message := e.Message
	if e.Kind == codec.KindContextTooLong && !(&fault{message: message}).tooLong() {
		message = "The input token count exceeds the maximum number of tokens allowed: " + message
	}
	if e.Param == "" {
		return message
	}
	return e.Param + ": " + message
}
