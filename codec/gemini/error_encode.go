package gemini

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// errorWords is how clients of the format see each kind of error (docs/wire/translation.md#3.3): the canonical code of
// google.rpc. The others are INTERNAL.
var errorWords = map[codec.Kind]string{
	codec.KindAuthentication:   "UNAUTHENTICATED",
	codec.KindPermission:       "PERMISSION_DENIED",
	codec.KindInvalidRequest:   "INVALID_ARGUMENT",
	codec.KindNotFound:         "NOT_FOUND",
	codec.KindConflict:         "ABORTED",
	codec.KindTooLarge:         "INVALID_ARGUMENT",
	codec.KindUnsupportedMedia: "INVALID_ARGUMENT",
	codec.KindRateLimited:      "RESOURCE_EXHAUSTED",
	codec.KindQuota:            "RESOURCE_EXHAUSTED",
	codec.KindOverloaded:       "UNAVAILABLE",
	codec.KindTimeout:          "DEADLINE_EXCEEDED",
	codec.KindContextTooLong:   "INVALID_ARGUMENT",
	codec.KindStorage:          "UNAVAILABLE",
	codec.KindUnsupported:      "UNIMPLEMENTED",
}

func (c *client) Status(e *codec.Error) int { return e.HTTPStatus() }

func (c *client) AppendError(dst []byte, e *codec.Error, _ *codec.AnswerOptions) []byte {
	return appendError(dst, e)
}

// appendError writes a google.rpc.Status: the body of an HTTP error and the data of an error frame. Its details have the
// machine-readable cause, the member at fault, and when to try again.
func appendError(dst []byte, e *codec.Error) []byte {
	dst = append(dst, `{"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(e.HTTPStatus()), 10)
	dst = scan.Quote(append(dst, `,"message":`...), clientMessage(e))
	dst = append(append(append(dst, `,"status":"`...), cmp.Or(errorWords[e.Kind], "INTERNAL")...), `","details":[`...)
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
