package chat

import (
	"bytes"
	"net/http"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/failure"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// rendering is how this format's clients see a kind of error (docs/wire/translation.md#3.3).
type rendering struct {
	kind string // the member type
	code string // if the error has none; "" is null on the wire
}

var renderings = map[codec.Kind]rendering{
	codec.KindAuthentication:   {"invalid_request_error", "invalid_api_key"},
	codec.KindPermission:       {"insufficient_permissions", "insufficient_permissions"},
	codec.KindInvalidRequest:   {"invalid_request_error", ""},
	codec.KindNotFound:         {"invalid_request_error", ""},
	codec.KindConflict:         {"invalid_request_error", ""},
	codec.KindTooLarge:         {"invalid_request_error", "request_too_large"},
	codec.KindUnsupportedMedia: {"invalid_request_error", "unsupported_media_type"},
	codec.KindRateLimited:      {"rate_limit_error", "rate_limit_exceeded"},
	codec.KindQuota:            {"insufficient_quota", "insufficient_quota"},
	codec.KindOverloaded:       {"server_error", "server_is_overloaded"},
	codec.KindUpstream:         {"server_error", "upstream_error"},
	codec.KindUpstreamAuth:     {"api_error", "upstream_auth"},
	codec.KindTimeout:          {"server_error", "timeout"},
	codec.KindContextTooLong:   {"invalid_request_error", "context_length_exceeded"},
	codec.KindStorage:          {"server_error", "storage_unavailable"},
	codec.KindUnsupported:      {"invalid_request_error", "not_supported_here"},
}

func render(e *codec.Error) rendering {
	r, known := renderings[e.Kind]
	if !known {
		r = rendering{"server_error", "internal_error"}
	}
	if e.Code != "" {
		r.code = e.Code
	}
	return r
}

// Status returns the HTTP status for e.
func (client) Status(e *codec.Error) int { return e.HTTPStatus() }

// AppendError writes the body of an error, before an answer or inside a stream, always with all four members.
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

// report is the content of an error body of any shape.
type report struct {
	message string
	code    string
	kind    string // the member type, or Google's status word
	number  int    // an HTTP status in the body; 0 if there is none
}

// readError reads an error body or an error inside a stream, where status is 0.
func readError(status int, retryAfter time.Duration, body []byte) *codec.Error {
	r := readReport(status, body)
	if status < http.StatusBadRequest { // xAI reports errors with status 200
		status = r.number
	}
	e := &codec.Error{
		Kind: classify(status, &r), Message: r.message, Code: r.code, Status: status, RetryAfter: retryAfter,
	}
	if e.RetryAfter == 0 {
		e.RetryAfter = failure.Wait(body)
	}
	if !codeOfFormat(e.Kind, e.Code) {
		e.Code = ""
	}
	return failure.Finish(e)
}

// codeOfFormat reports whether a code tells a client more than the kind does; a kind's own code is written with it
// anyway.
func codeOfFormat(kind codec.Kind, code string) bool {
	switch kind {
	case codec.KindInvalidRequest, codec.KindNotFound, codec.KindConflict, codec.KindPermission, codec.KindQuota:
		return code != "" && strings.Trim(code, "0123456789") != ""
	}
	return false
}

// readReport finds the message in any shape: {"error":{…}}, {"error":"…"}, flat members (Mistral, xAI), a list of
// complaints (FastAPI's detail), the same inside an array (Google), or text that is not JSON at all (P47).
func readReport(status int, body []byte) (r report) {
	body = bytes.TrimSpace(body)
	if !scan.Valid(body) {
		if !bytes.HasPrefix(body, []byte("<")) { // a page of markup says less than the status
			r.message = failure.Unreadable(status, body)
		}
		return r
	}
	body = failure.Element(body)
	r.members(body)
	for m := scan.Object(body); m.Next(); {
		switch string(m.Key) {
		case "error":
			if scan.IsString(m.Value) {
				r.message = failure.String(m.Value)
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
			if text := failure.String(m.Value); text != "" {
				r.message = text
			}
		case "code":
			if n, ok := scan.Int(m.Value); ok && n >= 400 && n < 600 {
				r.number = int(n)
			} else if text := failure.String(m.Value); text != "" {
				r.code = text
			}
		case "type", "status":
			if text := failure.String(m.Value); text != "" && text != "error" {
				r.kind = text
			}
		}
	}
}

// detail joins FastAPI's complaints: place and message.
func (r *report) detail(v []byte) {
	if scan.IsString(v) {
		r.message = failure.String(v)
		return
	}
	var all strings.Builder
	for e := scan.Array(v); e.Next() && all.Len() < failure.MaxText; {
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
		r.message = failure.Text([]byte(all.String()))
		r.kind = "invalid_request_error"
	}
}

// classify uses the code and type if they are known words, then the status (P103).
func classify(status int, r *report) codec.Kind {
	if kind, known := failure.KindOfWord(r.code); known {
		return kind
	}
	if kind, known := kindOfStatus(status, r); known {
		return kind
	}
	kind, _ := failure.KindOfWord(r.kind)
	return kind
}

// kindOfStatus examines two statuses with several causes.
func kindOfStatus(status int, r *report) (kind codec.Kind, known bool) {
	kind, known = failure.KindOfStatus(status)
	switch kind {
	case codec.KindInvalidRequest:
		kind = failure.KindOfRefusal(r.message)
	case codec.KindRateLimited:
		if named, _ := failure.KindOfWord(r.kind); named == codec.KindQuota {
			kind = named
		}
	}
	return kind, known
}
