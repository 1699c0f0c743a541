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
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/search"
)

// indexDir returns the directory of the search index, in the data directory. It can be removed at any time.
func indexDir(cfg *config.Config) string { return filepath.Join(cfg.Data, "index") }

// startIndex starts the index of a memory with the configured embedder; byProvider is nil if no provider embeds. With
// changeOver the embedder may differ from the one that made the stored vectors.
func startIndex(ctx context.Context, m *engine.Engine, cfg *config.Config, routes *router.Router, changeOver bool, log *slog.Logger) (byProvider *embedding.Embedder, err error) {
	opts := search.Options{Dir: indexDir(cfg), Log: log}
	settings, ok := cfg.Embedding()
	switch {
	case cfg.Centre.Postgres != "": // searches there use no vectors
		if ok && log != nil {
			log.Warn("search.embedder is not used: memory in Postgres (centre.postgres) is searched by words", "model", settings.Model)
		}
	case !ok:
		opts.Embedder, err = cfg.Search.Embedder.Local()
	default:
		if byProvider, err = embedding.New(settings, routes, m.Credentials().Get); err == nil {
			opts.Embedder = byProvider
		}
	}
	if err != nil {
		return nil, err
	}
	if !changeOver {
		if err := agree(ctx, m, opts.Embedder); err != nil {
			return nil, err
		}
	}
	opts.Former = func(identity string) search.Embedder {
		return embedding.Former(identity, settings, routes, m.Credentials().Get)
	}
	m.Follow(opts)
	return byProvider, nil
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
	live := slices.IndexFunc(generations, func(g store.Generation) bool { return g.Live })
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
		if _, err := startIndex(ctx, m, &cfg, routes, changeOver, nil); err != nil {
			return nil, errors.Join(err, m.Close())
		}
		return m, nil
	}, do)
}
