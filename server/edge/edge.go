// Package edge is where mneme meets its clients: listeners, TLS, HTTP/1.1 framing, the limits on what clients may send
// and hold, the drain, and the writers of answers. Only this package imports hertz. The rest of the server
// sees a [Handler] with a [Request] and a [Response].
//
// A request passes three steps before its handler: recoverPanics, rejectAmbiguous (hygiene.go) and limitConcurrency
// (admission.go). Answers that hertz writes itself before these steps are replaced on the connection (refusal.go).
package edge

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cloudwego/hertz/pkg/app"
	hertz "github.com/cloudwego/hertz/pkg/app/server"
	"github.com/cloudwego/hertz/pkg/common/config"
	"github.com/cloudwego/hertz/pkg/common/hlog"
	"github.com/cloudwego/hertz/pkg/common/tracer/stats"
	"github.com/cloudwego/hertz/pkg/network"

	"github.com/mnemeproxy/mneme/server/listen"
)

// Server serves handlers on its listeners.
type Server struct {
	opts      Options
	log       *slog.Logger
	listeners []*listener
	engine    *hertz.Hertz

	// closing ends when the drain begins, for whatever would never end by itself.
	closing      context.Context
	beginClosing context.CancelFunc
	farewells    sync.Map // what is called then

	// life ends when open requests are to be aborted.
	life        context.Context
	abort       context.CancelCauseFunc
	admission   admission
	draining    atomic.Bool
	handedOver  atomic.Bool
	connections *connections
}

// quietLibraries keeps hertz from logging on its own: what matters is logged here.
var quietLibraries = sync.OnceFunc(func() { hlog.SetLevel(hlog.LevelFatal) })

// abortTimeout is how long aborted requests get to end: enough to write an error event and commit.
const abortTimeout = 5 * time.Second

// New opens the listeners, so that the addresses are known and a taken port is an error here. Clients that connect
// before [Server.Run] wait in a queue. A server that was made must be run.
func New(o *Options) (*Server, error) {
	s := &Server{opts: *o, log: o.Log}
	if s.opts.AbortTimeout == 0 {
		s.opts.AbortTimeout = abortTimeout
	}
	var secure *tls.Config
	if o.Certificates != nil {
		secure = o.Certificates.Config()
	}
	var err error
	if s.listeners, err = openListeners(o); err != nil {
		return nil, err
	}
	s.admission.limit = o.Requests
	s.life, s.abort = context.WithCancelCause(context.Background())
	s.closing, s.beginClosing = context.WithCancel(s.life)
	if s.connections, err = startConnections(s.life, o); err != nil {
		closeListeners(s.listeners)
		return nil, err
	}
	quietLibraries()
	s.engine = hertz.New(
		hertz.WithTransport(func(*config.Options) network.Transporter {
			return newTransport(s.listeners, secure, s.connections, s.log)
		}),
		hertz.WithMaxHeaderBytes(o.HeaderBytes), // refusal.go answers requests over it
		hertz.WithReadTimeout(o.ReadTimeout),
		hertz.WithIdleTimeout(o.ReadTimeout),
		hertz.WithDisablePreParseMultipartForm(true),
		hertz.WithRedirectTrailingSlash(false),
		hertz.WithDisablePrintRoute(true),
		hertz.WithDisableDefaultContentType(true),
		hertz.WithHandleMethodNotAllowed(true),
		hertz.WithTracer(s.connections),
		hertz.WithTraceLevel(stats.LevelDisabled), // only for starts and ends
	)
	s.engine.Use(s.guard())
	s.engine.NoRoute(s.admitted(o.NotFound))
	s.engine.NoMethod(handled(func(_ context.Context, in *Request, out *Response) {
		o.NotServed(in, out)
		out.Set("Allow", s.methodsOf(in.Path()))
		if in.Method() == http.MethodOptions { // which asks just that
			out.SetStatus(http.StatusNoContent)
			return
		}
		out.SetStatus(http.StatusMethodNotAllowed)
	}))
	return s, nil
}

