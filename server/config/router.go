package config

import (
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/background/embedding"
	"github.com/mnemeproxy/mneme/server/background/summary"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/localhash"
)

// Router returns the configuration of package router.
func (c *Config) Router() router.Config {
	r := router.Config{
		Providers:   make(map[string]router.ProviderConfig, len(c.Providers)),
		Timeouts:    router.Timeouts{FirstByte: time.Duration(c.Timeouts.FirstByte), Idle: time.Duration(c.Timeouts.Idle)},
		ModelsFile:  c.ModelsFile,
		Breakpoints: c.Cache.AnthropicBreakpoints,
		Retries:     noneBelowZero(c.Upstream.Retries),
		Breaker:     router.Breaker{Failures: noneBelowZero(c.Upstream.BreakerFailures), Pause: time.Duration(c.Upstream.BreakerPause)},
	}
	for name, p := range c.Providers {
		var formats []codec.Format
		for _, text := range p.Formats {
			if format, err := codec.ParseFormat(text); err == nil { // checked by Load
				formats = append(formats, format)
			}
		}
		r.Providers[name] = router.ProviderConfig{
			BaseURL: p.BaseURL, Endpoints: p.endpoints(), APIKey: p.APIKey.Reveal(), APIKeys: p.apiKeys(), Formats: formats, Dialect: p.Dialect,
			Preset: p.Preset, APIVersion: p.APIVersion, Project: p.Project, Region: p.Region,
		}
	}
	for _, route := range c.Routes {
		r.Routes = append(r.Routes, router.RouteRule(route))
	}
	for _, alias := range c.Aliases {
		r.Aliases = append(r.Aliases, router.Alias(alias))
	}
	for _, fallback := range c.Fallbacks {
		r.Fallbacks = append(r.Fallbacks, router.Fallback(fallback))
	}
	return r
}

// Embedding returns the configuration of package embedding; ok is false if no provider is to embed.
func (c *Config) Embedding() (s embedding.Settings, ok bool) {
	e := &c.Search.Embedder
	return embedding.Settings{
		Model: e.Model, Dimensions: int(e.Dimensions), DocumentPrefix: e.DocumentPrefix, QueryPrefix: e.QueryPrefix,
		TextBytes: int(e.TextBytes), BatchTexts: int(e.BatchTexts), Calls: int(e.Calls),
	}, e.Model != LocalHash && e.Model != NoEmbedder
}

// Summarizing returns the configuration of package summary; ok is false if no model is to write.
func (c *Config) Summarizing() (s summary.Settings, ok bool) {
	m := &c.Search.Summaries
	return summary.Settings{
		Model: m.Model, TokensPerDay: int64(m.TokensPerDay), Quiet: time.Duration(m.Quiet),
	}, m.Model != ""
}

// noneBelowZero maps 0 to -1: the router's zero stands for the default.
func noneBelowZero(t Times) int {
	if t == 0 {
		return -1
	}
	return int(t)
}

func (p *Provider) endpoints() []router.Endpoint {
	var list []router.Endpoint
	for _, e := range p.Endpoints {
		list = append(list, router.Endpoint{BaseURL: e.BaseURL, APIKey: e.APIKey.Reveal(), Weight: int(e.Weight)})
	}
	return list
}

func (p *Provider) apiKeys() []router.APIKey {
	var list []router.APIKey
	for _, k := range p.APIKeys {
		list = append(list, router.APIKey{Key: k.Key.Reveal(), Weight: int(k.Weight)})
	}
	return list
}

// settingName matches how the router's errors begin: with the setting they are about.
var settingName = regexp.MustCompile(`^[a-z_]+(?:\.[a-z0-9_-]+|\[\d+\])*`)

// mostRouterFaults bounds how often the router is made to find the next fault.
const mostRouterFaults = 100

// checkRouter finds faults that only the router knows: dialects, hosts that need a URL, the file of models, models
// without a route. The router reports one at a time, so each is replaced by a sound entry to find the next. Entries that
// have a fault already are replaced at once.
func (l *loader) checkRouter(cfg *Config) {
	c := cfg.Router()
	replaced := make(map[string]bool) // providers
	for _, path := range l.failed {
		replaceEntry(&c, path, replaced)
	}
	for range mostRouterFaults {
		r, err := router.New(c)
		if err == nil {
			l.checkModels(cfg, r, replaced)
			r.Close()
			return
		}
		path := strings.NewReplacer("[", ".", "]", "").Replace(settingName.FindString(err.Error()))
		l.fail(l.nearest(path), "%v", err)
		if !replaceEntry(&c, path, replaced) {
			return
		}
	}
}

