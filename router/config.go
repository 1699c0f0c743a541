package router

import (
	"errors"
	"fmt"
	"slices"
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

// A Fallback lists the models that may answer for Model if its provider cannot, in the order in which they are asked.
type Fallback struct {
	Model string
	To    []string
}

// Timeouts bound the phases of an upstream call. Zero fields take the defaults.
type Timeouts struct {
	Dial      time.Duration // TCP connection to the provider or proxy, name resolution included; 10 s
	TLS       time.Duration // TLS handshake; 10 s
	FirstByte time.Duration // from the start of the call to the first byte of the answer's body; 10 min
	Idle      time.Duration // between two pieces of the answer, while we wait for the provider; 5 min
}

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

// An APIKey is one of several credentials that the server has for a provider.
type APIKey struct {
	Key    string
	Weight int // share of the sessions served with it; 0 means 1
}

// String keeps the key out of logs.
func (APIKey) String() string { return "[redacted]" }

// GoString keeps the key out of logs.
func (k APIKey) GoString() string { return k.String() }

// An Endpoint is one of several addresses at which a provider serves the same models.
type Endpoint struct {
	BaseURL string
	APIKey  string // for this endpoint only; "" for the provider's keys
	Weight  int    // share of the sessions served there; 0 means 1
}

// String keeps the key out of logs.
func (e Endpoint) String() string { return "endpoint at " + e.BaseURL }

// GoString keeps the key out of logs.
func (e Endpoint) GoString() string { return e.String() }

func (c *Config) clock() Clock {
	if c.Clock == nil {
		return systemClock{}
	}
	return c.Clock
}

// defaultRetries is as many as the official SDKs take.
const defaultRetries = 2

func (c *Config) retries() int {
	if c.Retries == 0 {
		return defaultRetries
	}
	return max(c.Retries, 0)
}

// keyConfig returns all keys that may open any endpoint.
func (c *ProviderConfig) keyConfig() ([]APIKey, error) {
	switch {
	case len(c.APIKeys) == 0 && c.APIKey == "":
		return nil, nil
	case len(c.APIKeys) == 0:
		return []APIKey{{Key: c.APIKey}}, nil
	case c.APIKey != "":
		return nil, errors.New("api_keys: api_key is set as well; move it into the list, or remove one of them")
	default:
		return c.APIKeys, nil
	}
}

// simulatedKey is the credential for the simulated provider. It opens nothing.
const simulatedKey = "simulated"

// A complete answer of a reasoning model has its first byte when the model has finished, and the official SDKs wait 10
// minutes for it.
var defaultTimeouts = Timeouts{Dial: 10 * time.Second, TLS: 10 * time.Second, FirstByte: 10 * time.Minute, Idle: 5 * time.Minute}
