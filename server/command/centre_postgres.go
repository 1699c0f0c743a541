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
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/redact"
	"github.com/mnemeproxy/mneme/store/search"
)

// rememberedBodies is how many bytes of bodies in a bucket are cached: the digest reads recent ones from there.
const rememberedBodies = 64 << 20

// openCatalog opens the centre's memory in Postgres; nil if none is configured. Accounts, keys and the audit record are
// there too, and the data directory follows them. What the centre records itself is in the data directory, and is
// copied to the catalog.
func openCatalog(ctx context.Context, cfg *config.Config, m *engine.Engine, log *slog.Logger) (*catalog.Catalog, error) {
	if cfg.Centre.Postgres == "" {
		return nil, nil //nolint:nilnil // the centre's memory is its store
	}
	switch cfg.Retention.MaxBytes {
	case 0:
	case config.Default().Retention.MaxBytes:
		log.Info("memory in Postgres is limited only by age; retention.max_bytes applies to the data directory")
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
	if err := m.Shipping().Begin(ctx); err != nil {
		return nil, err
	}
	own := m.Shipping().Log()
	kept, err := catalog.Open(ctx, catalog.Options{
		Seat: catalog.Seat{Node: uint16(cfg.Cluster.Node), Name: centreName(cfg), Store: hex.EncodeToString(own[:])},
		URL:  cfg.Centre.Postgres.Reveal(), Centre: id, Packs: packs, Cache: m.Shared(), MaxAge: time.Duration(cfg.Cluster.IdentityMaxAge), Retention: m.Archive().RetentionOf,
		Redactor: func(account string) *redact.Redactor { return m.Credentials().Redactor(account) },
		Digest:   digest.Exchange, Forget: forget(m), Summaries: cfg.Search.Summaries.Model != "", Log: log,
	})
	if err != nil {
		return nil, err
	}
	if err := kept.Erased().TakeOver(ctx, m.Erased(), m.Archive()); err != nil {
		kept.Close()
		return nil, err
	}
	return kept, nil
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
	proposed := cmp.Or(own, store.NewCentreID())
	if id, err = catalog.MakeCentre(ctx, url, proposed); err != nil {
		return "", err
	}
	if own == "" && id != proposed && len(m.Accounts().List()) > 0 {
		return "", errors.New("the data directory has accounts of its own, which the database in centre.postgres does not know: give this centre an empty one, and ship what the other has with mneme centre adopt")
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

// forget erases an account's data in a store, and returns when it is gone.
func forget(m *engine.Engine) func(context.Context, string, store.Selection) error {
	return func(ctx context.Context, account string, sel store.Selection) error {
		e, err := m.Archive().Erase(ctx, account, sel, false)
		for err == nil && e.State != store.ErasureDone {
			select {
			case <-ctx.Done():
				return ctx.Err()
			case <-time.After(storeInterval):
			}
			e, err = m.Archive().Erasure(account, e.ID)
		}
		if codec.AsError(err, "").Kind == codec.KindNotFound {
			return nil // the account is gone with everything it had
		}
		return err
	}
}

// inPostgres is a centre whose memory is in Postgres.
type inPostgres struct {
	centre
	catalog *catalog.Catalog
}

// Close stops the intake before it closes the catalog.
func (c inPostgres) Close() {
	c.centre.Close()
	releaseSummaries(c.catalog)
	c.catalog.Close()
}

func (c inPostgres) keep(own *server.Engine, managed *admin.Engine) {
	archive := newPostgresArchive(c.catalog, own.Archive)
	own.Archive = receipts{archive, c.Centre}
	managed.Archive = own.Archive
	own.Index, managed.Searcher = c.catalog, c.catalog
	own.Recall = postgresRecall{c.catalog, catalog.RecalledOf(c.catalog), own.Notes}
	own.Notes = postgresNotes{own.Notes, catalog.RecalledOf(c.catalog)}
	own.Accounts = postgresLedger{own.Accounts, c.catalog}
	managed.Accounts = postgresAccounts{managed.Accounts, c.catalog}
	managed.Upkeep = postgresUpkeep{managed.Upkeep, c.catalog}
}

func (c inPostgres) embed(ctx context.Context, e search.Embedder) error {
	return catalog.VectorsOf(c.catalog).Start(ctx, e)
}

// summarized returns the sessions in Postgres: those that the centre recorded itself are there too.
func (c inPostgres) summarized(*engine.Engine) summary.Sessions {
	return catalog.SummariesOf(c.catalog)
}

// postgresArchive is the memory in Postgres, combined with the centre's own store.
type postgresArchive struct {
	catalog.Beside
	own server.Archive
}

func newPostgresArchive(c *catalog.Catalog, own server.Archive) postgresArchive {
	return postgresArchive{catalog.Beside{Catalog: c, Own: own}, own}
}

func (a postgresArchive) RetentionOf(account string) store.Retention {
	return a.own.RetentionOf(account)
}

func (a postgresArchive) Audited(e store.AuditEntry, act func(*store.AuditEntry) error) error {
	return a.own.Audited(e, act)
}

func (a postgresArchive) SessionSummary(account, session string) (*store.SessionSummary, error) {
	return catalog.SummariesOf(a.Catalog).SessionSummary(account, session)
}

func (a postgresArchive) Subscribe(account string, after uint64) (*store.Subscription, error) {
	return a.Events.Subscribe(account, after)
}

// postgresRecall is the memory in Postgres to recall from, with the notes of the centre's own store.
type postgresRecall struct {
	*catalog.Catalog
	catalog.Recalled
	server.ReasoningCache
}

// postgresNotes stores what is recalled with the exchanges in Postgres that it quotes.
type postgresNotes struct {
	server.Notes
	recalled catalog.Recalled
}

// Recollections asks the centre's own store for what is not in Postgres: decisions from before the centre had it.
func (n postgresNotes) Recollections(account string, keys []store.RecollectionKey) ([]*store.Recollection, error) {
	found, err := n.recalled.Recollections(account, keys)
	if err != nil {
		return nil, err
	}
	former, err := n.Notes.Recollections(account, keys)
	for i, r := range former {
		found[i] = cmp.Or(found[i], r)
	}
	return found, err
}

func (n postgresNotes) Recollect(ctx context.Context, account string, keys []store.RecollectionKey, r store.Recollection) (*store.Recollection, error) {
	return n.recalled.Recollect(ctx, account, keys, r)
}

// notInPostgres returns the error for what memory in Postgres does not support.
func notInPostgres(what string) error {
	return codec.Errorf(codec.KindUnsupported, "This centre keeps its memory in Postgres (centre.postgres), where %s.", what)
}

// postgresLedger has the usage and cost of the exchanges in Postgres.
type postgresLedger struct {
	server.Accounts
	catalog *catalog.Catalog
}

func (l postgresLedger) Rollups(ctx context.Context, q store.RollupQuery, visit func(store.RollupOf, *store.Rollup)) error {
	return l.catalog.Rollups(ctx, q, visit)
}

// postgresAccounts are accounts whose memory is in Postgres.
type postgresAccounts struct {
	admin.Accounts
	catalog *catalog.Catalog
}

func (a postgresAccounts) Rollups(ctx context.Context, q store.RollupQuery, visit func(store.RollupOf, *store.Rollup)) error {
	return a.catalog.Rollups(ctx, q, visit)
}

// SetRetention refuses rules that would not be enforced.
func (a postgresAccounts) SetRetention(ctx context.Context, account string, r *store.Retention) error {
	if r != nil && r.MaxBytes > 0 {
		return notInPostgres("memory cannot be limited by size: give the account only a max_age")
	}
	return a.Accounts.SetRetention(ctx, account, r)
}

// Delete deletes an account with its memory. The centres' own stores delete what they have of it once they follow.
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
