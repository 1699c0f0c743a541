package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/background/embedding"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// indexDir returns the directory of the search index, in the data directory. It can be removed at any time.
func indexDir(cfg *config.Config) string { return filepath.Join(cfg.Data, "index") }

// newEmbedder returns the configured embedder, which uses the credentials of a store; nil if there is none. byProvider is
// the same one if a provider embeds.
func newEmbedder(cfg *config.Config, routes *router.Router, m *engine.Engine) (e search.Embedder, byProvider *embedding.Embedder, err error) {
	settings, ok := cfg.Embedding()
	if !ok {
		e, err = cfg.Search.Embedder.Local()
		return e, nil, err
	}
	if byProvider, err = embedding.New(settings, routes, m.Credentials().Get); err != nil {
		return nil, nil, err
	}
	return byProvider, byProvider, nil
}

// startIndex starts the index of a memory with an embedder, nil for none. With changeOver it may differ from the one that
// made the stored vectors.
func startIndex(ctx context.Context, m *engine.Engine, cfg *config.Config, routes *router.Router, embedder search.Embedder, changeOver bool, log *slog.Logger) error {
	if cfg.Centre.Postgres != "" {
		embedder = nil // the vectors are in Postgres
	}
	if !changeOver {
		if err := agree(ctx, m, embedder); err != nil {
			return err
		}
	}
	settings, _ := cfg.Embedding()
	opts := search.Options{Dir: indexDir(cfg), Embedder: embedder, Log: log}
	opts.Former = func(identity string) search.Embedder {
		return embedding.Former(identity, settings, routes, m.Credentials().Get)
	}
	m.Follow(opts)
	return nil
}

// agree refuses an embedder that does not match the stored vectors: changing over means embedding every turn again,
// which takes time and may cost money, so a person has to decide it.
func agree(ctx context.Context, m *engine.Engine, embedder search.Embedder) error {
	generations, err := m.Vectors().Generations()
	if err != nil || embedder == nil {
		return err
	}
	for _, g := range generations {
		if !g.Retired && g.Identity == embedder.Identity() {
			return nil // it made the vectors, or was chosen explicitly
		}
	}
	live := slices.IndexFunc(generations, func(g record.Generation) bool { return g.Live })
	if live < 0 {
		return nil
	}
	turns, err := m.Feed().CountTurns(ctx)
	if err != nil || turns == 0 {
		return err
	}
	return fmt.Errorf("the vectors of %d turns were made by %s, and the configuration says %s, whose vectors cannot be compared with them; "+
		"rebuild them with: mneme reindex vectors; or set search.embedder back", turns, generations[live].Identity, embedder.Identity())
}

// manageIndex is [StoreFlags.manage] for commands that need the whole index.
func (f StoreFlags) manageIndex(ctx context.Context, changeOver bool, do func(*admin.Client) error) error {
	cfg, opts, err := f.managed()
	if err != nil {
		return err
	}
	routes, err := router.New(cfg.Router())
	if err != nil {
		return err
	}
	defer routes.Close()
	return manage(ctx, &cfg, mustExist, func() (*engine.Engine, error) {
		m, err := engine.Open(opts, nil)
		if err != nil {
			return nil, err
		}
		embedder, _, err := newEmbedder(&cfg, routes, m)
		if err == nil {
			err = startIndex(ctx, m, &cfg, routes, embedder, changeOver, nil)
		}
		if err != nil {
			return nil, errors.Join(err, m.Close())
		}
		return m, nil
	}, do)
}
