// Package router decides which provider serves a model, with which credential and in which format, and makes the
// upstream call.
//
// [New] turns a [Config] into a [Router]. [Router.Place] maps a model name to a [Placement]: aliases first, then
// configured routes, then the built-in routes of every family, longest prefix first. [Provider.FormatFor] returns the
// wire format to write, [Router.Target] what the model accepts in it. [Provider.Do] sends the request to the session's
// endpoint with the session's credential, and to others when these fail. [Router.Fallbacks] returns the models that may
// replace one whose provider cannot answer.
//
// Facts about hosts are in one [Dialect] row per family (dialect.go). Facts about models are in models.yaml, which is
// dated and can be overridden by an operator ([Config.ModelsFile]). No code is about single models.
//
// Errors that reach clients are *codec.Error. They name the provider and its host and port, never a credential and
// never the text of a library's error, which they keep as their Cause.
package router

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
)

// Config is an operator's settings for providers. The zero Config serves the built-in providers.
type Config struct {
	// Providers by name. An entry for a built-in name (anthropic, openai, gemini, deepseek) changes what it sets and
	// keeps the rest; any other name adds a provider.
	Providers map[string]ProviderConfig
	Routes    []RouteRule
	Aliases   []Alias
	Fallbacks []Fallback
	Timeouts  Timeouts

	Retries int     // attempts of a call after the first; 0 means 2, a number below 0 none
	Breaker Breaker // of every endpoint
	Clock   Clock   // nil: the system's

	ModelsFile  string // path of a file in the form of models.yaml, laid over the built-in one, prices included; "" for none
	Breakpoints bool   // set prompt-cache breakpoints for Anthropic if the client's format cannot ask for them
	TraceParent bool   // pass the W3C trace headers traceparent and tracestate upstream
	HTTP2       bool   // offer HTTP/2 to providers; many streams then share one connection
	UserAgent   string // sent if the client sent none; "" for "mneme"
}

// ProviderConfig is one provider. Zero fields keep the built-in value of the name or, for other names, of the dialect.
// A provider with the name of a dialect gets that family's models; any other gets models by Routes.
type ProviderConfig struct {
	BaseURL   string         // as the provider's SDKs take it, e.g. "https://api.openai.com/v1"
	Endpoints []Endpoint     // instead of BaseURL: several that serve the same models
	APIKey    string         // server default credential; "" if callers bring their own
	APIKeys   []APIKey       // instead of APIKey: several
	Formats   []codec.Format // formats of the endpoint, for instance only codec.Chat for a self-hosted server
	Dialect   string         // name of a [Dialect] row; "" means the provider's own name if there is such a row, else "compatible"
	Simulated bool           // the endpoint is the built-in simulated provider

	Preset     string // name of a host of [Presets]; "" means the one of the provider's own name, if there is one
	APIVersion string // at Azure, of its older API
	Project    string // at Vertex
	Region     string // at Vertex and Bedrock
}

// String keeps the key out of logs.
func (c ProviderConfig) String() string { return "provider at " + c.BaseURL }

// GoString keeps the key out of logs.
func (c ProviderConfig) GoString() string { return c.String() }

// HasKey reports whether the server has a credential for the provider.
func (c ProviderConfig) HasKey() bool {
	return c.APIKey != "" || len(c.APIKeys) > 0 || slices.ContainsFunc(c.Endpoints, func(e Endpoint) bool { return e.APIKey != "" })
}

// HasURL reports whether the provider's address is configured.
func (c ProviderConfig) HasURL() bool { return c.BaseURL != "" || len(c.Endpoints) > 0 }

// WithSimulated points the provider called name at the simulated provider that listens at origin ("http://host:port").
func (c ProviderConfig) WithSimulated(name, origin string) ProviderConfig {
	row := dialectFor(name, c.Dialect)
	c.BaseURL, c.Endpoints = origin+row.basePath(), nil
	c.APIKey, c.APIKeys = simulatedKey, nil
	c.Simulated = true
	return c
}

// simulatedKey is the credential for the simulated provider. It opens nothing.
const simulatedKey = "simulated"

// RouteRule routes the models whose names start with Prefix to a provider.
type RouteRule struct {
	Prefix   string
	Provider string
	Strip    bool   // send the name without the prefix
	To       string // send this name; "" for the client's
}

// Alias sends a request for Model upstream as a request for To. A Model that ends in "*" matches all names with that
// prefix; a To that does gets what the star matched.
type Alias struct {
	Model string
	To    string
}

