package router

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/mnemeproxy/mneme/codec"
)

// vertex is Google's Vertex AI, with Gemini in Google's own format and Claude in Anthropic's (docs/wire/hosts.md#vertex).
// It is opened by a token of the application default credentials, which the official library finds and renews.
type vertex struct {
	base  *url.URL // up to the location
	mu    sync.Mutex
	token oauth2.TokenSource // nil until the first call
}

const (
	vertexScope     = "https://www.googleapis.com/auth/cloud-platform"
	vertexAnthropic = "vertex-2023-10-16" // the version of the Messages format that is spoken there
)

func newVertex(c *ProviderConfig, base *url.URL) wire {
	return &vertex{base: under(base, "/v1/projects/"+c.Project+"/locations/"+cmp.Or(c.Region, "global"), "")}
}

func (v *vertex) url(c *Call) *url.URL {
	model := url.PathEscape(c.Model)
	switch {
	case c.Format == codec.Messages && c.Operation == Generate && c.Stream:
		return under(v.base, "/publishers/anthropic/models/"+model+":streamRawPredict", "")
	case c.Format == codec.Messages && c.Operation == Generate:
		return under(v.base, "/publishers/anthropic/models/"+model+":rawPredict", "")
	case c.Format == codec.Messages && c.Operation == CountTokens:
		return under(v.base, "/publishers/anthropic/models/count-tokens:rawPredict", "")
	case c.Format == codec.Gemini && c.Operation == Generate && c.Stream:
		return under(v.base, "/publishers/google/models/"+model+":streamGenerateContent", "alt=sse")
	case c.Format == codec.Gemini && c.Operation == Generate:
		return under(v.base, "/publishers/google/models/"+model+":generateContent", "")
	case c.Format == codec.Gemini && c.Operation == CountTokens:
		return under(v.base, "/publishers/google/models/"+model+":countTokens", "")
	}
	return nil
}

func (v *vertex) request(_ context.Context, c *Call, out *outgoing, body []byte) ([]byte, error) {
	if c.Credential.IsZero() { // a caller's own token goes as it is
		token, err := v.current()
		if err != nil {
			return nil, err
		}
		out.header.Del("X-Api-Key")
		out.header.Del("X-Goog-Api-Key")
		out.header["Authorization"] = []string{"Bearer " + token}
	}
	if c.Format != codec.Messages {
		return body, nil
	}
	return rewritten(body, func(m members) {
		if c.Operation == Generate {
			delete(m, "model")
		}
		m["anthropic_version"] = json.RawMessage(`"` + vertexAnthropic + `"`)
		out.header.Del("Anthropic-Version")
	})
}

// current is a token that is valid now.
func (v *vertex) current() (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.token == nil {
		// The context of the source is that of its renewals, which outlive a call.
		found, err := google.FindDefaultCredentials(context.Background(), vertexScope)
		if err != nil {
			return "", err
		}
		v.token = found.TokenSource
	}
	token, err := v.token.Token()
	if err != nil {
		return "", err
	}
	return strings.TrimSpace(token.AccessToken), nil
}

// answer gives refusals, which Google words in its own way, the form of the format that was asked in.
func (*vertex) answer(c *Call, in *incoming) {
	if in.status >= http.StatusBadRequest && c.Format == codec.Messages {
		in.body, in.length = &refusal{from: in.body, status: in.status}, -1
		in.header.Del("Content-Length")
	}
}
