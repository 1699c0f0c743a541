package command

import (
	"context"
	"errors"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/forward"
	"github.com/mnemeproxy/mneme/server/history"
	"github.com/mnemeproxy/mneme/server/listen"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/server/ui"
	"github.com/mnemeproxy/mneme/server/webhook"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
	"github.com/mnemeproxy/mneme/store/search"
)

// opened is what a start has opened so far, in order.
type opened []func() error

func (o *opened) add(close func() error) { *o = append(*o, close) }

// then is add for a function without an error.
func (o *opened) then(end func()) {
	o.add(func() error {
		end()
		return nil
	})
}

// close ends everything, the last one first.
func (o *opened) close() (err error) {
	for _, end := range slices.Backward(*o) {
		err = errors.Join(err, end())
	}
	return err
}

// unlessStopped returns the error of a start, or nil if it failed because ctx is done: a process that is told to stop while it
// starts has not failed.
func unlessStopped(ctx context.Context, err error) error {
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// program is a serving process before it has a memory: its configuration, and what reports on it.
type program struct {
	version, path string // path: as it was called
	sources       config.Sources
	cfg           config.Config
	files         *config.Watch    // of cfg
	redactor      *redact.Redactor // of the log and the store
	log           *slog.Logger
	traced        bool // spans are made
	observed      *telemetry.Telemetry
}

func newProgram(ctx context.Context, s *Env, sources config.Sources, opened *opened) (*program, error) {
	keepFilesPrivate()
	p := &program{version: s.version(), path: s.Program, sources: sources, files: config.NewWatch(config.FileName(sources))}
	var err error
	if p.cfg, err = config.Load(sources); err != nil {
		return nil, err
	}
	p.files.Follow(p.cfg.Files(sources)...)
	if p.redactor, err = newRedactor(&p.cfg); err != nil {
		return nil, err
	}
	log, flush := newLog(s.Err, p.redactor)
	opened.then(flush)
	opened.then(takeStandardLog(log))
	if p.log = log; platformNotice != "" {
		log.Info(platformNotice)
	}
	opened.then(boundHeap(inFlightBytes(int64(p.cfg.Limits.InFlightBytes), allowed())))
	opened.then(addProcessor())
	tracing, err := telemetry.StartTracing(ctx, telemetry.TracingOptions{
		Version: p.version, Log: log,
		TrustTraceParent: p.cfg.Telemetry.TrustTraceparent, SendTraceParent: p.cfg.Telemetry.SendTraceparent,
	})
	if err != nil {
		return nil, err
	}
	opened.then(func() { endTracing(tracing, log) })
	p.traced, p.observed = tracing != nil, telemetry.New(telemetry.Options{Log: log, Version: p.version, Tracing: tracing})
	return p, nil
}

// remembering is a program with its memory, and the providers that this needs.
type remembering struct {
	*program
	routing   routing
	memory    *engine.Engine
	hooks     *webhook.Sender
	routes    *router.Router // until the first reload
	from      router.Config
	simulated []string        // providers
	embed     search.Embedder // nil: none
}

func (p *program) openMemory(ctx context.Context, simulator Simulator, opened *opened) (*remembering, error) {
	webhooks := sync.OnceValues(func() (*webhook.Sender, error) { return startWebhooks(&p.cfg, p.log) }) // once the store is ours
	memory, err := openEngine(ctx, &p.cfg, p.redactor, func(account string, e *record.Erasure) error {
		hooks, err := webhooks()
		if err != nil {
			return err
		}
		return telling(hooks)(account, e)
	}, p.log)
	if err != nil {
		return nil, err
	}
	opened.add(memory.Close)
	hooks, err := webhooks()
	if err != nil {
		return nil, err
	}
	opened.then(hooks.Close)
	m := &remembering{program: p, memory: memory, hooks: hooks}
	m.routing = routing{sources: p.sources, engine: memory, log: p.log, traceable: p.traced, redactor: p.redactor, simulator: simulator, imports: new(importPrices)}
	if m.routes, m.from, m.simulated, err = m.routing.router(&p.cfg); err != nil {
		return nil, err
	}
	opened.then(m.routes.Close)
	if m.embed, m.routing.embedder, err = newEmbedder(&p.cfg, m.routes, memory); err != nil {
		return nil, err
	}
	if err := startIndex(ctx, memory, &p.cfg, m.routes, m.embed, false, p.log); err != nil {
		return nil, err
	}
	if e := m.routing.embedder; e != nil {
		p.observed.WatchEmbedder(e.Usage)
	}
	return m, nil
}

// reload applies changes of the configuration to the service until the returned function is called.
func (m *remembering) reload(ctx context.Context, service *server.Server) (stop func() error) {
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		r := reloads{routing: m.routing, service: service, telemetry: m.observed, started: &m.cfg, files: m.files, routes: m.routes}
		r.run(ctx)
	}()
	return func() error {
		cancel()
		<-done
		return nil
	}
}

// greet makes the first key if there is none, and prints what a person can do now.
func (n *joined) greet(ctx context.Context, s *Env, addresses []listen.Address) (err error) {
	_, isCentre := n.member.(centre)
	g := greeting{
		centre:  isCentre,
		version: n.version, program: n.path, origin: mainOrigin(addresses), socket: socketOf(addresses), data: n.cfg.Data,
		providers: provisions(&n.from, n.simulated), retention: kept(n.cfg.Retention), simulates: slices.Contains(n.simulated, "openai"),
	}
	if !isCentre {
		g.found = findHistories(ctx)
	}
	if g.firstKey, err = firstKey(n.memory); err != nil {
		return err
	}
	if err := g.write(s.Err); err != nil {
		return err
	}
	return announce(s.Out, addresses)
}

