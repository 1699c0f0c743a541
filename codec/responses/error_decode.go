package responses

import (
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/failure"
	"github.com/mnemeproxy/mneme/codec/scan"
)

// DecodeError implements [codec.ProviderCodec].
func (provider) DecodeError(status int, retryAfter time.Duration, body []byte) *codec.Error {
	err := &codec.Error{Kind: codec.KindUpstream}
	if scan.Valid(body) {
		err = readError(body)
	} else {
		err.Message = failure.Unreadable(status, body)
	}
	err.Status = status
	if retryAfter > 0 {
		err.RetryAfter = retryAfter
	}
	if kind, known := failure.KindOfStatus(status); known && !finer(err.Kind, kind) {
		err.Kind = kind
		if kind == codec.KindInvalidRequest {
			err.Kind = failure.KindOfRefusal(err.Message)
		}
	}
	return failure.Finish(err)
}

// errorIn decodes an error inside a stream or an answer.
func errorIn(body []byte) *codec.Error { return failure.Finish(readError(body)) }

// readError decodes the error in body. The kind follows from the codes, and is KindUpstream if they are unknown. A
// param is omitted: it is a path in this format, and the client may use another.
func readError(body []byte) *codec.Error {
	found := failure.Find(body)
	if scan.IsString(found) {
		return &codec.Error{Kind: codec.KindUpstream, Message: failure.String(found), RetryAfter: failure.Wait(found)}
	}
	err := &codec.Error{Kind: codec.KindUpstream, RetryAfter: failure.Wait(found)}
	var words [3]string // code, type and status: any of them may be the informative one
	for m := scan.Object(found); m.Next(); {
		switch string(m.Key) {
		case "message", "detail":
			err.Message = failure.String(m.Value)
		case "code":
			words[0] = failure.String(m.Value)
		case "type":
			words[1] = failure.String(m.Value)
		case "status":
			words[2] = failure.String(m.Value)
		}
	}
	err.Code = words[0]
	for _, word := range words {
		if kind, known := kindOfWord(word); known {
			err.Kind = kind
			break
		}
	}
	if err.Kind == codec.KindInvalidRequest {
		err.Kind = failure.KindOfRefusal(err.Message)
	}
	return err
}

// kindOfWord classifies a code, type or status. If the code is known, the less specific ones are not consulted.
func kindOfWord(word string) (kind codec.Kind, known bool) {
	switch word {
	case "server_error", "api_error", "INTERNAL":
		return codec.KindUpstream, true
	case "invalid_prompt", "bio_policy", "cyber_policy", "misalignment_policy_violation", "data_residency_mismatch":
		return codec.KindInvalidRequest, true
	}
	if strings.Contains(word, "image") { // invalid_image_format, image_too_large and similar
		return codec.KindInvalidRequest, true
	}
	return failure.KindOfWord(word)
}

// finer reports whether the kind from the codes refines the kind from the status.
func finer(code, status codec.Kind) bool {
	if code == codec.KindUpstreamAuth {
		return true
	}
	switch status {
	case codec.KindInvalidRequest:
		return code == codec.KindContextTooLong || code == codec.KindQuota || code == codec.KindNotFound
	case codec.KindRateLimited:
		return code == codec.KindQuota || code == codec.KindOverloaded
	case codec.KindUpstream:
		return code == codec.KindOverloaded || code == codec.KindTimeout
	}
	return false
}
