package router

import (
	"context"
	"net/url"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// azure is Azure OpenAI. Without an api-version it is the v1 API, which has OpenAI's paths; with one, the path names
// the model's deployment (docs/wire/hosts.md#azure).
type azure struct {
	base    *url.URL
	version string // "" for the v1 API
}

func newAzure(c *ProviderConfig, base *url.URL) wire {
	trimmed := *base
	for _, end := range []string{"/v1", "/openai"} {
		trimmed.Path = strings.TrimSuffix(trimmed.Path, end)
	}
	return &azure{base: &trimmed, version: c.APIVersion}
}

func (a *azure) url(c *Call) *url.URL {
	t := crossing.Traits(c.Format)
	if t.Author != codec.FamilyOpenAI {
		return nil
	}
	var path string
	switch c.Operation {
	case Generate:
		path = t.HTTP.Generate.Path
	case Embed:
		path = t.HTTP.Embed.Path
	case ListModels:
		path = t.HTTP.ListModels.Path
	}
	if path == "" {
		return nil
	}
	switch {
	case a.version == "":
		return under(a.base, "/openai/v1"+path, "")
	case c.Operation == ListModels || t.Client.StoredAnswers: // stored answers belong to no deployment
		return under(a.base, "/openai"+path, "api-version="+url.QueryEscape(a.version))
	}
	return under(a.base, "/openai/deployments/"+url.PathEscape(c.Model)+path, "api-version="+url.QueryEscape(a.version))
}

// request moves a key to the header that Azure reads; an Entra token stays where it is.
func (*azure) request(_ context.Context, _ *Call, out *outgoing, body []byte) ([]byte, error) {
	key, bearer := strings.CutPrefix(out.header.Get("Authorization"), "Bearer ")
	if bearer && !strings.HasPrefix(key, "eyJ") { // how every token begins: a JSON object in base64
		out.header.Del("Authorization")
		out.header.Set("Api-Key", key)
	}
	return body, nil
}

func (*azure) answer(*Call, *incoming) {}
