package command

import (
	"cmp"
	"context"
	"encoding/hex"
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
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/server/webhook"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
	"github.com/mnemeproxy/mneme/store/search"
)

// rememberedBodies is how many bytes of bodies in a bucket are cached: the digest reads recent ones from there.
const rememberedBodies = 64 << 20

// errNoDatabase is the error of a centre without a database.
var errNoDatabase = errors.New("a centre keeps its memory in Postgres: set centre.postgres to a database. If the data directory has the memory of an earlier version, copy it first: the accounts and keys move into the database, and mneme centre adopt ships the memory from the copy")

func joinAsCentre(ctx context.Context, cfg *config.Config, m *engine.Engine, hooks *webhook.Sender, version string, observed *telemetry.Telemetry, log *slog.Logger) (member, error) {
	o, err := clusterOptions(cfg, log)
	if err != nil {
		return nil, err
	}
	if cfg.Centre.Postgres == "" {
		return nil, errNoDatabase
	}
	kept, err := openCatalog(ctx, cfg, m, hooks, log)
	if err != nil {
		return nil, err
	}
	o.Version, o.Name, o.Leading, o.Erasures, o.Aside = version, centreName(cfg), catalog.LeadOf(kept), kept.Erased(), catalog.AsideOf(kept)
	var gathering *cluster.Centre
	if err = prepareAccounts(m, cfg); err == nil {
		gathering, err = gather(ctx, m, kept, o, observed)
	}
	if err != nil {
		kept.Close()
		return nil, err
	}
	observed.WatchLead(gathering.Leads, catalog.LeadOf(kept).Terms)
	return centre{gathering, kept}, nil
}

// gather starts to accept what edges ship.
func gather(ctx context.Context, m *engine.Engine, kept *catalog.Catalog, o cluster.Options, observed *telemetry.Telemetry) (*cluster.Centre, error) {
	lender := quota.NewLender()
	o.Lender, o.Spending = lender, func(ctx context.Context) error { return noteSpending(ctx, lender, m, kept) }
	if err := o.Spending(ctx); err != nil {
		return nil, err
	}
	o.Took, o.Gather = observed.WatchTakes(), cluster.GatherEach
	gathering, err := cluster.Gather(ctx, kept, kept, catalog.RosterOf(kept), o)
	if err != nil {
		return nil, err
	}
	observed.WatchArrivals(telemetry.Arrivals{Status: gathering.Status, Behind: gathering.Behind, Backlog: backlogOf(kept)})
	return gathering, nil
}

// backlogOf measures what waits in a memory in Postgres.
func backlogOf(kept *catalog.Catalog) func(context.Context) (telemetry.Backlog, error) {
	return func(ctx context.Context) (telemetry.Backlog, error) {
		b, err := catalog.BacklogOf(ctx, kept)
		return telemetry.Backlog(b), err
	}
}

// openCatalog opens the centre's memory in Postgres. Accounts, keys and the audit record are there too, and the data
// directory follows them.
func openCatalog(ctx context.Context, cfg *config.Config, m *engine.Engine, hooks *webhook.Sender, log *slog.Logger) (*catalog.Catalog, error) {
	switch cfg.Retention.MaxBytes {
	case 0:
	case config.Default().Retention.MaxBytes:
		log.Info("memory in Postgres is limited only by age; retention.max_bytes does not apply")
	default:
		return nil, errors.New("memory in Postgres cannot be limited by size: remove retention.max_bytes, and set retention.max_age")
	}
	id, err := joinDatabase(ctx, cfg.Centre.Postgres.Reveal(), m, cfg.MasterKey != "", log)
	if err != nil {
		return nil, err
	}
	packs, err := openPacks(ctx, cfg, id)
	if err != nil {
		return nil, err
	}
	if err := m.Shipping().Begin(ctx); err != nil { // for an id of the data directory
		return nil, err
	}
	own := m.Shipping().Log()
	return catalog.Open(ctx, catalog.Options{
		Seat: catalog.Seat{Node: uint16(cfg.Cluster.Node), Name: centreName(cfg), Store: hex.EncodeToString(own[:])},
		URL:  cfg.Centre.Postgres.Reveal(), Centre: id, Packs: packs, Cache: m.Shared(), MaxAge: time.Duration(cfg.Cluster.IdentityMaxAge), Retention: m.Archive().RetentionOf,
		Redactor: func(account string) *redact.Redactor { return m.Credentials().Redactor(account) },
		Digest:   digest.Exchange, Summaries: cfg.Search.Summaries.Model != "", Accepted: telling(hooks), Log: log,
	})
}

