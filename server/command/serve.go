package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/router/neterr"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/listen"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Serve is "mneme serve".
type Serve struct {
	StoreFlags `embed:""`
	Listen     string `placeholder:"ADDRESS,…" help:"Where to serve: HOST:PORT (port 0 takes any free one), tls:HOST:PORT, unix:PATH ($MNEME_LISTEN)."`
	Quiet      bool   `help:"Print no greeting and make no first key, as without a terminal."`
	Simulate   bool   `help:"Use a simulated provider, which is not a model, for built-in providers without a key."`
	Edge       bool   `help:"Also ship every exchange to the centre of a cluster; see cluster in the configuration."`
}

// Run serves until ctx is done, then drains. On a restart request it drains and then executes the installed program.
// Standard output gets one line per address, "listening on http://HOST:PORT", once requests are accepted; messages for
// people, including the first key, go to standard error before that.
func (c *Serve) Run(ctx context.Context, s *Env) error {
	if c.Edge {
		return c.serve(ctx, s, joinAsEdge)
	}
	return c.serve(ctx, s, stayAlone)
}

// serve is Run for that member of a cluster.
func (c *Serve) serve(ctx context.Context, s *Env, join join) error {
	inherited, err := listen.Inherit()
	if err != nil {
		return err
	}
	var restart restart
	err = c.run(ctx, s, inherited, &restart, join)
	cut := errors.Is(err, server.ErrAborted)
	if err != nil && !cut || !restart.begun() || ctx.Err() != nil { // stopped in the meantime
		return err
	}
	if cut {
		fmt.Fprintln(s.Err, "mneme: before the restart,", err)
	}
	return restart.become()
}

// run starts everything in the order in which each part needs those before it, and ends it in reverse.
func (c *Serve) run(ctx context.Context, s *Env, inherited *listen.Inherited, restart *restart, join join) (err error) {
	var opened opened
	defer func(told context.Context) { err = errors.Join(unlessStopped(told, err), opened.close()) }(ctx)
	p, err := newProgram(ctx, s, config.Sources{File: c.Config, Listen: c.Listen, Data: c.Data}, &opened)
	if err != nil {
		return err
	}
	var simulator Simulator
	if c.Simulate {
		if s.Simulate == nil {
			return errors.New("this build has no simulated provider; omit --simulate")
		}
		var stop func() error
		simulator, stop = once(s.Simulate)
		opened.add(stop)
	}
	m, err := p.openMemory(ctx, simulator, &opened)
	if err != nil {
		return err
	}
	n, err := m.join(ctx, join, &opened)
	if err != nil {
		return err
	}
	running := running{member: n.member}
	management, err := openManagement(&p.cfg, n.managed, p.observed.Metrics(), &running, p.log)
	opened.add(management.close)
	if err != nil {
		return err
	}
	options, err := n.options(&running)
	if err != nil {
		return err
	}
	options.Inherited = inherited
	service, err := server.New(options)
	if err != nil {
		return err
	}
	running.service = service
	if rest := inherited.CloseRest(); len(rest) > 0 {
		p.log.Warn("this process was passed sockets that it does not listen on; name their addresses in listen", "addresses", rest)
	}
	opened.add(m.reload(ctx, service))
	endImport, err := n.keepHistories()
	if err != nil {
		return err
	}
	opened.then(endImport)
	ctx, drain := context.WithCancel(ctx)
	defer drain()
	if inherited.Continues() {
		p.log.Info("serving again after the restart")
	}
	defer restart.await(ctx, service, c.Config, p.log, drain)()
	return serve(ctx, service, management, func() error {
		if c.Quiet || inherited.Continues() || c.Edge { // an edge uses the keys of its centre
			return announce(s.Out, service.Addresses())
		}
		return n.greet(ctx, s, service.Addresses())
	})
}

