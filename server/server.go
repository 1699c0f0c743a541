// Package server is the HTTP side of mneme: the four surfaces that clients speak, authentication, and the pump that
// moves answers from providers to clients while they are put on record.
//
// The way of a request can be read in exchange.go from top to bottom. What happens before it is in edge.go (header
// hygiene, limits) and authenticate.go; how an answer moves is in pump.go (streams) and whole.go (complete bodies).
package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	hertz "github.com/cloudwego/hertz/pkg/app/server"
	"github.com/cloudwego/hertz/pkg/common/config"
	"github.com/cloudwego/hertz/pkg/common/hlog"
	"github.com/cloudwego/hertz/pkg/common/tracer/stats"
	"github.com/cloudwego/hertz/pkg/network"
	"github.com/cloudwego/netpoll"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/listen"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store"
)

// Options configure a [Server]. Zero limits take the defaults.
type Options struct {
	Listen  []string     // addresses, as [listen.Parse] reads them; at least one
	TLS     listen.Files // for those with TLS
	Store   *store.Store
	Router  *router.Router
	Log     *slog.Logger // nil: discard
	Version string

	PublicNames listen.Names // that clients reach the memory by, see [listen.Names]

	Telemetry *telemetry.Telemetry // of this server alone; nil: one that nobody looks at

	CaptureOff bool     // pass exchanges without a record
	OptOut     []string // accounts whose callers may keep an exchange off the record

	Connections           int // open at a time; 10,000
	ConnectionsPerAddress int // of one client address; 0: no limit but the one before
	Requests              int // handled at a time; 10,000

	KeyLimits store.Limits     // of keys that have none of their own
	Clock     func() time.Time // by which the limits of keys go; nil: time.Now

	BodyBytes     int64         // largest request body, decompressed; 64 MiB
	HeaderBytes   int           // largest request head; 64 KiB
	AnswerBytes   int64         // largest answer that is not streamed; 256 MiB, above any that is known: batches of embeddings
	InFlightBytes int64         // sum of all request bodies being handled; 1 GiB
	AnswerMemory  int64         // sum of all answers that are held, which those that pass as they come are not; 192 MiB
	ReadTimeout   time.Duration // for a client to send its request, or to take a piece of the answer; 3 min
	DrainDelay    time.Duration // between readiness going down and the drain; 0
	DrainTimeout  time.Duration // for open exchanges to end after Run's context is done; 30 s
	Heartbeat     time.Duration // silence on a stream before a sign of life is sent to the client; 15 s

	blocking bool // serve every listener on the standard transport, as on Windows
}

