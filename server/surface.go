package server

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/resource"
)

// servedPath is a path that this server owns. The list of them is what the answer for any other path says.
type servedPath struct {
	method, path string
	handle       edge.Handler
}

// served are the paths that speak for providers.
func (s *proxy) served() []servedPath {
	return []servedPath{
		{http.MethodPost, "/v1/chat/completions", s.serve(codec.Chat)},
		{http.MethodPost, "/v1/responses", s.serve(codec.Responses)},
		{http.MethodPost, "/v1/responses/input_tokens", s.countTokens(codec.Responses)},
		{http.MethodPost, "/v1/responses/compact", s.serveCompaction},
		{http.MethodGet, "/v1/responses/:id", s.stored((*storedCall).show)},
		{http.MethodDelete, "/v1/responses/:id", s.stored((*storedCall).delete)},
		{http.MethodPost, "/v1/responses/:id/cancel", s.stored((*storedCall).cancel)},
		{http.MethodGet, "/v1/responses/:id/input_items", s.stored((*storedCall).inputItems)},
		{http.MethodPost, "/v1/messages", s.serve(codec.Messages)},
		{http.MethodPost, "/v1/messages/count_tokens", s.countTokens(codec.Messages)},
		{http.MethodPost, "/v1/embeddings", s.serve(codec.Embeddings)},
		{http.MethodPost, "/v1beta/models/*call", s.serveAddressed},
		{http.MethodPost, "/v1/models/*call", s.serveAddressed},
		{http.MethodGet, "/v1/models", s.listModels},
		{http.MethodGet, "/v1/models/:model", s.showModel},
		{http.MethodGet, "/v1beta/models", s.listModels},
		{http.MethodGet, "/v1beta/models/*model", s.showModel},
	}
}

// routes mounts every path.
func (s *Server) routes() {
	socket := s.openSocket
	if s.opts.NoModels {
		socket = s.refuseModels
	}
	s.edge.HandleProbe(http.MethodGet, "/v1/responses", socket)
	for _, e := range s.served() {
		if s.opts.NoModels {
			e.handle = s.refuseModels
		}
		s.edge.Handle(e.method, e.path, origins(s.opts.Origins).forPages(e.handle))
	}
	s.memoryRoutes()
	s.toolRoutes()
	s.managementRoutes()
	s.windowRoutes()
	s.edge.HandleProbe(http.MethodGet, "/", s.greet)
	s.edge.HandleProbe(http.MethodGet, "/healthz", s.healthy)
	s.edge.HandleProbe(http.MethodGet, "/readyz", s.ready)
}

// serveAddressed serves the paths of Google's API that name a model.
func (s *proxy) serveAddressed(ctx context.Context, in *edge.Request, out *edge.Response) {
	model, v, found := readAddress(in.Path())
	if !found {
		s.serveRest(ctx, in, out)
		return
	}
	x := s.newExchange(ctx, in, out, v.surface)
	x.request.address(model, v)
	defer x.finish()
	x.runSurface()
}

func (s *proxy) notFound(_ context.Context, in *edge.Request, out *edge.Response) {
	var known strings.Builder
	for _, e := range s.served() {
		known.WriteString(e.method + " " + e.path + ", ")
	}
	e := codec.Errorf(codec.KindNotFound, "There is nothing at %s. There are %sa WebSocket on /v1/responses, GET /v1/memory and /mcp.%s", edge.Printable(in.Path()), &known, s.otherPaths())
	s.answerError(out, errorShape(in), e, "")
}

// mostListed is how many names are listed of what is passed on, and of providers.
const mostListed = 8

// otherPaths says how what providers offer besides is reached.
func (s *proxy) otherPaths() string {
	routes := s.router.Load()
	if routes == nil || s.opts.NoModels {
		return ""
	}
	var names []string
	for _, p := range routes.Providers() {
		if p.PassesPaths() && len(names) < mostListed {
			names = append(names, "/"+p.Name()+"/…")
		}
	}
	return fmt.Sprintf(" Passed on to their providers are %s and more; all other paths of a provider are behind its name: %s.",
		strings.Join(resource.Names()[:mostListed], ", "), strings.Join(names, ", "))
}

func (s *proxy) notAllowed(in *edge.Request, out *edge.Response) {
	if in.Method() == http.MethodOptions {
		origins(s.opts.Origins).preflight(in, out)
		return
	}
	e := codec.Errorf(codec.KindInvalidRequest, "%s does not take %s.", edge.Printable(in.Path()), edge.Printable(in.Method()))
	s.answerError(out, errorShape(in), e, "")
}

// refuseModels answers a request for a model at a server that asks none.
func (s *proxy) refuseModels(_ context.Context, in *edge.Request, out *edge.Response) {
	e := codec.Errorf(codec.KindUnsupported, "This is the centre of a cluster, which keeps the memory and asks no models. Send the request to an edge (mneme serve --edge).")
	s.answerError(out, errorShape(in), e, "")
}

func (s *Server) greet(_ context.Context, in *edge.Request, out *edge.Response) {
	if strings.Contains(in.Header("Accept"), "text/html") { // a browser
		out.Set("Location", "/ui/")
		out.SetText(http.StatusSeeOther, "the page is at /ui/\n")
		return
	}
	out.SetText(http.StatusOK, "mneme "+s.opts.Version+"\n")
}

func (s *Server) healthy(_ context.Context, in *edge.Request, out *edge.Response) {
	out.SetText(http.StatusOK, "ok\n")
}

// refusing returns why exchanges are refused because they cannot be recorded.
func (s *proxy) refusing() error {
	if s.opts.CaptureOff {
		return nil
	}
	return s.engine.Recorder.Ready()
}

// ready fails as soon as the drain begins, so that no new work is sent here, and while exchanges are refused.
func (s *Server) ready(_ context.Context, in *edge.Request, out *edge.Response) {
	if s.Draining() {
		out.SetText(http.StatusServiceUnavailable, "draining\n")
		return
	}
	if err := s.refusing(); err != nil {
		out.SetText(http.StatusServiceUnavailable, "not ready: "+err.Error()+"\n")
		return
	}
	if hasParameter(in.Query(), "verbose") {
		out.SetText(http.StatusOK, "ready\n"+s.providersNow())
		return
	}
	out.SetText(http.StatusOK, "ready\n")
}

// providersNow returns a line for each provider that the server has a key for: how many of its endpoints accept calls.
// It names no address and no credential, because this endpoint needs no key.
func (s *proxy) providersNow() string {
	var b strings.Builder
	all := s.router.Load().Health()
	for i := 0; i < len(all); {
		name, endpoints, well, keys := all[i].Provider, 0, 0, 0
		for ; i < len(all) && all[i].Provider == name; i++ {
			endpoints++
			keys += all[i].Keys
			if all[i].Breaker == router.BreakerClosed && !all[i].Cooling && (all[i].Keys == 0 || all[i].Ready > 0) {
				well++
			}
		}
		if keys > 0 {
			fmt.Fprintf(&b, "%s: %d of %d endpoints take calls\n", name, well, endpoints)
		}
	}
	return b.String()
}