// centreName returns a name that distinguishes a centre from others.
func centreName(cfg *config.Config) string {
	host, err := os.Hostname()
	if err != nil {
		host = "of unknown host"
	}
	return fmt.Sprintf("centre %d %s", cfg.Cluster.Node, host)
}

// joinDatabase returns the id of the centre that a database belongs to, once the data directory belongs to it as well.
// If neither belongs to one, they get a new id. given says that the master key comes from outside.
func joinDatabase(ctx context.Context, url string, m *engine.Engine, given bool, log *slog.Logger) (id string, err error) {
	own, err := m.Shared().Centre()
	if err != nil {
		return "", err
	}
	if own == "" && len(m.Accounts().List()) > 0 {
		return "", errors.New("the data directory has accounts and exchanges of its own, and those of a centre are in its database: give the centre an empty one, and ship what the other has with mneme centre adopt")
	}
	if id, err = catalog.MakeCentre(ctx, url, cmp.Or(own, store.NewCentreID())); err != nil {
		return "", err
	}
	if !given {
		log.Warn("the master key is only in the data directory: put the content of master.key into MNEME_MASTER_KEY, here and on every node, or the credentials in the database are lost with the directory")
	}
	return id, m.Shared().Join(ctx, id)
}

// openPacks opens the bucket with the bodies of a centre; nil if they are in its database.
func openPacks(ctx context.Context, cfg *config.Config, centre string) (*pack.Packs, error) {
	if cfg.Centre.Bodies == config.InPostgres {
		return nil, nil //nolint:nilnil // there is no bucket
	}
	packs, err := pack.Open(ctx, cfg.Centre.Bodies, centre, rememberedBodies)
	if err != nil {
		return nil, fmt.Errorf("centre.bodies: %w", err)
	}
	return packs, nil
}

// centre is the role of the centre of a cluster. Its memory is in Postgres, and it records nothing of its own.
type centre struct {
	*cluster.Centre
	catalog *catalog.Catalog
}

func (c centre) Cluster() admin.Cluster {
	status := c.Status()
	return admin.Cluster{Centre: &status}
}

// Close stops the intake before it closes the catalog.
func (c centre) Close() {
	c.Centre.Close()
	releaseSummaries(c.catalog)
	c.catalog.Close()
}

func (c centre) keep(own *server.Engine, managed *admin.Engine) {
	own.Recorder = noRecorder{own.Recorder}
	own.Archive = centreArchive{c.catalog, own.Archive, c.Centre}
	managed.Archive = own.Archive
	own.Index, managed.Searcher = c.catalog, c.catalog
	own.Recall = centreRecall{c.catalog, catalog.RecalledOf(c.catalog), own.Notes}
	own.Accounts = postgresLedger{own.Accounts, c.catalog}
	managed.Accounts = postgresAccounts{managed.Accounts, c.catalog}
	managed.Upkeep = postgresUpkeep{managed.Upkeep, c.catalog}
}

func (centre) widen(*server.Engine) {}

func (c centre) embed(ctx context.Context, e search.Embedder) error {
	return catalog.VectorsOf(c.catalog).Start(ctx, e)
}

func (c centre) summarized(*engine.Engine) summary.Sessions { return catalog.SummariesOf(c.catalog) }

func (c centre) WriteOff(ctx context.Context, node uint16) error {
	return c.DeclareDestroyed(ctx, node)
}

func (centre) leases() *quota.Leases { return nil } // edges enforce limits

// centreArchive is the memory in Postgres. Retention and the audit log are those of the roster in the data directory.
type centreArchive struct {
	*catalog.Catalog
	roster server.Archive
	centre *cluster.Centre
}

