package router

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strconv"
)

// A wire adapts calls to a host that differs from the vendor's own API: other paths, another credential, other stream
// framing. It is safe for concurrent use.
type wire interface {
	// url returns the URL of a call, nil if the host has no such operation.
	url(c *Call) *url.URL
	// request returns the body in the host's form, and changes the headers of out. It may obtain a credential.
	request(ctx context.Context, c *Call, out *outgoing, body []byte) ([]byte, error)
	// answer rewrites an answer to the form of the vendor's own API.
	answer(c *Call, in *incoming)
}

// under returns a URL below a base, with a path of which parts may be escaped, and a query.
func under(base *url.URL, path, query string) *url.URL {
	u := *base
	u.RawQuery = query
	u.Path = base.Path + path
	if plain, err := url.PathUnescape(path); err == nil && plain != path {
		u.Path, u.RawPath = base.Path+plain, base.EscapedPath()+path
	}
	return &u
}

// members is a JSON object whose members keep their bytes.
type members map[string]json.RawMessage

// rewritten returns the body with members removed and set.
func rewritten(body []byte, change func(members)) ([]byte, error) {
	var m members
	if err := json.Unmarshal(body, &m); err != nil || m == nil {
		return nil, errors.New("the body is no JSON object")
	}
	change(m)
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(m); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}

// mostOfRefusal is how many bytes of a refusal's body are read for rewriting.
const mostOfRefusal = 1 << 20

// refusal is a body that is read on demand, and rewritten in the form of the Messages format.
type refusal struct {
	from   io.ReadCloser
	status int
	text   *bytes.Reader
}

func (r *refusal) Read(p []byte) (int, error) {
	if r.text == nil {
		body, err := io.ReadAll(io.LimitReader(r.from, mostOfRefusal))
		if err != nil {
			return 0, err
		}
		r.text = bytes.NewReader(inMessages(body, r.status))
	}
	return r.text.Read(p)
}

func (r *refusal) Close() error { return r.from.Close() }

// inMessages rewrites a cloud's refusal in the form of Anthropic's.
func inMessages(body []byte, status int) []byte {
	var said struct {
		Type    string          `json:"type"`
		Message string          `json:"message"`
		Other   string          `json:"Message"`
		Error   json.RawMessage `json:"error"`
	}
	if json.Unmarshal(body, &said) == nil && said.Type == "error" {
		return body
	}
	var inner struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(said.Error, &inner)
	message := said.Message
	for _, other := range []string{said.Other, inner.Message, "HTTP " + strconv.Itoa(status)} {
		if message == "" {
			message = other
		}
	}
	return errorInMessages(typeOfStatus(status), message)
}

func errorInMessages(kind, message string) []byte {
	text, _ := json.Marshal(map[string]any{"type": "error", "error": map[string]string{"type": kind, "message": message}})
	return text
}

// typeOfStatus returns the error type of the Messages format for a status (docs/wire/messages.md).
func typeOfStatus(status int) string {
	switch {
	case status == 401:
		return "authentication_error"
	case status == 403:
		return "permission_error"
	case status == 404:
		return "not_found_error"
	case status == 413:
		return "request_too_large"
	case status == 429:
		return "rate_limit_error"
	case status == 503 || status == 529:
		return "overloaded_error"
	case status >= 500:
		return "api_error"
	}
	return "invalid_request_error"
}
