package gemini

import (
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/failure"
	"github.com/mnemeproxy/mneme/codec/scan"
)

func unreadable() *codec.Error {
	return codec.Errorf(codec.KindUpstream, "the provider sent something that is not a generateContent answer")
}

func cutShort(started bool) *codec.Error {
	if !started {
		return codec.Errorf(codec.KindUpstream, "the provider ended the stream without an answer")
	}
	return codec.Errorf(codec.KindUpstream, "the provider ended the stream before the answer was complete")
}

func malformedCall(message []byte) *codec.Error {
	err := codec.Errorf(codec.KindUpstream, "the model tried to call a tool in a way that cannot be read; try again")
	err.Code = "malformed_tool_call"
	if text := failure.Text(scan.Unescape(nil, message)); text != "" {
		err.Message += ": " + text
	}
	return err
}

// DecodeError reads the body of an error answer: a google.rpc.Status, alone or as the element of an array; the shapes
// of other formats, used by relays; or anything else, which is quoted.
func (p *provider) DecodeError(status int, retryAfter time.Duration, body []byte) *codec.Error {
	if !scan.Valid(body) {
		return classify(fault{status: status, retryAfter: retryAfter, message: failure.Unreadable(status, body)})
	}
	return decodeStatus(status, retryAfter, failure.Find(body))
}

// fault is the content of an error answer, independent of its shape.
type fault struct {
	status     int    // HTTP
	word       string // canonical code of google.rpc, or the error type of another format
	reason     string // of the ErrorInfo detail
	quota      string // id of the exhausted quota
	message    string
	retryAfter time.Duration
}

// decodeStatus reads a google.rpc.Status. A status of 0 is replaced by the one in the body: errors in frames have no
// HTTP status. A retryAfter of 0 is replaced by the time in the details or the message.
func decodeStatus(status int, retryAfter time.Duration, object []byte) *codec.Error {
	f := fault{status: status, retryAfter: retryAfter}
	if scan.IsString(object) {
		f.message = failure.String(object)
		return classify(f)
	}
	var details []byte
	for m := scan.Object(object); m.Next(); {
		switch string(m.Key) {
		case "code":
			if n, ok := scan.Int(m.Value); ok && f.status == 0 && n >= 400 && n < 600 {
				f.status = int(n)
			}
		case "status", "type":
			if word := scan.String(m.Value); f.word == "" || string(m.Key) == "status" {
				f.word = word
			}
		case "message":
			f.message = failure.String(m.Value)
		case "details":
			details = m.Value
		}
	}
	if inner, ok := failure.Wrapped(f.message); ok {
		return decodeStatus(f.status, f.retryAfter, inner)
	}
	for e := scan.Array(details); e.Next(); {
		f.detail(e.Value)
	}
	if f.retryAfter == 0 {
		f.retryAfter = failure.Wait(object)
	}
	return classify(f)
}

func (f *fault) detail(detail []byte) {
	kind := scan.String(scan.Get(detail, "@type"))
	switch kind[strings.LastIndexByte(kind, '.')+1:] {
	case "ErrorInfo":
		f.reason = scan.String(scan.Get(detail, "reason"))
	case "QuotaFailure":
		for e := scan.Array(scan.Get(detail, "violations")); e.Next(); {
			f.quota += scan.String(scan.Get(e.Value, "quotaId")) + " "
		}
	}
}

// classify finds the kind (docs/wire/generate-content.md#5). The body overrides the HTTP status: one status has several
// causes.
func classify(f fault) *codec.Error {
	err := &codec.Error{Kind: f.kind(), Message: f.message, Status: f.status, RetryAfter: f.retryAfter}
	switch err.Kind {
	case codec.KindNotFound:
		err.Code = "model_not_found"
	case codec.KindContextTooLong:
		err.Code = "context_length_exceeded"
	}
	err = failure.Finish(err)
	if err.Kind == codec.KindUpstreamAuth && f.reason != "" {
		err.Message += " (" + failure.Text([]byte(f.reason)) + ")"
	}
	return err
}

func (f *fault) kind() codec.Kind {
	switch {
	case strings.HasPrefix(f.reason, "API_KEY_"), f.reason == "ACCESS_TOKEN_EXPIRED", strings.Contains(f.message, "API key"):
		return codec.KindUpstreamAuth
	case f.reason == "MODEL_CAPACITY_EXHAUSTED":
		return codec.KindOverloaded
	case f.tooLong():
		return codec.KindContextTooLong
	}
	switch f.word {
	case "INVALID_ARGUMENT", "FAILED_PRECONDITION", "OUT_OF_RANGE":
		return codec.KindInvalidRequest
	case "UNAUTHENTICATED":
		return codec.KindUpstreamAuth
	case "PERMISSION_DENIED":
		return codec.KindPermission
	case "NOT_FOUND":
		return codec.KindNotFound
	case "ALREADY_EXISTS", "ABORTED":
		return codec.KindConflict
	case "RESOURCE_EXHAUSTED":
		return f.exhausted()
	case "UNAVAILABLE", "overloaded_error":
		return codec.KindOverloaded
	case "DEADLINE_EXCEEDED":
		return codec.KindTimeout
	case "INTERNAL", "UNKNOWN", "DATA_LOSS", "CANCELLED":
		return codec.KindUpstream
	}
	kind, _ := failure.KindOfStatus(f.status)
	if kind == codec.KindRateLimited {
		return f.exhausted()
	}
	return kind
}

// exhausted reports whether a quota is used up for the day or is zero; a rate limit recovers within minutes.
func (f *fault) exhausted() codec.Kind {
	if strings.Contains(f.quota, "PerDay") || strings.Contains(f.quota, "Daily") || strings.Contains(f.message, "limit: 0") {
		return codec.KindQuota
	}
	return codec.KindRateLimited
}

// tooLong recognizes the message about a prompt that does not fit the model; it has no code of its own.
func (f *fault) tooLong() bool {
	return strings.Contains(f.message, "input token count") && strings.Contains(f.message, "exceeds the maximum")
}
