package server

import (
	"context"
	"net/http"
	"time"

	"github.com/mnemeproxy/mneme/server/edge"
)

// MountPanic serves a path whose handler panics, behind its first byte if inside is set. It is for use before Run.
func (s *Server) MountPanic(path string, inside bool) {
	s.edge.Handle(http.MethodGet, path, func(_ context.Context, _ *edge.Request, out *edge.Response) {
		if inside {
			w := out.Stream()
			_, _ = w.Write([]byte("data: {}\n\n"))
			_ = w.Flush()
		}
		panic("on purpose")
	})
}

// MountMiddleware serves what stands before an exchange, each part with those before it. It is for use before Run.
func (s *Server) MountMiddleware() {
	pass := func(_ context.Context, _ *edge.Request, out *edge.Response) { out.SetBody([]byte("passed")) }
	s.edge.HandleProbe(http.MethodGet, "/bench/edge", pass)
	s.edge.Handle(http.MethodGet, "/bench/admission", pass)
	s.edge.Handle(http.MethodGet, "/bench/authentication", func(ctx context.Context, in *edge.Request, out *edge.Response) {
		if _, err := s.authenticate(in, out); err != nil {
			s.answerError(out, errorShape(in), asError(err), "")
			return
		}
		pass(ctx, in, out)
	})
}

// WithoutPolling serves every listener on the standard transport, as on systems without netpoll.
func (o *Options) WithoutPolling() { o.blocking = true }

// AbortWithin gives requests that were aborted so long to end.
func (o *Options) AbortWithin(d time.Duration) { o.abortTimeout = d }

// Held is how many bytes of clients have been read that no handler has asked for.
func (s *Server) Held() (bytes int64) { return s.edge.UnreadBytes() }
