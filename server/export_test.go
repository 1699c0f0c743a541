package server

import (
	"context"

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