func (a centreArchive) RetentionOf(account string) store.Retention {
	return a.roster.RetentionOf(account)
}

func (a centreArchive) Audited(e store.AuditEntry, act func(*store.AuditEntry) error) error {
	return a.roster.Audited(e, act)
}

func (a centreArchive) SessionSummary(account, session string) (*record.SessionSummary, error) {
	return catalog.SummariesOf(a.Catalog).SessionSummary(account, session)
}

func (a centreArchive) Subscribe(account string, after uint64) (*record.Subscription, error) {
	return a.Events.Subscribe(account, after)
}

// errRecordsNothing is the error of what has to be recorded.
var errRecordsNothing = codec.Errorf(codec.KindUnsupported, "A centre records nothing itself. Do this at an edge (mneme serve --edge), which ships it to the centre.")

// noRecorder is the recorder of a centre.
type noRecorder struct{ server.Recorder }

func (noRecorder) Begin(context.Context, *record.Opening) (store.Recording, error) {
	return nil, errRecordsNothing
}

func (a centreArchive) Import(context.Context, string, record.Exported) (taken bool, err error) {
	return false, errRecordsNothing
}

// Erasure lists all places in the cluster that held what was erased.
func (a centreArchive) Erasure(account, id string) (*record.Erasure, error) {
	e, err := a.Catalog.Erasure(account, id)
	if err == nil {
		e.Places, err = a.centre.Places(context.Background(), e)
	}
	return e, err
}

// centreRecall is the memory in Postgres to recall from.
type centreRecall struct {
	*catalog.Catalog
	catalog.Recalled
	server.ReasoningCache
}

// notInPostgres returns the error for what memory in Postgres does not support.
func notInPostgres(what string) error {
	return codec.Errorf(codec.KindUnsupported, "A centre keeps its memory in Postgres, where %s.", what)
}

// postgresLedger has the usage and cost of the exchanges in Postgres.
type postgresLedger struct {
	server.Accounts
	catalog *catalog.Catalog
}

func (l postgresLedger) Rollups(ctx context.Context, q record.RollupQuery, visit func(record.RollupOf, *record.Rollup)) error {
	return l.catalog.Rollups(ctx, q, visit)
}

// postgresAccounts are accounts whose memory is in Postgres.
type postgresAccounts struct {
	admin.Accounts
	catalog *catalog.Catalog
}

func (a postgresAccounts) Rollups(ctx context.Context, q record.RollupQuery, visit func(record.RollupOf, *record.Rollup)) error {
	return a.catalog.Rollups(ctx, q, visit)
}

// SetRetention refuses rules that would not be enforced.
func (a postgresAccounts) SetRetention(ctx context.Context, account string, r *store.Retention) error {
	if r != nil && r.MaxBytes > 0 {
		return notInPostgres("memory cannot be limited by size: give the account only a max_age")
	}
	return a.Accounts.SetRetention(ctx, account, r)
}

// Delete deletes an account with its memory.
func (a postgresAccounts) Delete(ctx context.Context, name string, dryRun bool) (d store.AccountDeletion, err error) {
	if d, err = a.Accounts.Delete(ctx, name, true); err != nil {
		return d, err
	}
	usage, err := a.catalog.Usage(ctx, name)
	if err == nil && !dryRun {
		d.DryRun, d.Deleted = false, time.Now().UTC()
		err = a.catalog.DeleteAccount(ctx, name)
	}
	d.Exchanges, d.Sessions, d.Bytes = usage.Exchanges, usage.Sessions, usage.Stored()
	return d, err
}

// postgresUpkeep maintains a memory in Postgres.
type postgresUpkeep struct {
	admin.Upkeep
	catalog *catalog.Catalog
}

// RebuildWords digests everything again.
func (u postgresUpkeep) RebuildWords(ctx context.Context) error {
	if err := u.catalog.Rebuild(ctx); err != nil {
		return fmt.Errorf("begin the digest again: %w", err)
	}
	return nil
}

func (u postgresUpkeep) RebuildVectors(ctx context.Context) error {
	return catalog.VectorsOf(u.catalog).Rebuild(ctx)
}
