package server

import (
	"bytes"
	"context"
	"net/http"
	"net/url"

	"github.com/cloudwego/hertz/pkg/app"

	"github.com/mnemeproxy/mneme/codec"
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
	s.engine.Any("/v1/memory/*path", s.admit, serve)
}

// toolRoutes mounts the memory of accounts as tools for agents.
func (s *Server) toolRoutes() {
	handler := mcp.Handler(mcp.Options{
		Store: s.store, Version: s.opts.Version, Log: s.log,
		Identify: func(r *http.Request) (string, error) { return s.identify(r, store.ScopeRead) },
		Fail:     s.failHTTP,
	})
	s.engine.Any("/mcp", s.admit, func(ctx context.Context, rc *app.RequestContext) { s.serveHTTP(ctx, rc, handler) })
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
