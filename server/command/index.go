package command

import (
	"context"
	"log/slog"
	"path/filepath"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/embedding"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search"
)

// indexDir is where the search index is, in the data directory. It can be removed at any time.
func indexDir(cfg *config.Config) string { return filepath.Join(cfg.Data, "index") }

// startIndex starts the index of a store with the embedder that is configured; byProvider is nil where no provider embeds.
func startIndex(st *store.Store, cfg *config.Config, routes *router.Router, log *slog.Logger) (index *search.Index, byProvider *embedding.Embedder, err error) {
	opts := search.Options{Dir: indexDir(cfg), Log: log}
	settings, ok := cfg.Embedding()
	if !ok {
		opts.Embedder, err = cfg.Search.Embedder.Local()
	} else if byProvider, err = embedding.New(settings, routes, st.Credential); err == nil {
		opts.Embedder = byProvider
	}
	if err != nil {
		return nil, nil, err
	}
	opts.Former = func(identity string) search.Embedder {
		return embedding.Former(identity, settings, routes, st.Credential)
	}
	return search.Open(st, opts), byProvider, nil
}

// manageIndex is [Place.manage] for commands that need the whole index.
func (p Place) manageIndex(ctx context.Context, do func(*admin.Client) error) error {
	cfg, err := p.load()
	if err != nil {
		return err
	}
	opts, err := storeOptions(&cfg, nil)
	if err != nil {
		return err
	}
	routes, err := router.New(cfg.Router())
	if err != nil {
		return err
	}
	defer routes.Close()
	var failed error
	opts.Index = func(st *store.Store) store.Index {
		var index *search.Index
		if index, _, failed = startIndex(st, &cfg, routes, nil); failed != nil {
			return nil
		}
		return index
	}
	return manage(ctx, &cfg, opts, mustExist, func(client *admin.Client) error {
		if failed != nil {
			return failed
		}
		return do(client)
	})
}
