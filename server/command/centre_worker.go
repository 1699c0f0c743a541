package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync/atomic"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/redact"
)

// work is "mneme centre --worker": it shares the work of a centre with memory in Postgres, and stores nothing itself.
// It follows the centre's roster of accounts as an edge does, in a temporary directory. With --listen it has probes and
// metrics.
func (c *CentreServe) work(ctx context.Context, s *Env) (err error) {
	keepFilesPrivate()
	data, err := os.MkdirTemp("", "mneme-worker-")
	if err != nil {
		return fmt.Errorf("make a directory for the roster: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	cfg, err := config.Load(config.Sources{File: c.Config, Data: data})
	if err != nil {
		return err
	}
	if cfg.Centre.Postgres == "" {
		return errors.New("a worker shares a memory in Postgres: set centre.postgres to the database of the centre")
	}
	if cfg.MasterKey == "" {
		return fmt.Errorf("set %s to the master key of the centre: the worker needs the credentials of accounts to mask them in what it digests", config.EnvMasterKey)
	}
	redactor, err := newRedactor(&cfg)
	if err != nil {
		return err
	}
	log, flush := newLog(s.Err, redactor)
	defer flush()
	defer takeStandardLog(log)()
	defer boundHeap()()
	o, err := clusterOptions(&cfg, log)
	if err != nil {
		return err
	}
	o.Version, o.Name = s.version(), workerName()
	roster, err := openEngine(ctx, &cfg, redactor, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, roster.Close()) }()
	observed, taking, vectors := telemetry.NewProcess(s.version()), new(atomic.Pointer[cluster.Centre]), new(atomic.Pointer[catalog.Vectors])
	if c.Listen != "" {
		if err := prepareAccounts(roster, &cfg); err != nil {
			return err
		}
		idle := func() bool { v := vectors.Load(); return v != nil && v.Idle() }
		probes, err := serveProbes(c.Listen, taking.Load, idle, &cfg, roster.Keys(), observed.Metrics(), log)
		if err != nil {
			return err
		}
		defer probes.close()
		fmt.Fprintf(s.Out, "metrics and probes on http://%s\n", probes.listener.Addr())
	}
	following, err := cluster.Follow(ctx, roster.Roster(), o)
	if err != nil {
		return err
	}
	defer following.Close()
	select {
	case <-ctx.Done():
		return nil
	case <-following.Whole():
	}
	routes, err := router.New(cfg.Router())
	if err != nil {
		return err
	}
	defer routes.Close()
	embedder, byProvider, err := newEmbedder(&cfg, routes, roster)
	if err != nil {
		return err
	}
	if byProvider != nil {
		observed.WatchEmbedder(byProvider.Usage)
	}
	kept, err := openShared(ctx, &cfg, roster, log)
	if err != nil {
		return err
	}
	defer kept.Close()
	embeds := catalog.VectorsOf(kept)
	if err := embeds.Start(ctx, embedder); err != nil {
		return err
	}
	vectors.Store(&embeds)
	summaries, err := startSummaries(&cfg, catalog.SummariesOf(kept), roster, routes, observed, log)
	if err != nil {
		return err
	}
	if summaries != nil {
		defer releaseSummaries(kept)
		defer summaries.Close()
	}
	o.Aside, o.Erasures, o.Took = catalog.AsideOf(kept), kept.Erased(), observed.WatchTakes()
	worker, err := cluster.Work(ctx, kept, kept, o)
	if err != nil {
		return err
	}
	defer worker.Close()
	observed.WatchArrivals(telemetry.Arrivals{Status: worker.Status, Behind: worker.Behind, Undigested: undigestedIn(kept)})
	watchCopies(&cfg, kept, observed)
	taking.Store(worker)
	fmt.Fprintf(s.Out, "%s takes what edges ship\n", o.Name)
	<-ctx.Done()
	return nil
}

// workerName returns a name that distinguishes a worker from others.
func workerName() string {
	host, err := os.Hostname()
	if err != nil {
		host = "of unknown host"
	}
	return fmt.Sprintf("worker %s %d", host, os.Getpid())
}

// openShared opens the memory of another centre.
func openShared(ctx context.Context, cfg *config.Config, roster *engine.Engine, log *slog.Logger) (*catalog.Catalog, error) {
	url := cfg.Centre.Postgres.Reveal()
	id, err := catalog.CentreOf(ctx, url)
	if err != nil {
		return nil, err
	}
	packs, err := openPacks(ctx, cfg, id)
	if err != nil {
		return nil, err
	}
	found, err := openSearch(cfg)
	if err != nil {
		return nil, err
	}
	return catalog.Open(ctx, catalog.Options{
		URL: url, Centre: id, Packs: packs, Digest: digest.Exchange, Engine: found, Log: log,
		Redactor: func(account string) *redact.Redactor { return roster.Credentials().Redactor(account) },
	})
}
