package server

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/forward"
	"github.com/mnemeproxy/mneme/server/mcp"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store"
)

// memoryRoutes mounts the memory API for holders of keys, with the same handler as the management socket.
func (s *Server) memoryRoutes() {
	handler := memory.Handler(memory.Options{
		Archive: s.engine.Archive, Searcher: s.engine.Index, Recaller: s.recaller, Closing: s.edge.Closing(),
		Ledger: s.engine.Accounts, Keys: s.engine.Keys, Translate: s.translate, Prices: prices{s.proxy}, Warn: s.opts.Warn, Clock: s.opts.Clock, Lacks: s.opts.Lacks,
		Identify: s.identify,
		Actor: func(r *http.Request) (string, error) {
			c, err := s.authenticate(edge.RequestOf(r.Context()), edge.ResponseOf(r.Context()))
			return c.KeyID, err
		},
		Noted:  telemetry.NoteRecords,
		Forget: func(r *http.Request) { edge.RequestOf(r.Context()).ForgetBody() },
		Fail:   s.failHTTP,
	})
	s.edge.Handle("", "/v1/memory/*path", s.refuseOtherSites(s.traceMemory(s.serveHTTP(s.asWhole(handler)))))
}

// memoryOperations are the operations on the memory that have spans.
var memoryOperations = []struct{ method, route, operation string }{
	{http.MethodPost, "/v1/memory/search", "search_memory"},
	{http.MethodPost, "/v1/memory/recall", "search_memory"},
	{http.MethodPost, "/v1/memory/imports", "create_memory"},
	{http.MethodPost, "/v1/memory/erasures", "delete_memory"},
	{http.MethodPatch, "/v1/memory/exchanges/{id}", "update_memory"},
	{http.MethodPatch, "/v1/memory/sessions/{id}", "update_memory"},
	{http.MethodDelete, "/v1/memory/exchanges/{id}", "delete_memory"},
	{http.MethodDelete, "/v1/memory/sessions/{id}", "delete_memory"},
}

// memoryOperation returns the operation of a request; "" for one without a span.
func memoryOperation(method, path string) (operation, route string) {
	for _, o := range memoryOperations {
		prefix, ofOne := strings.CutSuffix(o.route, "{id}")
		id, found := strings.CutPrefix(path, prefix)
		if found && o.method == method && ofOne == (id != "") && !strings.Contains(id, "/") {
			return o.operation, o.route
		}
	}
	return "", ""
}

// traceMemory makes spans of operations on the memory.
func (s *Server) traceMemory(next edge.Handler) edge.Handler {
	return func(ctx context.Context, in *edge.Request, out *edge.Response) {
		operation, route := memoryOperation(in.Method(), in.Path())
		if operation == "" || !s.telemetry.Traces() {
			next(ctx, in, out)
			return
		}
		ctx, end := s.telemetry.Memory(ctx, operation, &telemetry.Request{Method: in.Method(), Route: route, Started: time.Now(), Header: in.Header})
		next(ctx, in, out)
		end(out.Status())
	}
}

// toolRoutes mounts the memory as tools for agents.
func (s *Server) toolRoutes() {
	handler := mcp.Handler(mcp.Options{
		Archive: s.engine.Archive, Recorder: s.engine.Recorder, Searcher: s.engine.Index, Recaller: s.recaller,
		Version: s.opts.Version, Log: s.log,
		Trace: func(r *http.Request, operation string) func(status int) {
			in := edge.RequestOf(r.Context())
			_, end := s.telemetry.Memory(r.Context(), operation, &telemetry.Request{Method: r.Method, Route: "/mcp", Started: time.Now(), Header: in.Header})
			return end
		},
		Identify: s.caller,
		Fail:     s.failHTTP,
	})
	s.edge.Handle("", "/mcp", s.refuseOtherSites(s.serveHTTP(s.asWhole(handler))))
}

// asWhole has the centre of the cluster, if there is one, answer instead of a handler of this server's part of the memory.
func (s *Server) asWhole(own http.Handler) http.Handler {
	if s.opts.Centre == nil {
		return own
	}
	return s.opts.Centre.Handler(forward.Handling{Own: own, Fail: s.failHTTP, Identify: func(r *http.Request) error {
		_, err := s.caller(r, 0)
		return err
	}})
}

// ManagementPrefix is where the management API is mounted.
const ManagementPrefix = "/v1/admin"

// managementRoutes mounts the management.
func (s *Server) managementRoutes() {
	if s.opts.Management == nil {
		return
	}
	s.edge.Handle("", ManagementPrefix+"/*path", s.refuseOtherSites(s.serveHTTP(http.StripPrefix(ManagementPrefix, s.opts.Management))))
}

// refuseOtherSites refuses requests that a page of another site may have sent (MCP, revision 2025-11-25, section
// "Security Warning" of its transports).
func (s *Server) refuseOtherSites(next edge.Handler) edge.Handler {
	return func(ctx context.Context, in *edge.Request, out *edge.Response) {
		fault := s.opts.PublicNames.Refuse(s.edge.OnLoopback(in), in.Host(), in.Header("Origin"))
		if fault == "" {
			next(ctx, in, out)
			return
		}
		s.logRefusal(in, new(store.Identity), "it may come from a page of another site, or public_names lacks a name")
		s.answerError(out, codec.Chat, codec.Errorf(codec.KindPermission,
			"%s, and the memory is not shown to pages of other sites. If the server is reached by that name, add it to public_names.", fault), "")
	}
}

// identify returns the account of a request to a net/http handler, if its caller has the scope.
func (s *Server) identify(r *http.Request, scope store.Scopes) (string, error) {
	c, err := s.caller(r, scope)
	return c.Account, err
}

// caller returns who sends a request to a net/http handler, with an error unless it has the scope.
func (s *Server) caller(r *http.Request, scope store.Scopes) (store.Identity, error) {
	in := edge.RequestOf(r.Context())
	c, err := s.authenticate(in, edge.ResponseOf(r.Context()))
	if err != nil {
		return store.Identity{}, err
	}
	if err = c.requireScope(scope); err != nil {
		s.logRefusal(in, &c.Identity, err.Error())
	}
	return c.Identity, err
}

// failHTTP answers a request to a net/http handler with an error.
func (s *Server) failHTTP(_ http.ResponseWriter, r *http.Request, err error) {
	s.answerError(edge.ResponseOf(r.Context()), codec.Chat, asError(err), "")
}

// serveHTTP adapts a net/http handler.
func (s *Server) serveHTTP(handler http.Handler) edge.Handler {
	return func(ctx context.Context, in *edge.Request, out *edge.Response) {
		share := s.held.Share()
		defer share.GiveAll()
		edge.ServeHTTP(ctx, in, out, handler, &share)
	}
}
