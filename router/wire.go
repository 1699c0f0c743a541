package router

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/url"
	"strconv"

	"github.com/mnemeproxy/mneme/codec"
)

// A wire is how calls to a host look where that differs from the vendor's own API: other paths, another credential, another
// framing of streams. It is safe for concurrent use.
type wire interface {
	// url is where a call goes, nil where the host has no such operation.
	url(c *Call) *url.URL
	// request gives the body as the host wants it, and changes the headers of out. It may ask for a credential.
	request(ctx context.Context, c *Call, out *outgoing, body []byte) ([]byte, error)
	// answer gives an answer the form that the format has at its vendor.
	answer(c *Call, in *incoming)
}

// urlOf is where a call to the endpoint goes, nil where it has no such operation.
func (e *endpoint) urlOf(c *Call) *url.URL {
	if e.wire != nil {
		return e.wire.url(c)
	}
	return e.urls.of(c)
}

// under is a URL under a base, with a path of which parts may be escaped, and a query.
func under(base *url.URL, path, query string) *url.URL {
	u := *base
	u.RawQuery = query
	u.Path = base.Path + path
	if plain, err := url.PathUnescape(path); err == nil && plain != path {
		u.Path, u.RawPath = base.Path+plain, base.EscapedPath()+path
	}
	return &u
}

// members is a JSON object as far as it is looked into: its members keep their bytes.
type members map[string]json.RawMessage

// rewritten gives the body with members taken out and set.
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

// mostOfRefusal is as much of a refusal's body as is read to be put in another form, in bytes.
const mostOfRefusal = 1 << 20

// refusal is a body that is read once it is asked for, and given in the form of the Messages format.
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

// inMessages is the refusal of a cloud as Anthropic words its own.
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

// typeOfStatus is the type of error that the Messages format has for a status (docs/wire/messages.md).
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

// cloudFault is the error for a call that could not be given a credential.
func (e *endpoint) cloudFault(err error) *codec.Error {
	return e.faultf(codec.KindUpstreamAuth, err,
		"There is no credential for %s (%s): mneme found none where the cloud's own tools look for it. Its log says what they said.", e.provider.name, e.address)
}
