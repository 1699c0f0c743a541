package codec

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"
)

// Kind classifies an [Error]; each surface maps it to the type its clients expect (one table per format:
// docs/wire/translation.md#3.3 and #3.4).
type Kind uint8

const (
	KindInternal         Kind = iota // an internal error
	KindAuthentication               // the caller's key is missing or unknown
	KindPermission                   // the caller's key is known but may not do this
	KindInvalidRequest               // the body or a header is wrong; Param names it
	KindNotFound                     // no such model, exchange, session
	KindConflict                     // the object's state does not allow it
	KindTooLarge                     // over a size limit
	KindUnsupportedMedia             // an unsupported content type or encoding
	KindRateLimited                  // too many requests; RetryAfter says how long to wait
	KindQuota                        // no credit left with the provider; retrying does not help
	KindOverloaded                   // the provider or we are at capacity; RetryAfter may say how long
	KindUpstream                     // the provider failed or its answer is unreadable
	KindUpstreamAuth                 // the provider refused our credential, not the caller's
	KindTimeout                      // the provider did not answer in time
	KindContextTooLong               // the conversation does not fit the model
	KindStorage                      // the exchange cannot be recorded
	KindUnsupported                  // this server's configuration cannot do it
)

type kind struct {
	name   string
	status int // HTTP
}

var kinds = [...]kind{
	KindInternal:         {"internal", http.StatusInternalServerError},
	KindAuthentication:   {"authentication", http.StatusUnauthorized},
	KindPermission:       {"permission", http.StatusForbidden},
	KindInvalidRequest:   {"invalid_request", http.StatusBadRequest},
	KindNotFound:         {"not_found", http.StatusNotFound},
	KindConflict:         {"conflict", http.StatusConflict},
	KindTooLarge:         {"too_large", http.StatusRequestEntityTooLarge},
	KindUnsupportedMedia: {"unsupported_media", http.StatusUnsupportedMediaType},
	KindRateLimited:      {"rate_limited", http.StatusTooManyRequests},
	KindQuota:            {"quota", http.StatusTooManyRequests},
	KindOverloaded:       {"overloaded", http.StatusServiceUnavailable},
	KindUpstream:         {"upstream", http.StatusBadGateway},
	KindUpstreamAuth:     {"upstream_auth", http.StatusBadGateway},
	KindTimeout:          {"timeout", http.StatusGatewayTimeout},
	KindContextTooLong:   {"context_too_long", http.StatusBadRequest},
	KindStorage:          {"storage", http.StatusServiceUnavailable},
	KindUnsupported:      {"unsupported", http.StatusNotImplemented},
}

func (k Kind) known() kind {
	if int(k) < len(kinds) {
		return kinds[k]
	}
	return kinds[KindInternal]
}

// String returns the name used in records, logs and metrics.
func (k Kind) String() string { return k.known().name }

// ParseKind reads a name as [Kind.String] writes it.
func ParseKind(name string) (Kind, bool) {
	i := slices.IndexFunc(kinds[:], func(k kind) bool { return k.name == name })
	return Kind(max(i, 0)), i >= 0
}

// Error is the one error type that reaches clients. Message is written for the person who has to act on it; it never
// quotes a credential or a library's error text. The zero Code and Param are left out or null on the wire.
type Error struct {
	Kind       Kind
	Message    string
	Code       string        // machine-readable cause within the kind, e.g. "model_not_found"
	Param      string        // the member at fault, as a path in the client's own format, e.g. "messages[2].content"
	Status     int           // HTTP status seen upstream; 0 for our own errors
	RetryAfter time.Duration // 0 if unknown
	Provider   string        // provider that failed; "" for our own errors
	Cause      error         // for logs only, never for clients
}

func (e *Error) Error() string {
	if e.Param != "" {
		return fmt.Sprintf("%s: %s (%s)", e.Kind, e.Message, e.Param)
	}
	return fmt.Sprintf("%s: %s", e.Kind, e.Message)
}

func (e *Error) Unwrap() error { return e.Cause }

// HTTPStatus returns the status by which clients of most formats know the error. A provider's 500 stays one.
func (e *Error) HTTPStatus() int {
	if e.Kind == KindUpstream && e.Status == http.StatusInternalServerError {
		return e.Status
	}
	return e.Kind.known().status
}

// Errorf returns an [Error] of the given kind.
func Errorf(kind Kind, format string, args ...any) *Error {
	return &Error{Kind: kind, Message: fmt.Sprintf(format, args...)}
}

// AsError returns err as an [Error]. Any other error becomes an internal one with the message otherwise, and err as its
// cause.
func AsError(err error, otherwise string) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Kind: KindInternal, Message: otherwise, Cause: err}
}

// Invalid returns a [KindInvalidRequest] error about one member of the request.
func Invalid(param, format string, args ...any) *Error {
	return &Error{Kind: KindInvalidRequest, Param: param, Message: fmt.Sprintf(format, args...)}
}