// joined is a program in its role in a cluster, or in none. Its engines may use the memory of other nodes, too.
type joined struct {
	*remembering
	member    member
	engine    server.Engine
	managed   admin.Engine
	recalling recall.Options
	recaller  *recall.Memory
}

func (m *remembering) join(ctx context.Context, join join, opened *opened) (*joined, error) {
	n := &joined{remembering: m, engine: server.Over(m.memory), managed: admin.Over(m.memory)}
	var err error
	if n.member, err = join(ctx, &m.cfg, m.memory, m.hooks, m.version, m.observed, m.log); err != nil {
		return nil, err
	}
	opened.then(n.member.Close)
	if err := n.member.embed(ctx, m.embed); err != nil {
		return nil, err
	}
	if m.routing.summaries, err = startSummaries(&m.cfg, n.member.summarized(m.memory), m.memory, m.routes, m.observed.Process, m.log); err != nil {
		return nil, err
	}
	if w := m.routing.summaries; w != nil {
		opened.then(w.Close)
	}
	n.member.keep(&n.engine, &n.managed)
	m.routing.imports.use(m.routes.Prices())
	n.engine.Archive = pricingArchive{n.engine.Archive, m.routing.imports}
	n.managed.Archive, n.managed.Prices = n.engine.Archive, m.routing.imports
	n.member.widen(&n.engine)
	n.recalling = recall.Options{
		Requests: recall.Requests(m.cfg.Recall.Requests), Accounts: m.cfg.Recall.Accounts,
		Deadline: time.Duration(m.cfg.Recall.Deadline), Age: time.Duration(m.cfg.Recall.MaxAge),
	}
	n.recaller = recall.New(n.engine.Recall, n.recalling)
	n.managed.Recaller = n.recaller
	return n, nil
}

// keepHistories starts to import what import.watch names, until the returned function is called.
func (n *joined) keepHistories() (stop func(), err error) {
	set := &n.cfg.Import
	if len(set.Watch) == 0 {
		return func() {}, nil
	}
	if _, single := n.member.(alone); !single {
		return nil, errors.New("import.watch: the nodes of a cluster watch no histories; remove the setting, and run mneme import --watch beside an agent")
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, errors.New("import.watch: there is no home directory to find histories in; set HOME, or remove the setting")
	}
	keeper := history.Keeper{Agents: set.Watch, Home: home, Archive: n.managed.Archive, Account: set.Account, Log: n.log}
	return keeper.Start(), nil
}

// wholeMemory returns where an edge asks for the memory of its cluster, and what its own part lacks.
func (n *joined) wholeMemory() (at *forward.Centre, lacks string) {
	if _, isEdge := n.member.(edge); !isEdge {
		return nil, ""
	}
	if to, err := url.Parse(n.cfg.Cluster.Centre); err == nil && to.Host != "" {
		at = forward.To(to, n.log)
	}
	return at, lacksCentre
}

// options returns what the surfaces serve, and within which limits.
func (n *joined) options(live admin.Live) (server.Options, error) {
	cfg := &n.cfg
	openID, err := cfg.UI.OIDC.Options()
	if err != nil {
		return server.Options{}, err
	}
	_, isCentre := n.member.(centre)
	memoryAt, lacks := n.wholeMemory()
	home, _ := os.UserHomeDir() // without one, as services often are, there are no histories
	return server.Options{
		OpenID: openID, Home: home, Examine: func() []ui.Finding { return examineHere(cfg) },
		Listen: cfg.Listen, TLS: cfg.TLS.Files(), Engine: n.engine, Webhooks: n.hooks, Router: n.routes, Log: n.log, Version: n.version, Telemetry: n.observed,
		PublicNames:  listen.Names(cfg.PublicNames),
		Origins:      cfg.Origins,
		PassThrough:  cfg.PassThrough.Allow,
		Management:   admin.WithLiveForOperators(admin.AccountHandler(n.managed, n.log, int(cfg.Limits.BodyBytes)), n.managed, live, n.log),
		NoModels:     isCentre,
		Centre:       memoryAt,
		Lacks:        lacks,
		CaptureOff:   cfg.Capture.Mode == "off",
		OptOut:       cfg.Capture.OptOut,
		AskUsage:     cfg.Capture.AskUsage,
		Warn:         record.USD(cfg.Cache.WarnUSD),
		Recall:       n.recalling,
		Memory:       n.recaller,
		KeyLimits:    keyLimits(cfg),
		Leases:       n.member.leases(),
		BodyBytes:    int64(cfg.Limits.BodyBytes),
		HeaderBytes:  int(cfg.Limits.HeaderBytes),
		ReadTimeout:  time.Duration(cfg.Timeouts.Read),
		DrainDelay:   time.Duration(cfg.Timeouts.DrainDelay),
		DrainTimeout: time.Duration(cfg.Timeouts.Drain),

		Connections: int(cfg.Limits.Connections), ConnectionsPerAddress: int(cfg.Limits.ConnectionsPerAddress), Requests: int(cfg.Limits.Requests),
		InFlightBytes: inFlightBytes(int64(cfg.Limits.InFlightBytes), allowed()), AnswerMemory: int64(cfg.Limits.AnswerMemory),
	}, nil
}
