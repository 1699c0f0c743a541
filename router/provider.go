package router

import (
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
)

// A Provider serves models at one or more endpoints. It is safe for concurrent use.
type Provider struct {
	places
	peer

	dialect   *Dialect
	prefixes  []string // of model names routed here by default
	vendor    string   // "HOST/", the prefix of model names of a host without default routes; "" for none
	formats   formatList
	simulated bool
	models    *catalog

	clock   Clock
	retries int // per call
	budget  retryBudget
}

func newProvider(name string, c ProviderConfig, models *catalog, all *Config, timeouts Timeouts) (*Provider, error) {
	setting := "providers." + name
	known := presetOf(name, c.Preset)
	if c.Preset != "" && known == nil {
		return nil, fmt.Errorf("%s.preset: there is no preset %q (known: %s)", setting, c.Preset, strings.Join(Presets(), ", "))
	}
	if known != nil && !c.Simulated {
		if err := known.complete(&c); err != nil {
			return nil, fmt.Errorf("%s.%w", setting, err)
		}
	}
	if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return nil, fmt.Errorf("providers: %q is not a name for a provider: use letters, digits, - and _", name)
	}
	row := dialectFor(name, c.Dialect)
	if row == nil {
		return nil, fmt.Errorf("%s.dialect: there is no dialect %q (known: %s)", setting, c.Dialect, strings.Join(dialectNames(), ", "))
	}
	formats := c.Formats
	if len(formats) == 0 {
		formats = row.Formats
	}
	for _, f := range formats {
		if f == codec.FormatUnknown || f == codec.Pass {
			return nil, fmt.Errorf("%s.formats holds an unknown format (known: %s)", setting, strings.Join(codec.FormatNames(), ", "))
		}
	}
	p := &Provider{
		peer:      peer{name: name, headers: newHeaderPolicy(row.Family, all), firstByte: timeouts.FirstByte, idle: timeouts.Idle},
		dialect:   row,
		formats:   slices.Clone(formats),
		simulated: c.Simulated,
		models:    models,
		clock:     all.clock(),
		retries:   all.retries(),
	}
	if own := lookupDialect(name); own != nil {
		p.prefixes = own.Prefixes
	}
	if known != nil && lookupDialect(known.name) == nil { // those hosts' models are known by their own names
		p.vendor = name + "/"
	}
	p.budget.fill()
	var err error
	p.places, err = newPlaces(name, row, &c, func(base *url.URL) *endpoint {
		e := &endpoint{peer: &p.peer, address: hostPort(base), upstream: newUpstream(base, timeouts, all.HTTP2), uploads: newUploads(timeouts, base.Scheme == "https")}
		e.breaker.settings = all.Breaker.withDefaults()
		if known != nil && known.wire != nil && !c.Simulated {
			e.wire = known.wire(&c, base)
		}
		return e
	})
	if err != nil {
		return nil, fmt.Errorf("%s.%w", setting, err)
	}
	return p, nil
}

// Name returns the provider's name in the configuration.
func (p *Provider) Name() string { return p.name }

// String keeps the provider's key out of logs.
func (p *Provider) String() string { return p.name }

// Address returns host:port of the first endpoint, for messages to people.
func (p *Provider) Address() string { return p.endpoints[0].address }

// Pooled reports whether there is a choice of endpoints or of the server's credentials, so that [Call.Affinity] matters.
func (p *Provider) Pooled() bool { return len(p.endpoints) > 1 || len(p.keys) > 1 }

// Formats returns the wire formats that the endpoint speaks. They must not be changed.
func (p *Provider) Formats() []codec.Format { return p.formats }

// Speaks reports whether the endpoint speaks f.
func (p *Provider) Speaks(f codec.Format) bool { return slices.Contains(p.formats, f) }

// Native returns the provider's first format: that of the credential and the errors of its other paths.
func (p *Provider) Native() codec.Format { return p.formats[0] }

// PassesPaths reports whether requests to other paths than those of models can be passed on to the provider.
func (p *Provider) PassesPaths() bool {
	return p.endpoints[0].urlOf(&Call{Operation: Pass, Path: "/"}) != nil
}

// Owns reports whether an absolute URL in an answer is at one of the provider's endpoints.
func (p *Provider) Owns(u *url.URL) bool {
	for _, e := range p.endpoints {
		if u.Scheme == e.urls.base.Scheme && strings.EqualFold(u.Host, e.urls.base.Host) {
			return true
		}
	}
	return false
}

// Family returns the family whose reasoning state the provider's models read.
func (p *Provider) Family() codec.Family { return p.dialect.Family }

// Dialect returns the row of the provider's family. It must not be changed.
func (p *Provider) Dialect() *Dialect { return p.dialect }

// Simulated reports whether the built-in simulated provider answers instead of a model.
func (p *Provider) Simulated() bool { return p.simulated }

// HasKey reports whether the provider has a server default credential.
func (p *Provider) HasKey() bool {
	return slices.ContainsFunc(p.endpoints, func(e *endpoint) bool { return len(e.keys) > 0 })
}

// FormatFor returns the format to write to the provider for a client's surface: the same one if the provider speaks it,
// else the best one to cross to. It is [codec.FormatUnknown] if there is none, which for surface [codec.Embeddings]
// means that the provider has no embeddings.
//
// Facts about models decide (models.yaml): some of OpenAI's answer in only one of its two formats, and its reasoning
// models support reasoning state, tools with an effort, and images in results only in Responses.
func (p *Provider) FormatFor(surface codec.Format, model string) codec.Format {
	asked := crossing.Traits(surface)
	if asked.Vectors {
		return p.formats.forVectors()
	}
	known := p.models.model(p.knownAs(model))
	if only := p.formats.only(known, asked.Author); only != codec.FormatUnknown {
		return only
	}
	if p.Speaks(surface) {
		return surface
	}
	return p.formats.best(func(t *codec.HTTPTraits) int {
		if t.KeepsReasoning && known.Reasoning && !known.SearchModel {
			return math.MaxInt
		}
		return t.Rank
	})
}

// String keeps credentials out of logs.
func (c Credential) String() string {
	if c.IsZero() {
		return "no credential"
	}
	return c.Header + ": [redacted]"
}

// GoString keeps credentials out of logs.
func (c Credential) GoString() string { return c.String() }

// Credential returns the header for a key in format f, as Authorization: Bearer or by itself.
func (p *Provider) Credential(f codec.Format, key string) Credential {
	switch header := p.CredentialHeader(f); {
	case key == "":
		return Credential{}
	case header == "Authorization":
		return Credential{Header: header, Value: "Bearer " + key}
	default:
		return Credential{Header: header, Value: key}
	}
}

// Credentials returns the server's secrets for the provider, without header prefixes.
func (p *Provider) Credentials() (secrets []string) {
	for _, e := range p.endpoints {
		for _, key := range e.keys {
			secrets = append(secrets, key.secret)
		}
	}
	return secrets
}

// CredentialHeader returns the canonical name of the header with the provider's credential in format f.
func (p *Provider) CredentialHeader(f codec.Format) string {
	if header := crossing.Traits(f).HTTP.KeyHeader; header != "" {
		return header
	}
	return p.dialect.KeyHeader
}

// DefaultCredential returns the server's own credential for the provider in format f, the first of several; zero if
// there is none.
func (p *Provider) DefaultCredential(f codec.Format) Credential {
	for _, e := range p.endpoints {
		if len(e.keys) > 0 {
			return p.Credential(f, e.keys[0].secret)
		}
	}
	return Credential{}
}

// PassesOn reports whether a client's header may reach the provider with a request that is passed on as it is.
func (p *Provider) PassesOn(name string) bool { return p.PassesUpstream(name) || passesOn.has(name) }

// PassesUpstream reports whether a client's header may reach the provider. name is in canonical form.
func (p *Provider) PassesUpstream(name string) bool { return p.headers.passing.has(name) }

// knownAs returns a model's name in models.yaml: clouds put the vendor before it.
func (p *Provider) knownAs(model string) string {
	if _, own := p.endpoints[0].wire.(*bedrock); own {
		if _, name, found := strings.Cut(model, "anthropic."); found { // us.anthropic.claude-…, or an ARN with such an end
			return name
		}
	}
	return model
}

func (p *Provider) missingCredential() *codec.Error {
	err := codec.Errorf(codec.KindAuthentication,
		"There is no credential for provider %s. Set one with: mneme account credential set ACCOUNT %s; or send your own; or let the operator set providers.%s.api_key.",
		p.name, p.name, p.name)
	err.Code = "provider_credential_missing"
	return err
}

// newUpstream returns an upstream for the origin of base: direct, or over net/http if the environment has a proxy for
// it, if HTTP/2 is wanted, or if the host's name has to be encoded first.
func newUpstream(base *url.URL, t Timeouts, http2 bool) upstream {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: base})
	if proxy != nil || err != nil || http2 && base.Scheme == "https" || !isASCII(base.Host) {
		return newTransport(t, base.Scheme == "https", http2)
	}
	return newDirect(base, t)
}
