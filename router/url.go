package router

import (
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// parseBaseURL reads a base URL as SDKs take it. The error continues a sentence that names the setting.
func parseBaseURL(base string) (*url.URL, error) {
	u, err := url.Parse(base)
	switch {
	case err != nil:
		return nil, errors.New("is not a URL: write it like https://api.openai.com/v1")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, errors.New("has to start with https:// or http://")
	case u.Hostname() == "":
		return nil, errors.New("names no host: write it like https://api.openai.com/v1")
	case u.User != nil:
		return nil, errors.New("holds a user name or password: put the credential into api_key")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("ends in a query or fragment: leave out everything from ? or # on")
	}
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = ""
	return u, nil
}

// urls has the URLs of the operations of one base URL, by format. Those that do not depend on the model are made once
// and shared by all requests; net/http only reads them.
type urls struct {
	base    *url.URL
	formats []formatURLs // by the format's number
}

// formatURLs are the operations in one format.
type formatURLs struct{ generate, stream, count, embed, models, compact operationURL }

// operationURL is the URL of one operation. The zero value means that the format does not have it.
type operationURL struct {
	at    *url.URL // nil if the path contains a model
	beta  *url.URL // with ?beta=true; nil if that has no meaning
	root  *url.URL
	model codec.Endpoint // with the model in its path
}

func newURLs(base *url.URL, row *Dialect) (urls, error) {
	if row.MessagesBelow != "" && strings.HasSuffix(base.Path, row.MessagesBelow) {
		return urls{}, fmt.Errorf("ends in %s: leave that out, it is added for the Messages format", row.MessagesBelow)
	}
	// Some SDKs append the version to a base without a path, others expect it in the base: for a host that speaks both,
	// the base includes it.
	versioned := *base
	versioned.Path = strings.TrimSuffix(versioned.Path, "/v1") + row.MessagesBelow + "/v1"
	u := urls{base: base}
	for _, f := range crossing.Formats() {
		t := &crossing.Traits(f).HTTP
		root := base
		if t.Versioned {
			root = &versioned
		}
		generate := newOperationURL(root, t.Generate, t.Beta)
		stream := generate
		if t.Stream.Path != "" {
			stream = newOperationURL(root, t.Stream, t.Beta)
		}
		u.formats = append(u.formats, make([]formatURLs, int(f)+1-len(u.formats))...)
		u.formats[f] = formatURLs{
			generate: generate, stream: stream,
			count:   newOperationURL(root, t.CountTokens, t.Beta),
			embed:   newOperationURL(root, t.Embed, false),
			models:  newOperationURL(root, t.ListModels, false),
			compact: newOperationURL(root, t.Compact, false),
		}
	}
	return u, nil
}

func newOperationURL(root *url.URL, e codec.Endpoint, beta bool) (p operationURL) {
	switch {
	case e.Path == "":
		return operationURL{}
	case strings.Contains(e.Path, modelVariable):
		return operationURL{root: root, model: e}
	}
	p.at = below(root, e.Path, e.Query)
	if beta {
		p.beta = below(root, e.Path, "beta=true")
	}
	return p
}

func below(root *url.URL, path, query string) *url.URL {
	u := *root
	u.Path += path
	u.RawQuery = query
	return &u
}

// modelVariable is the placeholder for the model's name in the path of an endpoint.
const modelVariable = "{model}"

// of returns the URL of a call, or nil if the format has no such operation. It must not be changed.
func (u *urls) of(c *Call) *url.URL {
	if int(c.Format) >= len(u.formats) {
		return nil
	}
	f := &u.formats[c.Format]
	var p *operationURL
	switch c.Operation {
	case Generate:
		if p = &f.generate; c.Stream {
			p = &f.stream
		}
	case CountTokens:
		p = &f.count
	case Embed:
		p = &f.embed
	case ListModels:
		p = &f.models
	case Compact:
		p = &f.compact
	default:
		return nil
	}
	switch {
	case p.root != nil:
		return p.of(c.Model)
	case p.beta != nil && hasBeta(c.Query):
		return p.beta
	}
	return p.at
}

// of returns the URL for a model.
func (p *operationURL) of(model string) *url.URL {
	before, after, _ := strings.Cut(p.model.Path, modelVariable)
	at := *p.root
	at.Path += before + model + after
	at.RawPath = p.root.EscapedPath() + before + url.PathEscape(model) + after
	at.RawQuery = p.model.Query
	return &at
}

// hasBeta reports whether a client's query has beta=true, the one parameter that matters upstream.
func hasBeta(query string) bool {
	for pair := range strings.SplitSeq(query, "&") {
		if pair == "beta=true" {
			return true
		}
	}
	return false
}

func hostPort(u *url.URL) string {
	switch {
	case u.Port() != "":
		return u.Host
	case u.Scheme == "https":
		return u.Host + ":443"
	default:
		return u.Host + ":80"
	}
}