// serve runs the surfaces and the management side by side until ctx is done. It announces first: the port is already
// open, so clients that connect already are served. Management lasts until the surfaces have drained.
func serve(ctx context.Context, service *server.Server, management management, announce func() error) error {
	group, running := errgroup.WithContext(context.WithoutCancel(ctx))
	serving, drain := context.WithCancel(running)
	defer context.AfterFunc(ctx, drain)()
	managing, stopManaging := context.WithCancel(context.WithoutCancel(ctx))
	defer stopManaging()
	if err := announce(); err != nil {
		drain()
		return errors.Join(err, service.Run(serving))
	}
	for _, m := range management {
		group.Go(func() error { return admin.Serve(managing, m.listener, m.handler) })
	}
	group.Go(func() error {
		defer stopManaging()
		return service.Run(serving)
	})
	return group.Wait()
}

// spanTimeout is how long shutdown may wait for the trace receiver.
const spanTimeout = 5 * time.Second

// endTracing sends pending spans.
func endTracing(tracing *telemetry.Tracing, log *slog.Logger) {
	ctx, cancel := context.WithTimeout(context.Background(), spanTimeout)
	defer cancel()
	if err := tracing.Shutdown(ctx); err != nil {
		log.Warn("the last spans did not reach the receiver of traces", "cause", err)
	}
}

// How long a start waits for a command that has the store open, and how often it checks; commands hold it for
// milliseconds.
const (
	storeTimeout  = 5 * time.Second
	storeInterval = 50 * time.Millisecond
)

// openEngine opens the memory; [startIndex] starts its index.
func openEngine(ctx context.Context, cfg *config.Config, redactor *redact.Redactor, accepted func(string, *record.Erasure) error, log *slog.Logger) (*engine.Engine, error) {
	opts, err := storeOptions(cfg, log)
	if err != nil {
		return nil, err
	}
	opts.Redact, opts.Accepted = redactor, accepted
	for deadline := time.Now().Add(storeTimeout); ; {
		m, err := engine.Open(opts, nil)
		if !errors.Is(err, store.ErrInUse) {
			return m, err
		}
		if admin.Running(ctx, cfg.Data) || time.Now().After(deadline) {
			return nil, fmt.Errorf("another mneme serves the data in %s; stop it, or name another directory with --data", cfg.Data)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(storeInterval):
		}
	}
}

// prepareAccounts creates the account of a first start and makes the operator's own key valid.
func prepareAccounts(m *engine.Engine, cfg *config.Config) error {
	if err := admin.EnsureAccount(m.Accounts()); err != nil {
		return err
	}
	if cfg.ServiceKey == "" {
		return nil
	}
	return m.Keys().AddStatic(cfg.ServiceKey.Reveal(), admin.DefaultAccount, store.AllScopes)
}

// firstKey makes a key if there is none yet, so that a first start is usable at once. It returns "" if there is one, or
// no account of a first start.
func firstKey(m *engine.Engine) (secret string, err error) {
	isDefault := func(a store.Account) bool { return a.Name == admin.DefaultAccount }
	if len(m.Keys().List("")) > 0 || !slices.ContainsFunc(m.Accounts().List(), isDefault) {
		return "", nil
	}
	err = m.AuditLog().Audited(store.AuditEntry{Actor: store.Operator, Action: "key.create", Account: admin.DefaultAccount}, func(e *store.AuditEntry) error {
		var key store.Key
		secret, key, err = m.Keys().Create(admin.DefaultAccount, store.ScopeWrite|store.ScopeRead, "first key")
		e.Subject = key.ID
		return err
	})
	return secret, err
}

// simulate starts the simulated provider and points all built-in providers at it that have no key, no URL and no
// account credential. It returns their names.
func simulate(routing *router.Config, m *engine.Engine, start Simulator) (names []string, err error) {
	keyed := map[string]bool{}
	for _, account := range m.Accounts().List() {
		providers, err := m.Credentials().List(account.Name)
		if err != nil {
			return nil, err
		}
		for _, name := range providers {
			keyed[name] = true
		}
	}
	for _, name := range config.BuiltInProviders() {
		if p := routing.Providers[name]; !p.HasKey() && !p.HasURL() && !keyed[name] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, nil
	}
	origin, _, err := start()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		routing.Providers[name] = routing.Providers[name].WithSimulated(name, origin)
	}
	return names, nil
}

// management has the listeners for administration.
type management []struct {
	listener net.Listener
	handler  http.Handler
}

