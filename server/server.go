// Package server is the HTTP side of mneme: the four surfaces that clients speak, authentication, and the pump that
// moves answers from providers to clients while they are put on record.
//
// The way of a request can be read in exchange.go from top to bottom. What happens before it is in edge.go (header
// hygiene, limits) and authenticate.go; how an answer moves is in pump.go (streams) and whole.go (complete bodies).
package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	hertz "github.com/cloudwego/hertz/pkg/app/server"
	"github.com/cloudwego/hertz/pkg/common/hlog"
	"github.com/cloudwego/hertz/pkg/common/tracer/stats"
	"github.com/cloudwego/hertz/pkg/network/netpoll"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store"
)

// Options configure a [Server]. Zero limits take the defaults.
type Options struct {
	Listen  string // host:port; port 0 takes any free one
	Store   *store.Store
	Router  *router.Router
	Log     *slog.Logger // nil: discard
	Version string

	Telemetry *telemetry.Telemetry // of this server alone; nil: one that nobody looks at

	CaptureOff bool     // pass exchanges without a record
	OptOut     []string // accounts whose callers may keep an exchange off the record

	KeyLimits store.Limits     // of keys that have none of their own
	Clock     func() time.Time // by which the limits of keys go; nil: time.Now

	BodyBytes     int64         // largest request body, decompressed; 64 MiB
	HeaderBytes   int           // largest request head; 64 KiB
	InFlightBytes int64         // sum of all request bodies being handled; 1 GiB
	ReadTimeout   time.Duration // for a client to send its request, or to take a piece of the answer; 3 min
	DrainTimeout  time.Duration // for open exchanges to end after Run's context is done; 30 s
	Heartbeat     time.Duration // silence on a stream before a sign of life is sent to the client; 15 s
}

func (o Options) withDefaults() Options {
	set := func(v *int64, def int64) {
		if *v == 0 {
			*v = def
		}
	}
	set(&o.BodyBytes, 64<<20)
	set(&o.InFlightBytes, 1<<30)
	if o.HeaderBytes == 0 {
		o.HeaderBytes = 64 << 10
	}
	for _, d := range []struct {
		v   *time.Duration
		def time.Duration
	}{{&o.ReadTimeout, 3 * time.Minute}, {&o.DrainTimeout, 30 * time.Second}, {&o.Heartbeat, 15 * time.Second}} {
		if *d.v == 0 {
			*d.v = d.def
		}
	}
	if o.Clock == nil {
		o.Clock = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Telemetry == nil {
		o.Telemetry = telemetry.New(telemetry.Options{Version: o.Version})
	}
	return o
}

// Server serves the surfaces on one listener.
type Server struct {
	opts     Options
	store    *store.Store
	router   atomic.Pointer[router.Router]
	log      *slog.Logger
	listener *listener
	engine   *hertz.Hertz
	budget   byteBudget
	beat     *heartbeats

	telemetry *telemetry.Telemetry

	quota     quota.Table
	keyLimits atomic.Pointer[store.Limits]

	// closing ends when the drain begins: what would never end by itself ends then.
	closing      context.Context
	beginClosing context.CancelFunc

	// life ends when open requests are to be cut.
	life        context.Context
	cut         context.CancelCauseFunc
	admission   admission
	draining    atomic.Bool
	connections *connections
}

// quietHertz keeps hertz from logging on its own; what matters is logged here. Its level is the process's.
var quietHertz = sync.OnceFunc(func() { hlog.SetLevel(hlog.LevelFatal) })

// New opens the listener, so that Addr is known and a taken port is an error here. Clients that connect before [Server.Run]
// wait in its queue. A server that is made has to be run.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	listener, err := listen(o.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", o.Listen, err)
	}
	s := &Server{opts: o, store: o.Store, log: o.Log, listener: listener, telemetry: o.Telemetry}
	s.router.Store(o.Router)
	s.LimitKeys(o.KeyLimits)
	s.budget.limit = o.InFlightBytes
	s.life, s.cut = context.WithCancelCause(context.Background())
	s.closing, s.beginClosing = context.WithCancel(s.life)
	s.beat = startHeartbeats(s.life, o.Heartbeat)
	s.connections = startConnections(s.life, o.ReadTimeout, o.InFlightBytes)
	quietHertz()
	s.engine = hertz.New(
		hertz.WithListener(listener),
		hertz.WithTransport(netpoll.NewTransporter),
		hertz.WithMaxRequestBodySize(clampInt(2*o.BodyBytes+slack)), // the shaped 413 is ours; beyond this hertz cuts
		hertz.WithMaxHeaderBytes(2*o.HeaderBytes+slack),             // likewise 431
		hertz.WithReadTimeout(o.ReadTimeout),
		hertz.WithIdleTimeout(o.ReadTimeout),
		hertz.WithWriteTimeout(o.ReadTimeout),
		hertz.WithSenseClientDisconnection(true),
		hertz.WithDisablePreParseMultipartForm(true),
		hertz.WithRedirectTrailingSlash(false),
		hertz.WithDisablePrintRoute(true),
		hertz.WithDisableDefaultContentType(true),
		hertz.WithHandleMethodNotAllowed(true),
		hertz.WithOnConnect(s.connections.accept),
		hertz.WithTracer(s.connections),
		hertz.WithTraceLevel(stats.LevelDisabled), // only to be told of beginnings and ends
	)
	s.routes()
	s.watch()
	return s, nil
}

