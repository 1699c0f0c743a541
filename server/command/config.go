package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/mnemeproxy/mneme/server/config"
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
		outcome.Settings = &cfg
	}
	if c.JSON {
		errors.As(err, &outcome.Problems)
		return errors.Join(writeJSON(s.Out, outcome), err)
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
