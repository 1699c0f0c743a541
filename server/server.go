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
	"sync"
	"sync/atomic"
	"time"

	hertz "github.com/cloudwego/hertz/pkg/app/server"
	"github.com/cloudwego/hertz/pkg/common/hlog"
	"github.com/cloudwego/hertz/pkg/network"
	"github.com/cloudwego/hertz/pkg/network/netpoll"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store"
)

// Options configure a [Server]. Zero limits take the defaults.
type Options struct {
	Listen  string // host:port; port 0 takes any free one
	Store   *store.Store
	Router  *router.Router
	Log     *slog.Logger // nil: discard
	Version string

	CaptureOff bool // pass exchanges without a record

	BodyBytes     int64         // largest request body, decompressed; 64 MiB
	HeaderBytes   int           // largest request head; 64 KiB
	InFlightBytes int64         // sum of all request bodies being handled; 1 GiB
	ReadTimeout   time.Duration // for a client to send its request; 3 min
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
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return o
}

// Server serves the surfaces on one listener.
type Server struct {
	opts     Options
	store    *store.Store
	router   *router.Router
	log      *slog.Logger
	listener net.Listener
	engine   *hertz.Hertz
	budget   byteBudget
	beat     *heartbeats

	// life ends when open exchanges are to be cut; exchanges counts those that are open.
	life      context.Context
	cut       context.CancelCauseFunc
	exchanges sync.WaitGroup
	open      atomic.Int64
	draining  atomic.Bool

	connections sync.Map // network.Conn → struct{}: closed when the server ends
}

// errDraining is the cause with which open exchanges are cut when the drain time is over.
var errDraining = codec.Errorf(codec.KindOverloaded, "The proxy is shutting down; send the request again.")

// New opens the listener, so that Addr is known and a taken port is an error here. Run serves it.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	listener, err := net.Listen("tcp", o.Listen)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w", o.Listen, err)
	}
	s := &Server{opts: o, store: o.Store, router: o.Router, log: o.Log, listener: listener}
	s.budget.limit = o.InFlightBytes
	s.life, s.cut = context.WithCancelCause(context.Background())
	s.beat = startHeartbeats(s.life, o.Heartbeat)
	hlog.SetLevel(hlog.LevelFatal) // hertz logs on its own; what matters is logged here
	s.engine = hertz.New(
		hertz.WithListener(listener),
		hertz.WithTransport(netpoll.NewTransporter),
		hertz.WithMaxRequestBodySize(clampInt(2*o.BodyBytes+slack)), // the shaped 413 is ours; beyond this hertz cuts
		hertz.WithMaxHeaderBytes(2*o.HeaderBytes+slack),             // likewise 431
		hertz.WithReadTimeout(o.ReadTimeout),
		hertz.WithIdleTimeout(o.ReadTimeout),
		hertz.WithExitWaitTime(o.DrainTimeout+cutTime),
		hertz.WithSenseClientDisconnection(true),
		hertz.WithDisablePreParseMultipartForm(true),
		hertz.WithRedirectTrailingSlash(false),
		hertz.WithDisablePrintRoute(true),
		hertz.WithDisableDefaultContentType(true),
		hertz.WithHandleMethodNotAllowed(true),
		hertz.WithOnConnect(s.track),
	)
	s.routes()
	return s, nil
}

// slack is what hertz reads beyond our own limits, so that a request slightly over them is answered in the surface's
// own shape instead of plain text.
const slack = 64 << 10

// cutTime is how long exchanges get to end after they were cut: enough to write an error event and commit.
const cutTime = 5 * time.Second

func clampInt(n int64) int { return int(min(n, 1<<31-1)) }

// Addr is the address of the listener.
func (s *Server) Addr() net.Addr { return s.listener.Addr() }

// Draining tells whether the server has begun to shut down.
func (s *Server) Draining() bool { return s.draining.Load() }

// track remembers a connection until it ends.
func (s *Server) track(ctx context.Context, conn network.Conn) context.Context {
	s.connections.Store(conn, struct{}{})
	context.AfterFunc(ctx, func() { s.connections.Delete(conn) })
	return ctx
}

// Run serves until ctx is done, then drains: no new connections, open exchanges finish within the drain time, the rest
// is ended in the surface's own way. It returns nil when every exchange ended by itself.
func (s *Server) Run(ctx context.Context) error {
	served := make(chan error, 1)
	go func() { served <- s.engine.Engine.Run() }()
	select {
	case err := <-served:
		s.cut(errDraining)
		return fmt.Errorf("the listener failed: %w", err)
	case <-ctx.Done():
	}
	return s.drain(served)
}

// ErrCut says that the drain time ended before all exchanges had.
var ErrCut = errors.New("open exchanges were cut after the drain time")

func (s *Server) drain(served <-chan error) error {
	s.draining.Store(true)
	finished := make(chan struct{})
	stop, stopped := context.WithCancel(context.Background())
	defer stopped()
	shut := make(chan struct{})
	go func() {
		defer close(shut)
		_ = s.engine.Shutdown(stop) // closes the listener first, then waits for connections
	}()
	go func() {
		s.exchanges.Wait()
		close(finished)
	}()
	var err error
	select {
	case <-finished:
	case <-time.After(s.opts.DrainTimeout):
		err = ErrCut
	}
	s.cut(errDraining)
	<-finished
	stopped()
	<-shut
	_ = <-served // the loop of a listener that was closed on purpose
	s.connections.Range(func(conn, _ any) bool {
		_ = conn.(network.Conn).Close()
		return true
	})
	s.beat.wait()
	return err
}
