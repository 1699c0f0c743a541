package server

import (
	"context"
	"time"

	"github.com/cloudwego/hertz/pkg/app"
)

// MountPanic serves a path whose handler panics, behind its first byte if inside is set. It is for use before Run.
func (s *Server) MountPanic(path string, inside bool) {
	s.engine.GET(path, s.admit, func(_ context.Context, rc *app.RequestContext) {
		if inside {
			w := &streamWriter{response: &rc.Response, conn: rc.GetWriter(), chunked: true}
			rc.Response.HijackWriter(w)
			_, _ = w.Write([]byte("data: {}\n\n"))
			_ = w.Flush()
		}
		panic("on purpose")
	})
}

// MountMiddleware serves what stands before an exchange, each part with those before it. It is for use before Run.
func (s *Server) MountMiddleware() {
	pass := func(_ context.Context, rc *app.RequestContext) { rc.Response.SetBodyString("passed") }
	authenticated := func(ctx context.Context, rc *app.RequestContext) {
		if _, err := s.authenticate(rc); err != nil {
			s.answerError(rc, errorShape(rc), asError(err), "")
			return
		}
		pass(ctx, rc)
	}
	for path, chain := range map[string][]app.HandlerFunc{
		"/bench/contain":        {s.contain, pass},
		"/bench/edge":           {s.contain, s.edge, pass},
		"/bench/admission":      {s.contain, s.edge, s.admit, pass},
		"/bench/authentication": {s.contain, s.edge, s.admit, authenticated},
	} {
		bare := s.engine.Group("")
		bare.Handlers = nil // those that every route has
		bare.GET(path, chain...)
	}
}

// WithoutPolling serves every listener on the standard transport, as on systems without netpoll.
func (o *Options) WithoutPolling() { o.blocking = true }

// AllowCut gives requests that were cut so long to end. It is for use before Run.
func (s *Server) AllowCut(d time.Duration) { s.cutTime = d }

// Held is how many bytes of clients have been read that no handler has asked for.
func (s *Server) Held() (bytes int64) {
	s.connections.open.Range(func(key, _ any) bool {
		bytes += key.(*connection).held()
		return true
	})
	return bytes
}