// openManagement opens the socket beside the data, and the address for admin keys if one is configured. The caller
// closes the result, also after an error.
func openManagement(
	cfg *config.Config, memory admin.Engine, metrics http.Handler, live admin.Live, log *slog.Logger,
) (m management, err error) {
	add := func(listener net.Listener, handler http.Handler) {
		m = append(m, struct {
			listener net.Listener
			handler  http.Handler
		}{listener, handler})
	}
	socket, err := admin.Listen(cfg.Data)
	if err != nil {
		return nil, err
	}
	add(socket, admin.WithLive(admin.Handler(memory, log), live, log))
	if cfg.Admin.Listen == "" {
		return m, nil
	}
	listener, err := net.Listen("tcp", cfg.Admin.Listen)
	if errors.Is(err, neterr.InUse) {
		return m, fmt.Errorf("%s is taken by another program (address already in use); stop that, or choose another address in admin.listen", cfg.Admin.Listen)
	}
	if err != nil {
		return m, fmt.Errorf("cannot listen on %s for admin.listen: %w", cfg.Admin.Listen, err)
	}
	byKey := admin.WithLiveForOperators(admin.AccountHandler(memory, log, int(cfg.Limits.BodyBytes)), memory, live, log)
	inspected := admin.WithInspection(byKey, memory.Keys, log, metrics, listen.IsLoopback(listener.Addr()))
	add(listener, admin.WithNames(inspected, log, listen.Names(cfg.PublicNames), listener.Addr()))
	log.Info("management for admin keys", "listen", listener.Addr().String())
	return m, nil
}

// running describes the server to the management, which asks only once the service exists.
type running struct {
	service *server.Server
	member
}

// Providers returns the providers that the service routes to.
func (r *running) Providers() []api.Provider {
	providers := r.service.Router().Providers()
	all := make([]api.Provider, len(providers))
	for i, p := range providers {
		all[i] = api.Provider{Name: p.Name(), Simulated: p.Simulated()}
	}
	return all
}

// Origins returns the URLs of its addresses for clients on this machine.
func (r *running) Origins() []string {
	origins := []string{}
	for _, address := range r.service.Addresses() {
		if origin := address.Origin(); origin != "" {
			origins = append(origins, origin)
		}
	}
	return origins
}

// Invite returns a sign-in code for the page.
func (r *running) Invite(account string, operator bool) (string, error) {
	return r.service.Invite(account, operator)
}

// close is for a failed start; a listener that was served is already closed.
func (m management) close() error {
	for _, one := range m {
		_ = one.listener.Close()
	}
	return nil
}

// announce prints the addresses that accept requests.
func announce(w io.Writer, addresses []listen.Address) error {
	for _, address := range addresses {
		if _, err := fmt.Fprintf(w, "listening on %s\n", cmp.Or(address.Origin(), address.String())); err != nil {
			return err
		}
	}
	return nil
}

// mainOrigin returns the URL of the first TCP address for clients on this machine, or "" if there is none.
func mainOrigin(addresses []listen.Address) string {
	for _, address := range addresses {
		if origin := address.Origin(); origin != "" {
			return origin
		}
	}
	return ""
}

// socketOf returns the path of the first unix socket, or "".
func socketOf(addresses []listen.Address) string {
	for _, address := range addresses {
		if address.Network == "unix" {
			return address.Name
		}
	}
	return ""
}

// configuredOrigin returns the server's URL on this machine, or "" if the configuration does not say.
func configuredOrigin(cfg *config.Config) string {
	addresses := make([]listen.Address, len(cfg.Listen))
	for i, text := range cfg.Listen {
		addresses[i], _ = listen.Parse(text) // checked by config.Load
	}
	return mainOrigin(addresses)
}

// provisions reports for each provider whether it is real or simulated.
func provisions(routing *router.Config, simulated []string) []provision {
	names := config.BuiltInProviders()
	for name := range routing.Providers {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	slices.Sort(names[len(config.BuiltInProviders()):])
	all := make([]provision, len(names))
	for i, name := range names {
		all[i] = provision{provider: name, simulated: slices.Contains(simulated, name), keyed: routing.Providers[name].HasKey() || routing.Providers[name].Keyless(name)}
	}
	return all
}
