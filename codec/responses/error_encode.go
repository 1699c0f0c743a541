package responses

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// wording is the form of one kind of error in this format (docs/wire/translation.md#3.3).
type wording struct {
	status int
	kind   string // member type
	code   string // member code if the error has none of its own
	stream string // error.code of response.failed, by which Codex decides whether to retry
}

var wordings = map[codec.Kind]wording{
	codec.KindInternal:         {http.StatusInternalServerError, "server_error", "", "server_error"},
	codec.KindAuthentication:   {http.StatusUnauthorized, "invalid_request_error", "invalid_api_key", "server_error"},
	codec.KindPermission:       {http.StatusForbidden, "insufficient_permissions", "", "invalid_prompt"},
	codec.KindInvalidRequest:   {http.StatusBadRequest, "invalid_request_error", "", "invalid_prompt"},
	codec.KindNotFound:         {http.StatusNotFound, "invalid_request_error", "", "invalid_prompt"},
	codec.KindConflict:         {http.StatusConflict, "invalid_request_error", "", "invalid_prompt"},
	codec.KindTooLarge:         {http.StatusRequestEntityTooLarge, "invalid_request_error", "", "invalid_prompt"},
	codec.KindUnsupportedMedia: {http.StatusUnsupportedMediaType, "invalid_request_error", "", "invalid_prompt"},
	codec.KindRateLimited:      {http.StatusTooManyRequests, "requests", codeRateLimit, codeRateLimit},
	codec.KindQuota:            {http.StatusTooManyRequests, "insufficient_quota", "insufficient_quota", "insufficient_quota"},
	codec.KindOverloaded:       {http.StatusServiceUnavailable, "server_error", "server_is_overloaded", "server_is_overloaded"},
	codec.KindUpstream:         {http.StatusBadGateway, "server_error", "", "server_error"},
	codec.KindUpstreamAuth:     {http.StatusBadGateway, "api_error", "upstream_auth", "server_error"},
	codec.KindTimeout:          {http.StatusGatewayTimeout, "server_error", "timeout", "server_error"},
	codec.KindContextTooLong:   {http.StatusBadRequest, "invalid_request_error", "context_length_exceeded", "context_length_exceeded"},
	codec.KindStorage:          {http.StatusServiceUnavailable, "server_error", "storage_unavailable", "server_error"},
	codec.KindUnsupported:      {http.StatusNotImplemented, "invalid_request_error", "not_supported_here", "invalid_prompt"},
}

const codeRateLimit = "rate_limit_exceeded"

func wordingOf(kind codec.Kind) wording {
	if w, known := wordings[kind]; known {
		return w
	}
	return wordings[codec.KindInternal]
}

// Status implements [codec.ClientCodec].
func (client) Status(e *codec.Error) int {
	if e.Kind == codec.KindUpstream && e.Status == http.StatusInternalServerError {
		return e.Status
	}
	return wordingOf(e.Kind).status
}

// AppendError implements [codec.ClientCodec].
func (client) AppendError(dst []byte, e *codec.Error, _ *codec.AnswerOptions) []byte {
	w := wordingOf(e.Kind)
	dst = append(dst, `{"error":{"message":`...)
	dst = scan.Quote(dst, e.Message)
	dst = append(dst, `,"type":"`...)
	dst = append(dst, w.kind...)
	dst = append(dst, `","param":`...)
	dst = appendStringOrNull(dst, e.Param)
	dst = append(dst, `,"code":`...)
	code := e.Code
	if w.code != "" {
		code = w.code
	}
	dst = appendStringOrNull(dst, code)
	return append(dst, `}}`...)
}

// appendFailure writes the error member of a failed response. Clients parse the delay before a retry from the message
// of a rate limit error (docs/wire/responses.md#13.5).
func appendFailure(dst []byte, e *codec.Error) []byte {
	w := wordingOf(e.Kind)
	message := e.Message
	if w.stream == codeRateLimit && e.RetryAfter > 0 && !strings.Contains(message, "try again in") {
		seconds := strconv.FormatFloat(e.RetryAfter.Round(time.Millisecond).Seconds(), 'f', -1, 64)
		message += " Please try again in " + seconds + "s."
	}
	dst = append(dst, `{"code":"`...)
	dst = append(dst, w.stream...)
	dst = append(dst, `","message":`...)
	dst = scan.Quote(dst, message)
	return append(dst, '}')
}

func appendStringOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return scan.Quote(dst, s)
}
