package server

import (
	"context"
	"net/http"

	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/server/ui"
	"github.com/mnemeproxy/mneme/server/ui/openid"
	"github.com/mnemeproxy/mneme/store"
)

// windowRoutes mounts the page at /ui.
func (s *Server) windowRoutes() {
	onTLS := func(r *http.Request) bool { return s.edge.OnTLS(edge.RequestOf(r.Context())) }
	onLoopback := func(r *http.Request) bool { return s.edge.OnLoopback(edge.RequestOf(r.Context())) }
	s.window = ui.New(ui.Options{
		Archive: s.engine.Archive, Keys: s.engine.Keys, Accounts: s.engine.Accounts, Sealer: s.engine.Credentials, Version: s.opts.Version, Log: s.log, Closing: s.edge.Closing(), Management: s.opts.Management, Health: s.health,
		Memory: memory.Options{Searcher: s.engine.Index, Ledger: s.engine.Accounts, Keys: s.engine.Keys, Recaller: s.recaller, Translate: s.translate, Prices: prices{s.proxy}, Warn: s.opts.Warn, Clock: s.opts.Clock, Lacks: s.opts.Lacks},
		Secure: onTLS, OpenID: s.opts.OpenID,
		Allowed: func(r *http.Request) bool { return onTLS(r) || onLoopback(r) },
		Home:    s.opts.Home, Local: onLoopback,
	})
	s.edge.Handle("", "/ui/*path", s.refuseOtherSites(s.logSignIns(s.serveHTTP(s.window))))
	s.edge.Handle(http.MethodGet, "/ui", func(_ context.Context, _ *edge.Request, out *edge.Response) {
		out.Set("Location", "/ui/")
		out.SetText(http.StatusSeeOther, "the page is at /ui/\n")
	})
}

// logSignIns logs failed sign-ins at the window, and what its keys do not permit.
func (s *Server) logSignIns(next edge.Handler) edge.Handler {
	return func(ctx context.Context, in *edge.Request, out *edge.Response) {
		next(ctx, in, out)
		switch status := out.Status(); {
		case status == http.StatusUnauthorized && in.Method() == http.MethodPost && in.Path() == "/ui/session":
			s.logRefusal(in, new(store.Identity), "a sign-in at the window failed")
		case status == http.StatusForbidden:
			s.logRefusal(in, new(store.Identity), "a request of the window is not permitted")
		}
	}
}

// UseOpenID changes how people sign in to the page with an OpenID provider.
func (s *Server) UseOpenID(o openid.Options) { s.window.UseOpenID(o) }

// Invite returns a code with which a browser signs in to the page, for an account or as an operator.
func (s *Server) Invite(account string, operator bool) (code string, err error) {
	return s.window.Invite(account, operator)
}

// health returns what the page shows about the server.
func (s *Server) health() ui.Health {
	r := s.router.Load()
	h := ui.Health{
		Object: "health", Version: s.opts.Version, Draining: s.Draining(), Open: s.edge.Requests(), Streams: s.beat.open(), Capture: !s.opts.CaptureOff,
		Models: r.ModelsAsOf(), Prices: r.PricesAsOf(), Providers: []ui.HealthProvider{}, Findings: []ui.Finding{},
	}
	if s.opts.Examine != nil {
		h.Findings = s.opts.Examine()
	}
	if err := s.refusing(); err != nil {
		h.Problem = err.Error()
	}
	h.Ready = h.Problem == "" && !h.Draining
	simulated := make(map[string]bool)
	for _, p := range r.Providers() {
		simulated[p.Name()] = p.Simulated()
	}
	for _, e := range r.Health() {
		h.Providers = append(h.Providers, ui.HealthProvider{
			Name: e.Provider, BaseURL: e.BaseURL, Breaker: e.Breaker.String(), KeysReady: e.Ready, Simulated: simulated[e.Provider],
		})
	}
	return h
}
