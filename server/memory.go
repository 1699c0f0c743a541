package server

import (
	"bytes"
	"context"
	"net/http"
	"net/url"

	"github.com/cloudwego/hertz/pkg/app"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/memory"
	"github.com/mnemeproxy/mneme/store"
)

// memoryRoutes mounts the memory of accounts: the same handler that the management socket has, for holders of keys.
func (s *Server) memoryRoutes() {
	handler := memory.Handler(memory.Options{
		Store: s.store, Closing: s.closing.Done(),
		Identify: func(r *http.Request, scope store.Scopes) (string, error) {
			c, err := s.authenticate(requestOf(r.Context()))
			if err != nil {
				return "", err
			}
			return c.Account, c.requireScope(scope)
		},
		Actor: func(r *http.Request) (string, error) {
			c, err := s.authenticate(requestOf(r.Context()))
			return c.KeyID, err
		},
		Fail: func(_ http.ResponseWriter, r *http.Request, err error) {
			s.answerError(requestOf(r.Context()), codec.Chat, asError(err), "")
		},
	})
	serve := func(ctx context.Context, rc *app.RequestContext) { s.serveHTTP(ctx, rc, handler) }
	s.engine.Any("/v1/memory/*path", s.admit, serve)
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