// Timeouts bound the phases of an upstream call. Zero fields take the defaults.
type Timeouts struct {
	Dial      time.Duration // TCP connection to the provider or proxy, name resolution included; 10 s
	TLS       time.Duration // TLS handshake; 10 s
	FirstByte time.Duration // from the start of the call to the first byte of the answer's body; 10 min
	Idle      time.Duration // between two pieces of the answer, while we wait for the provider; 5 min
}

// A complete answer of a reasoning model has its first byte when the model has finished, and the official SDKs wait 10
// minutes for it.
var defaultTimeouts = Timeouts{Dial: 10 * time.Second, TLS: 10 * time.Second, FirstByte: 10 * time.Minute, Idle: 5 * time.Minute}

func (t Timeouts) withDefaults() (Timeouts, error) {
	for _, f := range []struct {
		name  string
		value *time.Duration
		def   time.Duration
	}{
		{"dial", &t.Dial, defaultTimeouts.Dial},
		{"tls", &t.TLS, defaultTimeouts.TLS},
		{"first_byte", &t.FirstByte, defaultTimeouts.FirstByte},
		{"idle", &t.Idle, defaultTimeouts.Idle},
	} {
		if *f.value < 0 {
			return t, fmt.Errorf("timeouts.%s is %v: it has to be longer than 0", f.name, *f.value)
		}
		if *f.value == 0 {
			*f.value = f.def
		}
	}
	return t, nil
}

// A Router is safe for concurrent use.
type Router struct {
	providers map[string]*Provider
	names     []string // of providers, sorted
	routes    []route
	aliases   aliases
	fallbacks map[string][]Placement // by model
	models    *catalog
	prices    *priceList
	lists     *modelLists

	breakpoints bool

	// life ends with Close; work that outlives its caller uses it and is counted in background.
	life       context.Context
	endLife    context.CancelFunc
	background sync.WaitGroup
}

// New builds a router. Its errors name the setting and its fault. Close the router when done.
func New(c Config) (*Router, error) {
	timeouts, err := c.Timeouts.withDefaults()
	if err != nil {
		return nil, err
	}
	facts, err := loadModelFacts(c.ModelsFile)
	if err != nil {
		return nil, err
	}
	r := &Router{
		providers:   make(map[string]*Provider),
		models:      facts.models,
		prices:      facts.prices,
		lists:       newModelLists(),
		breakpoints: c.Breakpoints,
	}
	for name, settings := range c.providersWithBuiltIn() {
		p, err := newProvider(name, settings, facts.models, &c, timeouts)
		if err != nil {
			return nil, err
		}
		r.providers[name] = p
	}
	r.names = slices.Sorted(maps.Keys(r.providers))
	if r.routes, err = r.buildRoutes(c.Routes); err != nil {
		return nil, err
	}
	if r.aliases, err = r.buildAliases(c.Aliases); err != nil {
		return nil, err
	}
	if r.fallbacks, err = r.buildFallbacks(c.Fallbacks); err != nil {
		return nil, err
	}
	r.life, r.endLife = context.WithCancel(context.Background())
	return r, nil
}

func (c *Config) providersWithBuiltIn() map[string]ProviderConfig {
	all := make(map[string]ProviderConfig, len(c.Providers)+len(builtIn))
	for _, name := range builtIn {
		all[name] = ProviderConfig{}
	}
	maps.Copy(all, c.Providers)
	return all
}

func (c *Config) clock() Clock {
	if c.Clock == nil {
		return systemClock{}
	}
	return c.Clock
}

func (c *Config) retries() int {
	if c.Retries == 0 {
		return defaultRetries
	}
	return max(c.Retries, 0)
}

// Close ends the router's own background work and drops its idle connections. Running calls are not cut: they end with
// their contexts.
func (r *Router) Close() {
	r.endLife()
	r.background.Wait()
	for _, p := range r.providers {
		for _, e := range p.endpoints {
			e.upstream.close()
		}
	}
}

// Credentials returns the server's secrets for its providers.
func (r *Router) Credentials() (secrets []string) {
	for _, name := range r.names {
		secrets = append(secrets, r.providers[name].Credentials()...)
	}
	return secrets
}

// Provider returns the provider of that name, or nil.
func (r *Router) Provider(name string) *Provider { return r.providers[name] }

// Providers returns all providers in the order of their names.
func (r *Router) Providers() []*Provider {
	all := make([]*Provider, len(r.names))
	for i, name := range r.names {
		all[i] = r.providers[name]
	}
	return all
}
