package command

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/background/summary"
	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/server/webhook"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// Centre is "mneme centre" and its subcommands.
type Centre struct {
	Serve    CentreServe    `cmd:"" default:"withargs" help:"Run the centre of a cluster: collect what its edges record in Postgres, and serve that memory. It asks no models."`
	Adopt    CentreAdopt    `cmd:"" help:"Ship an existing store to the centre."`
	WriteOff CentreWriteOff `cmd:"" help:"Declare a lost edge destroyed, so that no erasure waits for it."`
}

// CentreServe is "mneme centre".
type CentreServe struct {
	StoreFlags `embed:""`
	Listen     string `placeholder:"ADDRESS,…" help:"Where to serve the memory: HOST:PORT (port 0 takes any free one), tls:HOST:PORT, unix:PATH ($MNEME_LISTEN). Of a worker: HOST:PORT for /metrics, /healthz and /readyz; default: none."`
	Quiet      bool   `help:"Print no greeting and make no first key, as without a terminal."`
	Worker     bool   `help:"Serve no memory, and share the work of a centre. Needs no data directory; any number can run."`
}

// Run serves the memory, and accepts what edges ship.
func (c *CentreServe) Run(ctx context.Context, s *Env) error {
	if c.Worker {
		return c.work(ctx, s)
	}
	serve := Serve{StoreFlags: c.StoreFlags, Listen: c.Listen, Quiet: c.Quiet}
	return serve.serve(ctx, s, joinAsCentre)
}

// CentreAdopt is "mneme centre adopt".
type CentreAdopt struct {
	StoreFlags `embed:""`
}

// Run ships everything that a store holds, and returns when the centre has confirmed it. It can be interrupted and
// resumed. The centre keeps no exchange twice.
func (c *CentreAdopt) Run(ctx context.Context, s *Env) (err error) {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	if _, err := os.Stat(cfg.Data); err != nil {
		return fmt.Errorf("there is no data in %s; name the data directory with --data", cfg.Data)
	}
	log, flush := newLog(s.Err, nil)
	defer flush()
	m, err := openEngine(ctx, &cfg, nil, nil, log)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	o, err := edgeOptions(&cfg, log)
	if err != nil {
		return err
	}
	shipper, err := cluster.Ship(ctx, m.Shipping(), uint16(cfg.Cluster.Node), o)
	if err != nil {
		return err
	}
	defer shipper.Close()
	all := shipper.Status().Waiting
	for waiting := all; waiting > 0; waiting = shipper.Status().Waiting {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(storeInterval):
		}
	}
	fmt.Fprintf(s.Out, "the centre has confirmed %s of %s\n", counted(int(all), "exchange"), cfg.Data)
	return nil
}

// CentreWriteOff is "mneme centre write-off NODE".
type CentreWriteOff struct {
	Target `embed:""`
	Node   uint16 `arg:"" help:"The edge's number, its cluster.node."`
}

// Run tells the running centre that the edge's disk is lost. Receipts of erasures say so.
func (c *CentreWriteOff) Run(ctx context.Context, s *Env) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		if err := client.WriteOff(ctx, c.Node); err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "edge %d is declared destroyed; should it return, it erases what it has missed\n", c.Node)
		return nil
	})
}

// member is a server's role in a cluster: it records, alone or as an edge, or it is the centre.
type member interface {
	Cluster() admin.Cluster
	keep(own *server.Engine, managed *admin.Engine)     // replaces the node's own memory by the cluster's
	widen(own *server.Engine)                           // adds what other nodes have
	embed(ctx context.Context, e search.Embedder) error // starts vectors of a memory besides the node's own; nil: none
	summarized(own *engine.Engine) summary.Sessions     // of which models write summaries
	WriteOff(ctx context.Context, node uint16) error
	leases() *quota.Leases // of limits shared with other nodes; nil if there are none
	Close()
}

// join makes a server a member of its cluster.
type join func(ctx context.Context, cfg *config.Config, m *engine.Engine, hooks *webhook.Sender, version string, observed *telemetry.Telemetry, log *slog.Logger) (member, error)

// alone is the role of a server in no cluster.
type alone struct{}

func (alone) Cluster() admin.Cluster { return admin.Cluster{} }

func (alone) Close() {}

func (alone) keep(*server.Engine, *admin.Engine) {}

func (alone) widen(*server.Engine) {}

func (alone) embed(context.Context, search.Embedder) error { return nil }

func (alone) summarized(own *engine.Engine) summary.Sessions { return own.Summaries() }

func (alone) WriteOff(context.Context, uint16) error { return errNoCentre }

// errNoCentre is the error of a server without edges.
var errNoCentre = codec.Errorf(codec.KindConflict, "this server is not the centre of a cluster")

func (alone) leases() *quota.Leases { return nil }

func stayAlone(_ context.Context, cfg *config.Config, m *engine.Engine, _ *webhook.Sender, _ string, _ *telemetry.Telemetry, _ *slog.Logger) (member, error) {
	return alone{}, ownAccounts(cfg, m)
}

// ownAccounts prepares the accounts of a store that shares them with no database.
func ownAccounts(cfg *config.Config, m *engine.Engine) error {
	if m.Shared().Joined() {
		return fmt.Errorf("%s is the data directory of a centre, which records nothing: run mneme centre with it, or name another directory with --data", cfg.Data)
	}
	return prepareAccounts(m, cfg)
}

