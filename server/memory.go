package server

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"

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

// wholeAnswer is the size up to which an answer of a net/http handler is sent in one piece, with its length.
const wholeAnswer = 64 << 10

// responseWriter is hertz' response for a net/http handler: collected while it is small, streamed once it is flushed or
// grows.
type responseWriter struct {
	rc      *app.RequestContext
	header  http.Header
	status  int
	touched bool
	body    []byte
	stream  *streamWriter
}

func (w *responseWriter) Header() http.Header { return w.header }

func (w *responseWriter) WriteHeader(status int) {
	if !w.touched {
		w.touched, w.status = true, status
	}
}

func (w *responseWriter) Write(p []byte) (int, error) {
	w.WriteHeader(http.StatusOK)
	if w.stream == nil {
		w.body = append(w.body, p...)
		if len(w.body) < wholeAnswer {
			return len(p), nil
		}
		return len(p), w.FlushError()
	}
	if _, err := w.stream.Write(p); err != nil {
		return 0, err
	}
	return len(p), w.stream.Flush()
}

// FlushError sends what has been collected, and what comes as it comes.
func (w *responseWriter) FlushError() error {
	if w.stream == nil {
		w.WriteHeader(http.StatusOK)
		w.head()
		w.stream = &streamWriter{response: &w.rc.Response, conn: w.rc.GetWriter(), chunked: w.rc.Request.Header.IsHTTP11()}
		w.rc.Response.HijackWriter(w.stream)
		if _, err := w.stream.Write(w.body); err != nil {
			return err
		}
		w.body = nil
	}
	return w.stream.Flush()
}

func (w *responseWriter) head() {
	w.rc.Response.SetStatusCode(w.status)
	for name, values := range w.header {
		for _, value := range values {
			w.rc.Response.Header.Add(name, value)
		}
	}
	w.rc.Response.Header.SetContentType(w.header.Get("Content-Type"))
}

// end sends what is left. A handler that gave up leaves an answer that is visibly cut.
func (w *responseWriter) end(s *Server) {
	if fault := recover(); fault != nil {
		if fault != http.ErrAbortHandler { //nolint:errorlint // the very value that handlers give up with
			s.log.Error("panic in a request", "path", printable(w.rc.Path()), "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
		}
		w.rc.SetConnectionClose()
		if w.stream != nil {
			w.stream.abort()
			return
		}
		s.answerError(w.rc, codec.Chat, codec.Errorf(codec.KindInternal, "The proxy failed on this request. It is logged."), "")
		return
	}
	if w.touched && w.stream == nil {
		w.head()
		w.rc.Response.SetBodyRaw(w.body)
	}
}
