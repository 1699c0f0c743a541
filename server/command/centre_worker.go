package command

import (
	"context"
	"errors"
	"fmt"
	"io"
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
	var opened opened
	defer func() { err = errors.Join(unlessStopped(ctx, err), opened.close()) }()
	keepFilesPrivate()
	data, err := os.MkdirTemp("", "mneme-worker-")
	if err != nil {
		return fmt.Errorf("make a directory for the roster: %w", err)
	}
	opened.add(func() error { return os.RemoveAll(data) })
	w, err := newWorker(s, config.Sources{File: c.Config, Data: data}, &opened)
	if err != nil {
		return err
	}
	if err := w.openRoster(ctx, &opened); err != nil {
		return err
	}
	if c.Listen != "" {
		if err := w.probe(c.Listen, s.Out, &opened); err != nil {
			return err
		}
	}
	if err := w.follow(ctx, &opened); err != nil {
		return err
	}
	if err := w.openMemory(ctx, &opened); err != nil {
		return err
	}
	if err := w.take(ctx, &opened); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "%s takes what edges ship\n", w.options.Name)
	<-ctx.Done()
	return nil
}

// worker is a worker as far as it has started.
type worker struct {
	cfg      config.Config
	redactor *redact.Redactor // of the log and the roster
	log      *slog.Logger
	options  cluster.Options
	observed *telemetry.Process

	roster *engine.Engine
	memory *catalog.Catalog

	// What probes see; nil until it is there.
	vectors atomic.Pointer[catalog.Vectors]
	taking  atomic.Pointer[cluster.Centre]
}

func newWorker(s *Env, sources config.Sources, opened *opened) (w *worker, err error) {
	w = &worker{observed: telemetry.NewProcess(s.version())}
	if w.cfg, err = config.Load(sources); err != nil {
		return nil, err
	}
	if w.cfg.Centre.Postgres == "" {
		return nil, errors.New("a worker shares a memory in Postgres: set centre.postgres to the database of the centre")
	}
	if w.cfg.MasterKey == "" {
		return nil, fmt.Errorf("set %s to the master key of the centre: the worker needs the credentials of accounts to mask them in what it digests", config.EnvMasterKey)
	}
	if w.redactor, err = newRedactor(&w.cfg); err != nil {
		return nil, err
	}
	log, flush := newLog(s.Err, w.redactor)
	opened.then(flush)
	opened.then(takeStandardLog(log))
	opened.then(boundHeap(mostInFlight))
	w.log = log
	if w.options, err = clusterOptions(&w.cfg, log); err != nil {
		return nil, err
	}
	w.options.Version, w.options.Name = s.version(), workerName()
	return w, nil
}

func (w *worker) openRoster(ctx context.Context, opened *opened) (err error) {
	if w.roster, err = openEngine(ctx, &w.cfg, w.redactor, nil, w.log); err != nil {
		return err
	}
	opened.add(w.roster.Close)
	return nil
}

// probe serves metrics and probes.
func (w *worker) probe(address string, out io.Writer, opened *opened) error {
	if err := prepareAccounts(w.roster, &w.cfg); err != nil {
		return err
	}
	idle := func() bool { v := w.vectors.Load(); return v != nil && v.Idle() }
	probes, err := serveProbes(address, w.taking.Load, idle, &w.cfg, w.roster.Keys(), w.observed.Metrics(), w.log)
	if err != nil {
		return err
	}
	opened.then(probes.close)
	fmt.Fprintf(out, "metrics and probes on http://%s\n", probes.listener.Addr())
	return nil
}

// follow has the roster follow the centre's, and returns when it is complete.
func (w *worker) follow(ctx context.Context, opened *opened) error {
	following, err := cluster.Follow(ctx, w.roster.Roster(), w.options)
	if err != nil {
		return err
	}
	opened.then(following.Close)
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-following.Whole():
		return nil
	}
}

// openMemory opens the memory of the centre, and has its turns embedded and its sessions summarized.
func (w *worker) openMemory(ctx context.Context, opened *opened) error {
	routes, err := router.New(w.cfg.Router())
	if err != nil {
		return err
	}
	opened.then(routes.Close)
	embedder, byProvider, err := newEmbedder(&w.cfg, routes, w.roster)
	if err != nil {
		return err
	}
	if byProvider != nil {
		w.observed.WatchEmbedder(byProvider.Usage)
	}
	if w.memory, err = openShared(ctx, &w.cfg, w.roster, w.log); err != nil {
		return err
	}
	opened.then(w.memory.Close)
	vectors := catalog.VectorsOf(w.memory)
	if err := vectors.Start(ctx, embedder); err != nil {
		return err
	}
	w.vectors.Store(&vectors)
	summaries, err := startSummaries(&w.cfg, catalog.SummariesOf(w.memory), w.roster, routes, w.observed, w.log)
	if err != nil || summaries == nil {
		return err
	}
	opened.then(func() { releaseSummaries(w.memory) })
	opened.then(summaries.Close)
	return nil
}

// take starts to take what edges ship.
func (w *worker) take(ctx context.Context, opened *opened) error {
	o := w.options
	o.Aside, o.Erasures, o.Took, o.Gather = catalog.AsideOf(w.memory), w.memory.Erased(), w.observed.WatchTakes(), cluster.GatherEach
	taking, err := cluster.Work(ctx, w.memory, w.memory, o)
	if err != nil {
		return err
	}
	opened.then(taking.Close)
	w.observed.WatchArrivals(telemetry.Arrivals{Status: taking.Status, Behind: taking.Behind, Backlog: backlogOf(w.memory)})
	w.taking.Store(taking)
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
	return catalog.Open(ctx, catalog.Options{
		URL: url, Centre: id, Packs: packs, Digest: digest.Exchange, Log: log,
		Redactor: func(account string) *redact.Redactor { return roster.Credentials().Redactor(account) },
	})
}
