package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/promptcache"
)

// Config is the noun for the configuration.
type Config struct {
	Check ConfigCheck `cmd:"" help:"Check the configuration: the file, the environment, and what they name."`
}

// ConfigCheck is "mneme config check".
type ConfigCheck struct {
	Online bool   `help:"Also ask the providers: find those that cannot be reached, and models that they do not list."`
	Config string `placeholder:"FILE" help:"Configuration file ($MNEME_CONFIG)."`
	File   string `arg:"" optional:"" help:"The configuration file, instead of --config."`
	JSON   bool   `help:"Write the settings in effect, or the problems, as JSON."`
}

// checked is the result for programs. Secrets in Settings are redacted.
type checked struct {
	OK       bool            `json:"ok"`
	Notes    []string        `json:"notes,omitempty"` // settings without effect for some hosts or models
	File     string          `json:"file,omitempty"`
	Settings *config.Config  `json:"settings,omitempty"`
	Problems config.Problems `json:"problems,omitempty"`
}

// Run reports every problem at once, each with its file and line.
func (c *ConfigCheck) Run(ctx context.Context, s *Env) error {
	sources := config.Sources{File: c.Config}
	if c.File != "" {
		sources.File = c.File
	}
	look := func(*config.Config) []config.Mistake { return nil }
	if c.Online {
		look = func(cfg *config.Config) []config.Mistake { return askProviders(ctx, s, cfg) }
	}
	cfg, err := config.Examine(sources, look)
	outcome := checked{OK: err == nil, File: config.FileName(sources)}
	if err == nil {
		outcome.Settings, outcome.Notes = &cfg, slices.Concat(unknownLives(&cfg), unpriced(&cfg, time.Now()))
	}
	if c.JSON {
		errors.As(err, &outcome.Problems)
		return errors.Join(writeJSON(s.Out, outcome), err)
	}
	for _, note := range outcome.Notes {
		fmt.Fprintln(s.Err, "note:", note)
	}
	switch {
	case err != nil:
		return err
	case outcome.File == "":
		fmt.Fprintln(s.Out, "no configuration file; the environment and the defaults are valid")
	default:
		fmt.Fprintf(s.Out, "%s is valid\n", outcome.File)
	}
	return nil
}

// unknownLives returns notes on the hosts for which cache.warn_usd has no effect: the lifetime of a cache is unknown.
func unknownLives(cfg *config.Config) (notes []string) {
	if cfg.Cache.WarnUSD <= 0 {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Providers)) {
		formats := cfg.Providers[name].Formats
		if len(formats) == 0 && name == "anthropic" {
			formats = []string{codec.Messages.String()}
		}
		known := func(format string) bool { return promptcache.Life(name, format, "") > 0 }
		if promptcache.Life(name, "", "") == 0 && !slices.ContainsFunc(formats, known) {
			notes = append(notes, fmt.Sprintf("cache.warn_usd: how long %s keeps a prompt cache is unknown, so mneme cannot warn of a pause there", name))
		}
	}
	return notes
}

// unpriced returns notes on the models without a price, for which budgets and warnings have no effect.
func unpriced(cfg *config.Config, now time.Time) (notes []string) {
	prices, err := router.LoadPrices(cfg.ModelsFile)
	if err != nil {
		return notes // the check of models_file reports it
	}
	for _, m := range namedModels(cfg) {
		if m.group() != "search" && prices.Price("", m.model, now) == nil {
			notes = append(notes, fmt.Sprintf("%s has no price: budgets do not count it, and nothing warns of its cost; add one under prices in models_file", m.model))
		}
	}
	return notes
}
