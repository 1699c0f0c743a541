package server

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"

	"github.com/cloudwego/hertz/pkg/app"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/listen"
	"github.com/mnemeproxy/mneme/server/mcp"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/store"
)

// memoryRoutes mounts the memory of accounts: the same handler that the management socket has, for holders of keys.
func (s *Server) memoryRoutes() {
	handler := memory.Handler(memory.Options{
		Store: s.store, Closing: s.closing.Done(),
		Identify: s.identify,
		Actor: func(r *http.Request) (string, error) {
			c, err := s.authenticate(requestOf(r.Context()))
			return c.KeyID, err
		},
		Fail: s.failHTTP,
	})
	serve := func(ctx context.Context, rc *app.RequestContext) { s.serveHTTP(ctx, rc, handler) }
	s.engine.Any("/v1/memory/*path", s.admit, s.refuseOtherSites, serve)
}

// toolRoutes mounts the memory of accounts as tools for agents.
func (s *Server) toolRoutes() {
	handler := mcp.Handler(mcp.Options{
		Store: s.store, Version: s.opts.Version, Log: s.log,
		Identify: func(r *http.Request) (string, error) { return s.identify(r, store.ScopeRead) },
		Fail:     s.failHTTP,
	})
	s.engine.Any("/mcp", s.admit, s.refuseOtherSites, func(ctx context.Context, rc *app.RequestContext) { s.serveHTTP(ctx, rc, handler) })
}

// refuseOtherSites turns away what the page of another site may have sent (MCP, revision 2025-11-25, section "Security
// Warning" of its transports).
func (s *Server) refuseOtherSites(ctx context.Context, rc *app.RequestContext) {
	loopback := s.onLoopback(connectionOf(ctx).LocalAddr())
	fault := s.opts.PublicNames.Refuse(loopback, string(rc.Host()), rc.Request.Header.Get("Origin"))
	if fault == "" {
		rc.Next(ctx)
		return
	}
	s.answerError(rc, codec.Chat, codec.Errorf(codec.KindPermission,
		"%s, and the memory is not shown to pages of other sites. If the server is reached by that name, add it to public_names.", fault), "")
	rc.Abort()
}

// onLoopback reports whether a connection with that address of ours came over a listener that only this machine can reach.
func (s *Server) onLoopback(ours net.Addr) bool {
	local, ok := ours.(*net.TCPAddr)
	return ok && slices.ContainsFunc(s.listeners, func(l *listener) bool {
		return listen.IsLoopback(l.Addr()) && l.Addr().(*net.TCPAddr).Port == local.Port
	})
}

// identify gives the account of a request that a net/http handler serves, if its caller has the scope.
func (s *Server) identify(r *http.Request, scope store.Scopes) (string, error) {
	c, err := s.authenticate(requestOf(r.Context()))
	if err != nil {
		return "", err
	}
	return c.Account, c.requireScope(scope)
}

// failHTTP answers a request that a net/http handler serves with an error.
func (s *Server) failHTTP(_ http.ResponseWriter, r *http.Request, err error) {
	s.answerError(requestOf(r.Context()), codec.Chat, asError(err), "")
}

type requestKey struct{}

// requestOf is hertz' side of a request that a net/http handler serves.
func requestOf(ctx context.Context) *app.RequestContext {
	return ctx.Value(requestKey{}).(*app.RequestContext)
}

// serveHTTP lets a net/http handler answer. The request's body counts against the byte budget meanwhile.
func (s *Server) serveHTTP(ctx context.Context, rc *app.RequestContext, handler http.Handler) {
	body := rc.Request.Body()
	size := int64(len(body))
	if err := s.reserve(size); err != nil {
		s.answerError(rc, codec.Chat, asError(err), "")
		return
	}
	defer s.budget.give(size)
	r := &http.Request{
		Method: string(rc.Method()), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		URL:    &url.URL{Path: string(rc.Path()), RawQuery: string(rc.URI().QueryString())},
		Header: make(http.Header), Host: string(rc.Host()), ContentLength: size,
		Body: http.NoBody,
	}
	if size > 0 {
		r.Body = readCloser{bytes.NewReader(body)}
	}
	rc.Request.Header.VisitAll(func(name, value []byte) { r.Header.Add(string(name), string(value)) })
	w := &responseWriter{rc: rc, header: make(http.Header), status: http.StatusOK}
	defer w.end(s)
	handler.ServeHTTP(w, r.WithContext(context.WithValue(ctx, requestKey{}, rc)))
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }
