package provider

import (
	"bytes"
	"fmt"
	"net/http"
	"strconv"
)

// A class of error, with a word, status and type of its own in every format.
type class uint8

const (
	classInvalid class = iota
	classAuthentication
	classBilling
	classPermission
	classNotFound
	classTooLarge
	classRateLimit
	classServer
	classOverloaded
	classTimeout
	classContext
)

// classNames are the words that scripts use.
var classNames = map[string]class{
	"invalid": classInvalid, "authentication": classAuthentication, "billing": classBilling,
	"permission": classPermission, "not-found": classNotFound, "too-large": classTooLarge,
	"rate-limit": classRateLimit, "server": classServer, "overloaded": classOverloaded,
	"timeout": classTimeout, "context": classContext,
}

// A fault is an error as a provider would answer it. The zero values of status, message and code stand for the
// usual ones of the class.
type fault struct {
	class      class
	status     int
	message    string
	param      string // the member at fault
	code       string // chat, responses and embeddings only
	reason     string // gemini only: ErrorInfo.reason
	retryAfter string // seconds
	event      bool   // responses only: an error event instead of response.failed
}

func (f *fault) Error() string { return f.message }

// refuse makes the fault of a request that is wrong at one place.
func refuse(param, format string, args ...any) *fault {
	return &fault{class: classInvalid, param: param, message: fmt.Sprintf(format, args...)}
}

// coded gives a refusal a machine-readable code.
func (f *fault) coded(code string) *fault {
	f.code = code
	return f
}

// classRow holds what each family of formats says about a class.
type classRow struct {
	openai, messages, gemini             int    // statuses
	openaiType, openaiCode, messagesType string // bodies
	geminiStatus                         string
	message                              string
}

// classRows follow docs/wire/chat-completions.md#4.2, docs/wire/messages.md#5 and docs/wire/generate-content.md#5.
var classRows = [...]classRow{
	classInvalid:        {400, 400, 400, "invalid_request_error", "", "invalid_request_error", "INVALID_ARGUMENT", "The request is invalid."},
	classAuthentication: {401, 401, 401, "invalid_request_error", "invalid_api_key", "authentication_error", "UNAUTHENTICATED", "Incorrect API key provided."},
	classBilling:        {429, 402, 429, "insufficient_quota", "insufficient_quota", "billing_error", "RESOURCE_EXHAUSTED", "You exceeded your current quota, please check your plan and billing details."},
	classPermission:     {403, 403, 403, "invalid_request_error", "unsupported_country_region_territory", "permission_error", "PERMISSION_DENIED", "You do not have permission to use this resource."},
	classNotFound:       {404, 404, 404, "invalid_request_error", "model_not_found", "not_found_error", "NOT_FOUND", "The model does not exist or you do not have access to it."},
	classTooLarge:       {413, 413, 413, "invalid_request_error", "", "request_too_large", "INVALID_ARGUMENT", "The request exceeds the maximum allowed number of bytes."},
	classRateLimit:      {429, 429, 429, "requests", "rate_limit_exceeded", "rate_limit_error", "RESOURCE_EXHAUSTED", "Rate limit reached. Please try again in 1s."},
	classServer:         {500, 500, 500, "server_error", "server_error", "api_error", "INTERNAL", "The server had an error while processing your request."},
	classOverloaded:     {503, 529, 503, "service_unavailable_error", "server_is_overloaded", "overloaded_error", "UNAVAILABLE", "Overloaded"},
	classTimeout:        {504, 504, 504, "server_error", "timeout", "timeout_error", "DEADLINE_EXCEEDED", "The request took too long."},
	classContext:        {400, 400, 400, "invalid_request_error", "context_length_exceeded", "invalid_request_error", "INVALID_ARGUMENT", "prompt is too long: 300000 tokens > 200000 maximum"},
}

func classOfStatus(status int) class {
	switch status {
	case http.StatusUnauthorized:
		return classAuthentication
	case http.StatusPaymentRequired:
		return classBilling
	case http.StatusForbidden:
		return classPermission
	case http.StatusNotFound:
		return classNotFound
	case http.StatusRequestEntityTooLarge:
		return classTooLarge
	case http.StatusTooManyRequests:
		return classRateLimit
	case http.StatusServiceUnavailable, 529:
		return classOverloaded
	case http.StatusGatewayTimeout:
		return classTimeout
	}
	if status >= 500 {
		return classServer
	}
	return classInvalid
}

func (f *fault) text() string {
	if f.message != "" {
		return f.message
	}
	return classRows[f.class].message
}

// openaiError appends the error object of chat, responses and embeddings.
func (f *fault) openaiError(dst []byte) []byte {
	row := classRows[f.class]
	code := f.code
	if code == "" {
		code = row.openaiCode
	}
	dst = append(dst, `{"message":`...)
	dst = appendString(dst, f.text())
	dst = append(dst, `,"type":`...)
	dst = appendString(dst, row.openaiType)
	dst = append(dst, `,"param":`...)
	dst = appendStringOrNull(dst, f.param)
	dst = append(dst, `,"code":`...)
	dst = appendStringOrNull(dst, code)
	return append(dst, '}')
}

func (f *fault) openaiStatus() int {
	if f.status != 0 {
		return f.status
	}
	return classRows[f.class].openai
}

func appendStringOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return appendString(dst, s)
}

// messagesError appends the whole error envelope of Messages, which is also the data of its error event.
func (f *fault) messagesError(dst []byte, requestID string) []byte {
	dst = append(dst, `{"type":"error","error":{"type":`...)
	dst = appendString(dst, classRows[f.class].messagesType)
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, f.text())
	dst = append(dst, `},"request_id":`...)
	dst = appendString(dst, requestID)
	return append(dst, '}')
}

func (f *fault) messagesStatus() int {
	if f.status != 0 {
		return f.status
	}
	return classRows[f.class].messages
}

// geminiError appends the whole error body of Gemini. The time to wait is in the body there, not in a header.
func (f *fault) geminiError(dst []byte) []byte {
	dst = append(dst, `{"error":{"code":`...)
	dst = strconv.AppendInt(dst, int64(f.geminiStatus()), 10)
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, f.text())
	dst = append(dst, `,"status":`...)
	dst = appendString(dst, classRows[f.class].geminiStatus)
	var details [][]byte
	if f.param != "" {
		detail := append([]byte(nil), `{"@type":"type.googleapis.com/google.rpc.BadRequest","fieldViolations":[{"field":`...)
		detail = appendString(detail, f.param)
		detail = append(detail, `,"description":`...)
		detail = appendString(detail, f.text())
		details = append(details, append(detail, `}]}`...))
	}
	if f.reason != "" {
		detail := append([]byte(nil), `{"@type":"type.googleapis.com/google.rpc.ErrorInfo","reason":`...)
		detail = appendString(detail, f.reason)
		details = append(details, append(detail, `,"domain":"googleapis.com"}`...))
	}
	if f.retryAfter != "" {
		detail := append([]byte(nil), `{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":`...)
		detail = appendString(detail, f.retryAfter+"s")
		details = append(details, append(detail, '}'))
	}
	if len(details) > 0 {
		dst = append(dst, `,"details":[`...)
		dst = append(dst, bytes.Join(details, []byte{','})...)
		dst = append(dst, ']')
	}
	return append(dst, "}}"...)
}

func (f *fault) geminiStatus() int {
	if f.status != 0 {
		return f.status
	}
	return classRows[f.class].gemini
}