// Handle serves a path for a method, "" for any, within the limit of requests. A path segment with a leading colon
// matches any segment, a last one with a leading star matches any rest. Call it before [Server.Run].
func (s *Server) Handle(method, path string, handler Handler) {
	s.mount(method, path, s.admitted(handler))
}

func (s *Server) admitted(handler Handler) app.HandlerFunc {
	return func(ctx context.Context, _ *app.RequestContext) {
		if conn := connectionOf(ctx); !s.limitConcurrency(conn) {
			handler(ctx, &conn.request, &conn.response)
		}
	}
}

// HandleProbe serves a path outside the limit of requests, and during the drain.
func (s *Server) HandleProbe(method, path string, handler Handler) {
	s.mount(method, path, handled(handler))
}

// mount serves HEAD wherever it serves GET (RFC 9110, section 9.3.2): hertz leaves out the body.
func (s *Server) mount(method, path string, handler app.HandlerFunc) {
	switch method {
	case "":
		s.engine.Any(path, handler)
		return
	case http.MethodGet:
		s.engine.Handle(http.MethodHead, path, handler)
	}
	s.engine.Handle(method, path, handler)
}

func handled(handler Handler) app.HandlerFunc {
	return func(ctx context.Context, _ *app.RequestContext) {
		conn := connectionOf(ctx)
		handler(ctx, &conn.request, &conn.response)
	}
}

// methodsOf lists the methods of a path (RFC 9110, section 10.2.1).
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

// leadsTo reports whether a route, in which a segment with a leading colon matches any, covers a path.
func leadsTo(route, path string) bool {
	segments := strings.Split(path, "/")
	for i, segment := range strings.Split(route, "/") {
		if i >= len(segments) || segment != segments[i] && !strings.HasPrefix(segment, ":") {
			return false
		}
	}
	return strings.Count(route, "/") == strings.Count(path, "/")
}

// Addresses returns those of all listeners, with the ports that the system chose.
func (s *Server) Addresses() []listen.Address {
	addresses := make([]listen.Address, len(s.listeners))
	for i, l := range s.listeners {
		addresses[i] = l.address
	}
	return addresses
}

// Addr returns the address of the first listener.
func (s *Server) Addr() net.Addr { return s.listeners[0].Addr() }

// OnTLS reports whether a request came under TLS.
func (s *Server) OnTLS(in *Request) bool {
	l := s.listenerOf(in)
	return l != nil && l.address.TLS
}

// OnLoopback reports whether a request came over a listener that only this machine can reach.
func (s *Server) OnLoopback(in *Request) bool {
	l := s.listenerOf(in)
	return l != nil && listen.IsLoopback(l.Addr())
}

// listenerOf returns the listener of a request's connection; nil for unix sockets. Listeners on several addresses may
// share a port.
func (s *Server) listenerOf(in *Request) (found *listener) {
	local, ok := in.conn.LocalAddr().(*net.TCPAddr)
	if !ok {
		return nil
	}
	for _, l := range s.listeners {
		at, tcp := l.Addr().(*net.TCPAddr)
		switch {
		case !tcp || at.Port != local.Port:
		case at.IP.Equal(local.IP):
			return l
		case at.IP.IsUnspecified():
			found = l
		}
	}
	return found
}

// Draining reports whether the server has begun to shut down.
func (s *Server) Draining() bool { return s.draining.Load() }

// Closing is closed when the drain begins.
func (s *Server) Closing() <-chan struct{} { return s.closing.Done() }

// BeforeDrain has f called when the drain begins, unless forget has been called before. It is not called twice.
func (s *Server) BeforeDrain(f func()) (forget func()) {
	once := sync.OnceFunc(f)
	key := new(byte)
	s.farewells.Store(key, once)
	if s.closing.Err() != nil {
		once()
	}
	return func() { s.farewells.Delete(key) }
}

