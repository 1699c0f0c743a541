package command

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"time"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/redact"
	"github.com/mnemeproxy/mneme/store/search"
)

// StoreFlags select an installation. Every command that touches data has them.
type StoreFlags struct {
	Config string `placeholder:"FILE" help:"Configuration file ($MNEME_CONFIG)."`
	Data   string `placeholder:"DIR" help:"Data directory ($MNEME_DATA)."`
}

func (f StoreFlags) load() (config.Config, error) {
	return config.Load(config.Sources{File: f.Config, Data: f.Data})
}

// storeOptions returns the options of the configured store.
func storeOptions(cfg *config.Config, log *slog.Logger) (store.Options, error) {
	durability, err := store.ParseDurability(cfg.Capture.Durability)
	if err != nil {
		return store.Options{}, err
	}
	pressure, err := store.ParsePressure(cfg.Capture.OnPressure)
	if err != nil {
		return store.Options{}, err
	}
	redactor, err := newRedactor(cfg)
	if err != nil {
		return store.Options{}, err
	}
	return store.Options{
		Dir: cfg.Data, Durability: durability, OnPressure: pressure, MasterKey: cfg.MasterKeyBytes(), Log: log,
		PreviousMasterKey: cfg.PreviousMasterKeyBytes(), Node: uint16(cfg.Cluster.Node),
		AnswerBytes: int64(cfg.Capture.AnswerBytes),

		Digest: digest.Exchange, Redact: redactor, Stream: digest.Stream,
		Summaries: cfg.Search.Summaries.Model != "",
		Retention: store.Retention{MaxAge: time.Duration(cfg.Retention.MaxAge), MaxBytes: int64(cfg.Retention.MaxBytes)},
		AuditAge:  time.Duration(cfg.Retention.Audit),
	}, nil
}

// newRedactor returns a redactor for everything stored and logged, including the credentials of the configuration.
func newRedactor(cfg *config.Config) (*redact.Redactor, error) {
	r, err := redact.New(cfg.Capture.Redact.Options())
	if err != nil {
		return nil, err
	}
	r.Guard(cfg.Secrets()...)
	return r, nil
}

// What a command does if the installation does not exist yet.
const (
	mustExist = false
	create    = true
)

// manage runs do with a client of the installation, whether or not a server runs.
func (f StoreFlags) manage(ctx context.Context, create bool, do func(*admin.Client) error) error {
	cfg, opts, err := f.managed()
	if err != nil {
		return err
	}
	return manage(ctx, &cfg, create, func() (*engine.Engine, error) {
		return engine.Open(opts, &search.Options{Dir: indexDir(&cfg), LeaveVectors: true}) // most commands need only words
	}, do)
}

// managed returns the configuration and the options with which a command opens the store.
func (f StoreFlags) managed() (cfg config.Config, opts store.Options, err error) {
	if cfg, err = f.load(); err != nil {
		return cfg, opts, err
	}
	opts, err = storeOptions(&cfg, nil)
	opts.Durability = store.Power // an operator's changes must survive a power loss
	return cfg, opts, err
}

// noDataError names a data directory that does not exist.
type noDataError string

func (e noDataError) Error() string {
	return fmt.Sprintf("there is no data in %s; name the data directory with --data or %s, or start with: mneme serve", string(e), config.EnvData)
}

func manage(ctx context.Context, cfg *config.Config, create bool, open func() (*engine.Engine, error), do func(*admin.Client) error) error {
	client, err := admin.Open(ctx, cfg.Data, func() (admin.Engine, error) {
		e, err := open()
		if err != nil {
			return admin.Engine{}, err
		}
		managed := admin.Over(e)
		prices := &importPrices{load: func() (router.Prices, error) { return router.LoadPrices(cfg.ModelsFile) }}
		managed.Archive, managed.Prices = pricingArchive{e.Archive(), prices}, prices
		return managed, nil
	}, create)
	if errors.Is(err, fs.ErrNotExist) {
		return noDataError(cfg.Data)
	}
	if errors.Is(err, store.ErrInUse) {
		return fmt.Errorf("another mneme process has the data in %s open and takes no commands; try again when it has ended", cfg.Data)
	}
	if err != nil {
		return err
	}
	return errors.Join(do(client), client.Close())
}
