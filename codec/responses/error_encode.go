package responses

import (
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// wording is the form of one kind of error in this format (docs/wire/translation.md#3.3).
type wording struct {
	kind   string // member type
	code   string // member code if the error has none of its own
	stream string // error.code of response.failed, by which Codex decides whether to retry
}

var wordings = map[codec.Kind]wording{
	codec.KindAuthentication:   {"invalid_request_error", "invalid_api_key", "server_error"},
	codec.KindPermission:       {"insufficient_permissions", "", "invalid_prompt"},
	codec.KindInvalidRequest:   {"invalid_request_error", "", "invalid_prompt"},
	codec.KindNotFound:         {"invalid_request_error", "", "invalid_prompt"},
	codec.KindConflict:         {"invalid_request_error", "", "invalid_prompt"},
	codec.KindTooLarge:         {"invalid_request_error", "", "invalid_prompt"},
	codec.KindUnsupportedMedia: {"invalid_request_error", "", "invalid_prompt"},
	codec.KindRateLimited:      {"requests", codeRateLimit, codeRateLimit},
	codec.KindQuota:            {"insufficient_quota", "insufficient_quota", "insufficient_quota"},
	codec.KindOverloaded:       {"server_error", "server_is_overloaded", "server_is_overloaded"},
	codec.KindUpstreamAuth:     {"api_error", "upstream_auth", "server_error"},
	codec.KindTimeout:          {"server_error", "timeout", "server_error"},
	codec.KindContextTooLong:   {"invalid_request_error", "context_length_exceeded", "context_length_exceeded"},
	codec.KindStorage:          {"server_error", "storage_unavailable", "server_error"},
	codec.KindUnsupported:      {"invalid_request_error", "not_supported_here", "invalid_prompt"},
}

const codeRateLimit = "rate_limit_exceeded"

func wordingOf(kind codec.Kind) wording {
	if w, known := wordings[kind]; known {
		return w
	}
	return wording{"server_error", "", "server_error"}
}

// Status implements [codec.ClientCodec].
func (client) Status(e *codec.Error) int { return e.HTTPStatus() }

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