func (o Options) withDefaults() Options {
	set := func(v *int64, def int64) {
		if *v == 0 {
			*v = def
		}
	}
	set(&o.BodyBytes, 64<<20)
	set(&o.AnswerBytes, 256<<20)
	set(&o.InFlightBytes, 1<<30)
	set(&o.AnswerMemory, 192<<20)
	for _, n := range []struct {
		v   *int
		def int
	}{{&o.HeaderBytes, 64 << 10}, {&o.Connections, 10_000}, {&o.Requests, 10_000}} {
		if *n.v == 0 {
			*n.v = n.def
		}
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

// Server serves the surfaces.
type Server struct {
	opts      Options
	store     *store.Store
	router    atomic.Pointer[router.Router]
	log       *slog.Logger
	listeners []*listener
	engine    *hertz.Hertz
	budget    byteBudget // of request bodies
	answers   byteBudget // of answers
	beat      *heartbeats

	certificates *listen.Certificates // nil without TLS
	renewals     sync.WaitGroup       // the goroutine that watches their files

	telemetry *telemetry.Telemetry

	refusals  refusals // of callers without a key
	quota     quota.Table
	keyLimits atomic.Pointer[store.Limits]

	// closing ends when the drain begins: what would never end by itself ends then.
	closing      context.Context
	beginClosing context.CancelFunc

	// life ends when open requests are to be cut.
	life        context.Context
	cut         context.CancelCauseFunc
	cutTime     time.Duration // cutTime
	admission   admission
	draining    atomic.Bool
	connections *connections
}

// prepareLibraries sets what hertz and netpoll keep for the whole process. hertz does not log on its own: what matters is
// logged here. A connection begins with small buffers, which grow with what comes: thousands of clients may wait for
// streams that say nothing, and netpoll's own sizes are 8 KiB to read into and 4 KiB to write from.
var prepareLibraries = sync.OnceFunc(func() {
	hlog.SetLevel(hlog.LevelFatal)
	netpoll.LinkBufferCap = 1 << 10
	_ = netpoll.Configure(netpoll.Config{BufferSize: 2 << 10})
})

// New opens the listeners, so that the addresses are known and a taken port is an error here. Clients that connect
// before [Server.Run] wait in a queue. A server that is made has to be run.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	s := &Server{opts: o, store: o.Store, log: o.Log, telemetry: o.Telemetry, cutTime: cutTime}
	var secure *tls.Config
	if o.TLS != (listen.Files{}) {
		var err error
		if s.certificates, err = listen.LoadCertificates(o.TLS); err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
		secure = s.certificates.Config()
	}
	listeners, err := openListeners(&o, s.certificates)
	if err != nil {
		return nil, err
	}
	s.listeners = listeners
	s.Reroute(o.Router)
	s.LimitKeys(o.KeyLimits)
	s.budget.limit = o.InFlightBytes
	s.answers.limit = o.AnswerMemory
	s.admission.limit = o.Requests
	s.life, s.cut = context.WithCancelCause(context.Background())
	s.closing, s.beginClosing = context.WithCancel(s.life)
	s.beat = startHeartbeats(s.life, o.Heartbeat)
	s.connections = startConnections(s.life, o.ReadTimeout, connectionLimits{
		total: o.Connections, perClient: o.ConnectionsPerAddress, head: o.HeaderBytes, body: o.BodyBytes, unread: o.InFlightBytes,
	}, s.telemetry.ConnectionRefused)
	if s.certificates != nil {
		s.renewals.Go(func() { s.renewCertificates(s.life) })
	}
	prepareLibraries()
	s.engine = hertz.New(
		hertz.WithTransport(func(options *config.Options) network.Transporter {
			return newTransport(options, listeners, secure, s.connections, o.Log)
		}),
		hertz.WithMaxRequestBodySize(clampInt(o.BodyBytes)), // what is over these limits is answered by refusal.go
		hertz.WithMaxHeaderBytes(o.HeaderBytes),
		hertz.WithReadTimeout(o.ReadTimeout),
		hertz.WithIdleTimeout(o.ReadTimeout),
		hertz.WithWriteTimeout(o.ReadTimeout),
		hertz.WithSenseClientDisconnection(true),
		hertz.WithDisablePreParseMultipartForm(true),
		hertz.WithRedirectTrailingSlash(false),
		hertz.WithDisablePrintRoute(true),
		hertz.WithDisableDefaultContentType(true),
		hertz.WithHandleMethodNotAllowed(true),
		hertz.WithTracer(s.connections),
		hertz.WithTraceLevel(stats.LevelDisabled), // only to be told of beginnings and ends
	)
	s.routes()
	s.watch()
	return s, nil
}

// cutTime is how long requests get to end after they were cut: enough to write an error event and commit.
const cutTime = 5 * time.Second

func clampInt(n int64) int { return int(min(n, 1<<31-1)) }

// Addr is the address of the first listener.
func (s *Server) Addr() net.Addr { return s.listeners[0].Addr() }

// Addresses are those of all listeners, with the ports that were left to the system.
func (s *Server) Addresses() []listen.Address {
	addresses := make([]listen.Address, len(s.listeners))
	for i, l := range s.listeners {
		addresses[i] = l.address
	}
	return addresses
}

// Reroute sends the requests that come from now on by another router. Those that are open keep the one they began with,
// which may be closed: that does not cut its calls.
func (s *Server) Reroute(r *router.Router) {
	if r != nil { // a server that is only started and ended has none
		s.store.Guard(r.Credentials()...)
	}
	s.router.Store(r)
}

// Router is the one in use.
func (s *Server) Router() *router.Router { return s.router.Load() }

// Draining reports whether the server has begun to shut down.
func (s *Server) Draining() bool { return s.draining.Load() }

// ErrCut says that the drain time ended before all requests had.
var ErrCut = errors.New("open requests were cut after the drain time")

// Run serves until ctx is done, then drains: readiness goes down, after the drain delay the listeners are closed, open
// requests finish within the drain time, the rest is ended in the surface's own way. It returns nil when every request
// ended by itself. A ctx that ends at once is heeded as any other.
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
	if s.opts.DrainDelay > 0 {
		time.Sleep(s.opts.DrainDelay)
	}
	err := s.drain()
	if err := <-stopped; err != nil { // expected of a listener that is closed while it serves
		s.log.Debug("the listeners have ended", "error", err)
	}
	return err
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
		_ = s.engine.Shutdown(shutdown) // closes the listeners first, then waits for connections
	}()

	err := s.endRequests(idle)
	s.cut(errDraining) // also ends the heartbeats and the sweeps
	s.connections.closeAll()
	<-idle
	giveUp()
	<-shut
	closeListeners(s.listeners) // if hertz never came to serve them
	s.connections.wait()
	s.renewals.Wait()
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
	case <-time.After(s.cutTime): // a client that does not even take its error
	}
	return ErrCut
}
