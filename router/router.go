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
	"maps"
	"slices"
	"sync"
	"time"
)

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

// ModelsAsOf returns the date of the built-in model data, as YYYY-MM-DD.
func (r *Router) ModelsAsOf() string { return r.models.asOf }

// Prices returns the price list of the router, which stays valid when the router is closed.
func (r *Router) Prices() Prices { return Prices{r.prices} }

// PricesAsOf returns the date of the built-in prices, as YYYY-MM-DD.
func (r *Router) PricesAsOf() string { return r.prices.asOf }

// Price returns the price of a model at a configured provider at a time; nil if the price list has no row for it.
func (r *Router) Price(provider, model string, at time.Time) *Price {
	return r.prices.price(provider, model, at)
}