// checkModels checks the models that work in the background, except those of replaced providers.
func (l *loader) checkModels(cfg *Config, r *router.Router, replaced map[string]bool) {
	sound := func(model string) bool {
		p, err := r.Place(model)
		return err != nil || !replaced[p.Provider.Name()]
	}
	if sound(cfg.Search.Embedder.Model) {
		l.checkEmbedder(cfg, r)
	}
	if sound(cfg.Search.Summaries.Model) {
		l.checkSummaries(cfg, r)
	}
}

// soundProvider and soundModel are built in.
const soundProvider, soundModel = "openai", "gpt-5"

// replaceEntry replaces the entry of a path by a sound one of the same name, where it has one of its own, so that what
// refers to it has no fault because of it. It reports whether there is such an entry.
func replaceEntry(c *router.Config, path string, providers map[string]bool) bool {
	parts := strings.Split(path, ".")
	if len(parts) < 2 {
		found := path == "models_file" && c.ModelsFile != ""
		c.ModelsFile = ""
		return found
	}
	setting, name, member := parts[0], parts[1], strings.Join(parts[2:], ".")
	if setting == "providers" {
		if providers[name] {
			return false
		}
		providers[name] = true
		c.Providers[name] = router.ProviderConfig{BaseURL: "http://127.0.0.1"}
		return true
	}
	i, err := strconv.Atoi(name)
	if err != nil {
		return false
	}
	unused := "unused " + name // no model has that name
	switch {
	case setting == "routes" && i < len(c.Routes):
		if member == "" || member == "prefix" {
			c.Routes[i].Prefix = unused
		}
		c.Routes[i] = router.RouteRule{Prefix: c.Routes[i].Prefix, Provider: soundProvider}
	case setting == "aliases" && i < len(c.Aliases):
		if member != "to" {
			c.Aliases[i].Model = unused
		}
		c.Aliases[i].To = soundModel
	case setting == "fallbacks" && i < len(c.Fallbacks):
		c.Fallbacks[i] = router.Fallback{Model: unused, To: []string{soundModel}}
	default:
		return false
	}
	return true
}

// Local returns the built-in embedder; nil if another one or none is configured.
func (e *Embedder) Local() (search.Embedder, error) {
	if e.Model != LocalHash {
		return nil, nil //nolint:nilnil // an absent embedder is a nil one, everywhere
	}
	dimensions := int(e.Dimensions)
	if dimensions == 0 {
		dimensions = localhash.DefaultDimensions
	}
	hasher, err := localhash.New(dimensions)
	return localhash.Embedder{Hasher: hasher}, err
}

// checkEmbedder finds a model that cannot embed, or not with these settings.
func (l *loader) checkEmbedder(cfg *Config, r *router.Router) {
	settings, byProvider := cfg.Embedding()
	if !byProvider {
		if _, err := cfg.Search.Embedder.Local(); err != nil {
			l.fail("search.embedder.dimensions", "search.embedder: %v", err)
		}
		return
	}
	var wrong *codec.Error
	if err := settings.Check(r); errors.As(err, &wrong) {
		path := "search.embedder.model"
		if wrong.Param == "dimensions" {
			path = l.nearest("search.embedder.dimensions")
		}
		l.fail(path, "search.embedder: %s", wrong.Message)
	}
}

// checkSummaries finds a model that cannot write, or a budget too small for anything.
func (l *loader) checkSummaries(cfg *Config, r *router.Router) {
	settings, ok := cfg.Summarizing()
	if !ok {
		return
	}
	var wrong *codec.Error
	if err := settings.Check(r); errors.As(err, &wrong) {
		path := "search.summaries.model"
		if wrong.Param == "tokens_per_day" {
			path = "search.summaries.tokens_per_day"
		}
		l.fail(path, "search.summaries: %s", wrong.Message)
	}
}

// nearest returns the innermost part of a path that was set somewhere: what is missing is missing there.
func (l *loader) nearest(path string) string {
	for inner := path; inner != ""; {
		if _, ok := l.origins[inner]; ok {
			return inner
		}
		inner = inner[:max(strings.LastIndexByte(inner, '.'), 0)]
	}
	return path
}
