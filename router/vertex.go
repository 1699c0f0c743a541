package router

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	"golang.org/x/oauth2/google"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// vertex is Google's Vertex AI, with Gemini in Google's own format and Claude in Anthropic's
// (docs/wire/hosts.md#vertex). It uses a token of the application default credentials, which the official library finds
// and renews.
type vertex struct {
	base  *url.URL // up to the location
	mu    sync.Mutex
	token oauth2.TokenSource // nil until the first call
}

// tokenTimeout bounds the request for a token: all calls wait for it.
const tokenTimeout = 20 * time.Second

const (
	vertexScope     = "https://www.googleapis.com/auth/cloud-platform"
	vertexAnthropic = "vertex-2023-10-16" // the version of the Messages format there
)

func newVertex(c *ProviderConfig, base *url.URL) wire {
	return &vertex{base: under(base, "/v1/projects/"+c.Project+"/locations/"+cmp.Or(c.Region, "global"), "")}
}

func (v *vertex) url(c *Call) *url.URL {
	publisher := crossing.Traits(c.Format).Author
	at := "/publishers/" + publisher.String() + "/models/" + url.PathEscape(c.Model)
	switch {
	case publisher == codec.FamilyAnthropic && c.Operation == Generate && c.Stream:
		return under(v.base, at+":streamRawPredict", "")
	case publisher == codec.FamilyAnthropic && c.Operation == Generate:
		return under(v.base, at+":rawPredict", "")
	case publisher == codec.FamilyAnthropic && c.Operation == CountTokens:
		return under(v.base, "/publishers/anthropic/models/count-tokens:rawPredict", "")
	case publisher == codec.FamilyGoogle && c.Operation == Generate && c.Stream:
		return under(v.base, at+":streamGenerateContent", "alt=sse")
	case publisher == codec.FamilyGoogle && c.Operation == Generate:
		return under(v.base, at+":generateContent", "")
	case publisher == codec.FamilyGoogle && c.Operation == CountTokens:
		return under(v.base, at+":countTokens", "")
	}
	return nil
}

// publishedByAnthropic reports whether a call is for one of Anthropic's models.
func publishedByAnthropic(c *Call) bool {
	return crossing.Traits(c.Format).Author == codec.FamilyAnthropic
}

func (v *vertex) request(_ context.Context, c *Call, out *outgoing, body []byte) ([]byte, error) {
	if c.Credential.IsZero() { // a caller's own token is sent unchanged
		token, err := v.current()
		if err != nil {
			return nil, err
		}
		out.header.Del("X-Api-Key")
		out.header.Del("X-Goog-Api-Key")
		out.header.Set("Authorization", "Bearer "+token)
	}
	if !publishedByAnthropic(c) {
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

// current returns a valid token.
func (v *vertex) current() (string, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.token == nil {
		// The context of the source is for its renewals, which outlive a call and so have their own timeout.
		renewals := context.WithValue(context.Background(), oauth2.HTTPClient, &http.Client{Timeout: tokenTimeout})
		found, err := google.FindDefaultCredentials(renewals, vertexScope)
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

// answer rewrites refusals, which have Google's own wording, in the requested format.
func (*vertex) answer(c *Call, in *incoming) {
	if in.status >= http.StatusBadRequest && publishedByAnthropic(c) {
		in.body, in.length = &refusal{from: in.body, status: in.status}, -1
		in.header.Del("Content-Length")
	}
}
