package server

import (
	"context"
	"slices"
	"strings"

	"github.com/cloudwego/hertz/pkg/app"
	"github.com/cloudwego/hertz/pkg/protocol/consts"

	"github.com/mnemeproxy/mneme/codec"
)

// routes mounts every path. Each of them is a real route: hertz writes "Not Found" behind streams of unrouted paths.
func (s *Server) routes() {
	s.engine.Use(s.contain, s.edge)
	for path, format := range surfaces {
		s.engine.POST(path, s.admit, s.exchange(format))
	}
	s.engine.GET("/v1/responses", s.refuseUpgrade)
	s.engine.POST("/v1/messages/count_tokens", s.admit, s.countTokens)
	s.engine.GET("/v1/models", s.admit, s.listModels)
	s.engine.GET("/v1/models/:model", s.admit, s.showModel)
	s.memoryRoutes()
	s.toolRoutes()
	s.engine.GET("/", s.greet)
	s.engine.HEAD("/", s.greet)
	s.engine.GET("/healthz", s.healthy)
	s.engine.HEAD("/healthz", s.healthy)
	s.engine.GET("/readyz", s.ready)
	s.engine.HEAD("/readyz", s.ready)
	s.engine.NoRoute(s.notFound)
	s.engine.NoMethod(s.notAllowed)
}

var surfaces = map[string]codec.Format{
	"/v1/chat/completions": codec.Chat,
	"/v1/responses":        codec.Responses,
	"/v1/messages":         codec.Messages,
	"/v1/embeddings":       codec.Embeddings,
}

// errorShape is the surface in whose shape an error is told: the path's own, that of Messages for other paths that
// Anthropic's clients ask, else that of chat, which most clients read.
func errorShape(rc *app.RequestContext) codec.Format {
	path := string(rc.Path())
	if _, served := surfaces[path]; !served && wantsAnthropic(rc) {
		return codec.Messages
	}
	return surfaceOfPath(path)
}

// surfaceOfPath is the surface that a path belongs to, or chat.
func surfaceOfPath(path string) codec.Format {
	if format, ok := surfaces[path]; ok {
		return format
	}
	if path == "/v1/messages/count_tokens" {
		return codec.Messages
	}
	return codec.Chat
}

func (s *Server) notFound(_ context.Context, rc *app.RequestContext) {
	e := codec.Errorf(codec.KindNotFound, "There is nothing at %s. The surfaces are POST /v1/chat/completions, /v1/responses, /v1/messages and /v1/embeddings.",
		printable(rc.Path()))
	s.answerError(rc, errorShape(rc), e, "")
}

func (s *Server) notAllowed(_ context.Context, rc *app.RequestContext) {
	e := codec.Errorf(codec.KindInvalidRequest, "%s does not take %s.", printable(rc.Path()), printable(rc.Method()))
	s.answerError(rc, errorShape(rc), e, "")
	rc.Response.Header.Set("Allow", s.methodsOf(string(rc.Path())))
	rc.Response.SetStatusCode(consts.StatusMethodNotAllowed)
}

// methodsOf lists what a path takes (RFC 9110, section 10.2.1).
func (s *Server) methodsOf(path string) string {
	var methods []string
	for _, route := range s.engine.Routes() {
		if leadsTo(route.Path, path) {
			methods = append(methods, route.Method)
		}
	}
	slices.Sort(methods)
	return strings.Join(methods, ", ")
}

// leadsTo reports whether a route, in which a segment that begins with a colon stands for any, covers a path.
func leadsTo(route, path string) bool {
	segments := strings.Split(path, "/")
	for i, segment := range strings.Split(route, "/") {
		if i >= len(segments) || segment != segments[i] && !strings.HasPrefix(segment, ":") {
			return false
		}
	}
	return strings.Count(route, "/") == strings.Count(path, "/")
}

// refuseUpgrade answers Codex, which first asks for a websocket: with 426 it changes to plain HTTP at once, with any
// other refusal it tries for seconds (docs/wire/clients.md#3).
func (s *Server) refuseUpgrade(_ context.Context, rc *app.RequestContext) {
	e := codec.Errorf(codec.KindInvalidRequest, "Responses are served over plain HTTP here: POST to this path.")
	s.answerError(rc, codec.Responses, e, "")
	rc.Response.SetStatusCode(consts.StatusUpgradeRequired)
}

func (s *Server) greet(_ context.Context, rc *app.RequestContext) {
	rc.Response.Header.SetContentType("text/plain; charset=utf-8")
	rc.Response.SetBodyString("mneme " + s.opts.Version + "\n")
}

func (s *Server) healthy(_ context.Context, rc *app.RequestContext) {
	rc.Response.Header.SetContentType("text/plain; charset=utf-8")
	rc.Response.SetBodyString("ok\n")
}

// refusing says why exchanges are refused because they cannot be put on record.
func (s *Server) refusing() error {
	if s.opts.CaptureOff {
		return nil
	}
	return s.store.Ready()
}

// ready goes down as soon as the drain begins, so that no new work is sent here, and while exchanges are refused.
func (s *Server) ready(_ context.Context, rc *app.RequestContext) {
	rc.Response.Header.SetContentType("text/plain; charset=utf-8")
	if s.Draining() {
		rc.Response.SetStatusCode(consts.StatusServiceUnavailable)
		rc.Response.SetBodyString("draining\n")
		return
	}
	if err := s.refusing(); err != nil {
		rc.Response.SetStatusCode(consts.StatusServiceUnavailable)
		rc.Response.SetBodyString("not ready: " + err.Error() + "\n")
		return
	}
	rc.Response.SetBodyString("ready\n")
}

// printable cuts and cleans text of the client's for an error message.
func printable(text []byte) string {
	const most = 100
	out := make([]byte, 0, most)
	for _, c := range text {
		if len(out) == most {
			return string(out) + "…"
		}
		if c < 0x20 || c >= 0x7f {
			c = '?'
		}
		out = append(out, c)
	}
	return string(out)
}
