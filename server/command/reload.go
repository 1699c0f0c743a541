package command

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"reflect"
	"slices"
	"syscall"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/background/embedding"
	"github.com/mnemeproxy/mneme/server/background/summary"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/redact"
)

// routing makes routers from configurations, at the start and at every reload.
type routing struct {
	sources   config.Sources
	engine    *engine.Engine
	log       *slog.Logger
	traceable bool                // spans are enabled
	redactor  *redact.Redactor    // of the store and the log
	simulator Simulator           // nil: no providers are simulated
	embedder  *embedding.Embedder // of the index; nil: no provider embeds
	summaries *summary.Writer     // nil: no model writes summaries
	imports   *importPrices
}

// router also returns the configuration that the router was made from, and the names of simulated providers.
func (r *routing) router(cfg *config.Config) (made *router.Router, from router.Config, simulated []string, err error) {
	from = cfg.Router()
	from.TraceParent = r.traceable && cfg.Telemetry.SendTraceparent
	if r.simulator != nil {
		if simulated, err = simulate(&from, r.engine, r.simulator); err != nil {
			return nil, from, nil, err
		}
	}
	made, err = router.New(from)
	return made, from, simulated, err
}

// lookEvery is how often the configuration files are polled. A change is applied once two polls agree.
const lookEvery = time.Second

// reloads applies changes of the configuration while the service runs.
type reloads struct {
	routing
	service   *server.Server
	telemetry *telemetry.Telemetry
	started   *config.Config
	files     *config.Watch  // taken before started was read
	routes    *router.Router // in use; only reloads closes it
}

// run rereads the configuration at every SIGHUP and whenever one of its files has changed, until ctx is done, and
// applies it to the service. An invalid configuration changes nothing.
func (r *reloads) run(ctx context.Context) {
	defer func() { r.routes.Close() }()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		by := "SIGHUP"
		select {
		case <-ctx.Done():
			return
		case <-hangup:
			r.files.Take()
		case <-look.C:
			if !r.files.Changed() {
				continue
			}
			by = "file"
		}
		r.renewCertificates()
		if files := r.reload(by); files != nil {
			r.files.Follow(files...)
		}
	}
}

// renewCertificates applies renewed certificates, even if the configuration has become invalid.
func (r *reloads) renewCertificates() {
	renewed, err := r.service.RenewCertificates()
	switch {
	case err != nil:
		r.log.Error("the certificate was not accepted; the previous one stays in use", "reason", err.Error())
	case renewed:
		r.log.Info("the certificate was renewed")
	}
}

// reload returns the files of the configuration that it has applied, or nil.
func (r *reloads) reload(by string) (files []string) {
	err := r.engine.AuditLog().Audited(store.AuditEntry{Actor: store.Operator, Action: "config.reload", Subject: by}, func(*store.AuditEntry) error {
		fresh, made, err := r.read()
		if err != nil {
			return codec.Invalid("", "%s", reason(err))
		}
		files = fresh.Files(r.sources)
		r.use(&fresh, made)
		return nil
	})
	r.telemetry.Reloaded(err == nil)
	if err != nil {
		r.log.Error("the configuration was not accepted; the previous one stays in use", "by", by, "reason", messageOf(err))
	}
	return files
}

func (r *reloads) read() (config.Config, *router.Router, error) {
	fresh, err := config.Load(r.sources)
	if err != nil {
		return config.Config{}, nil, err
	}
	r.redactor.Guard(fresh.Secrets()...)
	made, _, _, err := r.router(&fresh)
	return fresh, made, err
}

func (r *reloads) use(fresh *config.Config, made *router.Router) {
	r.service.LimitKeys(keyLimits(fresh))
	if people, err := fresh.UI.OIDC.Options(); err == nil { // checked by Load
		r.service.UseOpenID(people)
	}
	if err := r.service.UseCertificates(fresh.TLS.Files()); err != nil {
		r.log.Error("the certificate was not accepted; the previous one stays in use", "reason", err.Error())
	}
	r.service.Reroute(made)
	r.imports.use(made.Prices())
	if r.embedder != nil {
		if err := r.embedder.Reroute(made); err != nil {
			r.log.Error("turns get no vectors until a restart", "reason", reason(err))
		}
	}
	if r.summaries != nil {
		if err := r.summaries.Reroute(made); err != nil {
			r.log.Error("no summaries are written until the model is routed again", "reason", reason(err))
		}
	}
	r.routes.Close()
	r.routes = made
	r.log.Info("the configuration was read again", "waits_for_restart", waitsForRestart(r.started, fresh))
}

func reason(err error) string {
	var problems config.Problems
	if errors.As(err, &problems) {
		return problems.Error()
	}
	return err.Error()
}

// keyLimits returns the limits of keys that have none of their own.
func keyLimits(cfg *config.Config) store.Limits {
	l := cfg.Limits.PerKey
	return store.Limits{
		RequestsPerMinute: int64(l.RequestsPerMinute), TokensPerMinute: int64(l.TokensPerMinute),
		Concurrent: int64(l.Concurrent), TokensPerMonth: int64(l.TokensPerMonth), Repeats: int64(l.Repeats), StalledTokens: int64(l.StalledTokens),
	}
}

// waitsForRestart names the groups that have changed since the start and are read only at the start. These are applied
// at once: providers, routes, aliases, the file of models, the cache, the limits of keys, sign-in to the page, and the
// timeouts of providers.
func waitsForRestart(started, fresh *config.Config) []string {
	names := []string{}
	for name, pair := range map[string][2]any{
		"listen": {started.Listen, fresh.Listen}, "data": {started.Data, fresh.Data},
		"limits.body_bytes":      {started.Limits.BodyBytes, fresh.Limits.BodyBytes},
		"limits.header_bytes":    {started.Limits.HeaderBytes, fresh.Limits.HeaderBytes},
		"limits.in_flight_bytes": {started.Limits.InFlightBytes, fresh.Limits.InFlightBytes},
		"limits.answer_memory":   {started.Limits.AnswerMemory, fresh.Limits.AnswerMemory},
		"limits.connections": {
			[]config.Count{started.Limits.Connections, started.Limits.ConnectionsPerAddress, started.Limits.Requests},
			[]config.Count{fresh.Limits.Connections, fresh.Limits.ConnectionsPerAddress, fresh.Limits.Requests},
		},
		"timeouts.drain_delay": {started.Timeouts.DrainDelay, fresh.Timeouts.DrainDelay},
		"timeouts.read":        {started.Timeouts.Read, fresh.Timeouts.Read}, "timeouts.drain": {started.Timeouts.Drain, fresh.Timeouts.Drain},
		"capture": {started.Capture, fresh.Capture}, "retention": {started.Retention, fresh.Retention},
		"search": {started.Search, fresh.Search}, "admin": {started.Admin, fresh.Admin}, "import": {started.Import, fresh.Import}, "telemetry": {started.Telemetry, fresh.Telemetry},
	} {
		if !reflect.DeepEqual(pair[0], pair[1]) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// once starts a simulator when it is first needed, and returns the same one from then on.
func once(start Simulator) (simulator Simulator, stop func() error) {
	origin, end := "", func() error { return nil }
	simulator = func() (string, func() error, error) {
		if origin != "" {
			return origin, end, nil
		}
		from, ending, err := start()
		if err == nil {
			origin, end = from, ending
		}
		return origin, end, err
	}
	return simulator, func() error { return end() }
}