type edge struct {
	alone
	*cluster.Edge
	lent   *quota.Leases
	quorum *quorumRecorder // nil: exchanges do not wait for the brokers
}

func (e edge) leases() *quota.Leases { return e.lent }

func (e edge) Close() { e.Edge.Close() }

func (e edge) Cluster() admin.Cluster {
	status := e.Status()
	return admin.Cluster{Edge: &status}
}

func joinAsEdge(ctx context.Context, cfg *config.Config, m *engine.Engine, _ *webhook.Sender, version string, observed *telemetry.Telemetry, log *slog.Logger) (member, error) {
	if err := ownAccounts(cfg, m); err != nil {
		return nil, err
	}
	o, err := edgeOptions(cfg, log)
	if err != nil {
		return nil, err
	}
	o.Version, o.Carrier, o.Leases, o.Quorum = version, m.Erased(), quota.NewLeases(), cfg.Cluster.Commit == "quorum"
	joined, err := cluster.Join(ctx, m.Shipping(), m.Archive(), m.Roster(), uint16(cfg.Cluster.Node), time.Duration(cfg.Cluster.IdentityMaxAge), o)
	if err != nil {
		return nil, err
	}
	observed.WatchEdge(joined.Status)
	e := edge{Edge: joined, lent: o.Leases}
	if o.Quorum {
		e.quorum = &quorumRecorder{cluster: joined, log: log, refuse: cfg.Cluster.OnOutage == "refuse", mark: m.Shipping().CommittedHere}
	}
	return e, nil
}

// edgeOptions returns the cluster options of an edge's configuration.
func edgeOptions(cfg *config.Config, log *slog.Logger) (o cluster.Options, err error) {
	o, err = clusterOptions(cfg, log)
	if err == nil && cfg.Cluster.Node == 0 {
		err = errors.New("give this edge a number in cluster.node that no other edge has, from 1 on")
	}
	return o, err
}

func (e edge) keep(own *server.Engine, managed *admin.Engine) {
	own.Index = partIndex{own.Index}
	managed.Searcher = own.Index
}

func (e edge) widen(own *server.Engine) {
	if e.quorum != nil {
		e.quorum.Recorder, own.Recorder = own.Recorder, e.quorum
	}
	local := own.Archive
	own.Archive = wideArchive{local, e.Edge}
	own.Elsewhere = func(account, id string) (*record.Exchange, error) {
		if _, err := local.ExchangeInfo(account, id); codec.AsError(err, "").Kind != codec.KindNotFound {
			return nil, nil //nolint:nilnil // it is here, or cannot be read
		}
		return e.Edge.Exchange(account, id)
	}
	own.Notes = wideNotes{own.Notes, own.Credentials, e.Edge}
}

// lacksCentre is what answers of an edge's own memory lack.
const lacksCentre = "centre"

// partIndex searches what an edge has recorded, and says that the centre has more.
type partIndex struct{ server.Index }

func (i partIndex) Search(ctx context.Context, account string, r *search.Request) (*search.Answer, error) {
	answer, err := i.Index.Search(ctx, account, r)
	if err != nil {
		return nil, err
	}
	return answer.Lacking(lacksCentre), nil
}

// wideNotes shares reasoning state with the other edges of the cluster.
type wideNotes struct {
	server.Notes
	credentials server.Credentials
	cluster     *cluster.Edge
}

func (n wideNotes) Recall(account, name string) (value []byte) {
	if value = n.Notes.Recall(account, name); value != nil {
		return value
	}
	return n.cluster.RecallReasoning(account, name)
}

func (n wideNotes) Keep(account, name string, value []byte) {
	n.Notes.Keep(account, name, value)
	if !n.credentials.Redactor(account).Holds(value) {
		n.cluster.KeepReasoning(account, name, value)
	}
}

// wideArchive also finds single exchanges on other nodes of the cluster.
type wideArchive struct {
	server.Archive
	cluster *cluster.Edge
}

func (a wideArchive) Exchange(account, id string) (*record.Exchange, error) {
	x, err := a.Archive.Exchange(account, id)
	if codec.AsError(err, "").Kind != codec.KindNotFound {
		return x, err
	}
	return a.cluster.Exchange(account, id)
}

func (a wideArchive) AnsweredAs(account, response string) (exchange string, err error) {
	exchange, err = a.Archive.AnsweredAs(account, response)
	if codec.AsError(err, "").Kind != codec.KindNotFound {
		return exchange, err
	}
	return a.cluster.AnsweredAs(account, response)
}

// noteSpending brings a lender of limits to what is on record for this month.
func noteSpending(ctx context.Context, l *quota.Lender, m *engine.Engine, ledger memory.Ledger) error {
	recorded, now, keys := make(quota.Spending), time.Now(), m.Keys()
	year, month, _ := now.UTC().Date()
	since := time.Date(year, month, 1, 0, 0, 0, 0, time.UTC)
	err := ledger.Rollups(ctx, record.RollupQuery{Since: since}, func(of record.RollupOf, r *record.Rollup) {
		if of.KeyID != record.ImportedKey {
			recorded.Add(now, of.Account, of.KeyID, keys.Origin(of.KeyID), of.Hour, r.Cost.USD, codec.Usage(r.Usage).Total())
		}
	})
	if err == nil {
		l.Settle(recorded)
	}
	return err
}