// Requests returns the number of requests being handled or answered.
func (s *Server) Requests() int { return s.admission.count() }

// Connections returns the number of open connections.
func (s *Server) Connections() int { return int(s.connections.count.Load()) }

// UnreadBytes returns how many client bytes are buffered that no handler has asked for.
func (s *Server) UnreadBytes() int64 { return s.connections.held() }

// ErrAborted means that the drain time ended before all requests had.
var ErrAborted = errors.New("open requests were cut after the drain time")

// Run serves until ctx is done, then drains: [Server.Draining] is true, the listeners are closed after the drain delay,
// open requests finish within the drain time, and the rest is aborted. It returns nil if every request ended by itself.
// A ctx that has already ended drains at once.
func (s *Server) Run(ctx context.Context) error {
	stopped := make(chan error, 1)
	go func() { stopped <- s.engine.Engine.Run() }()
	for _, l := range s.listeners {
		select {
		case err := <-stopped:
			return errors.Join(err, s.drain())
		case <-l.served:
		}
	}
	select {
	case err := <-stopped:
		return errors.Join(err, s.drain())
	case <-ctx.Done():
	}
	s.draining.Store(true)
	if s.opts.DrainDelay > 0 && !s.handedOver.Load() { // with a successor on the same sockets, no client has to move
		time.Sleep(s.opts.DrainDelay)
	}
	err := s.drain()
	if err := <-stopped; err != nil { // expected of a listener that is closed while it serves
		s.log.Debug("the listeners have ended", "error", err)
	}
	return err
}

// drain ends what is open and everything the server has started. A request is open until its answer has been sent.
func (s *Server) drain() error {
	s.draining.Store(true)
	s.beginClosing()
	s.farewells.Range(func(_, farewell any) bool {
		farewell.(func())()
		return true
	})
	shutdown, giveUp := context.WithCancel(context.Background())
	shut := make(chan struct{})
	go func() {
		defer close(shut)
		_ = s.engine.Shutdown(shutdown) // closes the listeners first, then waits for connections
	}()

	idle := s.closeAdmission(shut)
	err := s.endRequests(idle)
	s.abort(ErrDraining) // also ends the sweeps
	s.connections.closeAll()
	<-idle
	giveUp()
	<-shut
	closeListeners(s.listeners) // in case hertz never served them
	s.connections.wait()
	return err
}

// closeAdmission refuses requests from then on. If another program takes over the sockets, requests that arrive on open
// connections are served first: their clients have been accepted and cannot be redirected. shut is closed when hertz
// has shut down.
func (s *Server) closeAdmission(shut <-chan struct{}) (idle <-chan struct{}) {
	if !s.handedOver.Load() {
		return s.admission.close()
	}
	for _, l := range s.listeners {
		select {
		case <-l.closed:
		case <-shut:
		}
	}
	return s.admission.closeOnceIdle()
}

// HandOver keeps the sockets open beyond the drain, for the program that replaces this one. Call it before the drain,
// which then leaves new connections in the queues of the sockets and answers every request that arrives on the others.
func (s *Server) HandOver() (*listen.Handover, error) {
	var kept listen.Handover
	for _, l := range s.listeners {
		if err := kept.Keep(l.Listener, l.configured); err != nil {
			return nil, err
		}
	}
	for _, l := range s.listeners {
		settle := func() { s.connections.awaitFirstRequests(&l.coming) }
		l.settle.Store(&settle)
	}
	s.handedOver.Store(true)
	return &kept, nil
}

// endRequests waits for open requests, and aborts them when the drain time is over.
func (s *Server) endRequests(idle <-chan struct{}) error {
	select {
	case <-idle:
		return nil
	case <-time.After(s.opts.DrainTimeout):
	}
	s.admission.close()
	s.abort(ErrDraining)
	select {
	case <-idle:
	case <-time.After(s.opts.AbortTimeout): // a client that does not even read its error
	}
	return ErrAborted
}