// slack is what hertz reads beyond our own limits, so that a request slightly over them is answered in the surface's
// own shape instead of plain text.
const slack = 64 << 10

// cutTime is how long requests get to end after they were cut: enough to write an error event and commit.
const cutTime = 5 * time.Second

func clampInt(n int64) int { return int(min(n, 1<<31-1)) }

// Addr is the address of the listener.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Reroute sends the requests that come from now on by another router. Those that are open keep the one they began with,
// which may be closed: that does not cut its calls.
func (s *Server) Reroute(r *router.Router) { s.router.Store(r) }

// Draining tells whether the server has begun to shut down.
func (s *Server) Draining() bool { return s.draining.Load() }

// ErrCut says that the drain time ended before all requests had.
var ErrCut = errors.New("open requests were cut after the drain time")

// Run serves until ctx is done, then drains: no new connections, open requests finish within the drain time, the rest
// is ended in the surface's own way. It returns nil when every request ended by itself. A ctx that ends at once is
// heeded as any other.
func (s *Server) Run(ctx context.Context) error {
	stopped := make(chan error, 1)
	go func() { stopped <- s.serve() }()
	select {
	case err := <-stopped:
		return errors.Join(err, s.drain())
	case <-s.listener.served:
	}
	select {
	case err := <-stopped:
		return errors.Join(err, s.drain())
	case <-ctx.Done():
	}
	err := s.drain()
	if err := <-stopped; err != nil { // expected of a listener that is closed while it serves
		s.log.Debug("the listener has ended", "error", err)
	}
	return err
}

// serve returns when the listener has been closed. hertz panics when it cannot serve.
func (s *Server) serve() (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			s.log.Error("panic in the listener", "panic", fmt.Sprint(fault), "stack", string(debug.Stack()))
			err = errors.New("the listener failed")
		}
	}()
	return s.engine.Engine.Run()
}

// drain ends what is open and whatever the server has started. A request is open until its answer has been sent.
func (s *Server) drain() error {
	s.draining.Store(true)
	idle := s.admission.close()
	s.beginClosing()
	shutdown, giveUp := context.WithCancel(context.Background())
	shut := make(chan struct{})
	go func() {
		defer close(shut)
		_ = s.engine.Shutdown(shutdown) // closes the listener first, then waits for connections
	}()

	err := s.endRequests(idle)
	s.cut(errDraining) // also ends the heartbeats and the sweeps
	s.connections.closeAll()
	<-idle
	giveUp()
	<-shut
	s.connections.wait()
	s.beat.wait()
	return err
}

// endRequests waits for open requests, and cuts them when the drain time is over.
func (s *Server) endRequests(idle <-chan struct{}) error {
	select {
	case <-idle:
		return nil
	case <-time.After(s.opts.DrainTimeout):
	}
	s.cut(errDraining)
	select {
	case <-idle:
	case <-time.After(cutTime): // a client that does not even take its error
	}
	return ErrCut
}
