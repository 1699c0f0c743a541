// Package server is the HTTP side of mneme: the four surfaces that clients speak, authentication, and the pump that
// relays answers from providers to clients while they are recorded.
//
// Read an exchange's path in serve.go from top to bottom: admit, read, place, record, answer, finish. Each step makes
// one part of the exchange, in the file of its name: request.go, route.go, recording.go, attempt.go and call.go,
// answer.go. An answer passes (pass.go) or is translated (cross.go), as a stream (pump.go) or complete (buffered.go).
// Package edge handles everything before that.
package server

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/turns"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/forward"
	"github.com/mnemeproxy/mneme/server/listen"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/server/repeats"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/server/ui"
	"github.com/mnemeproxy/mneme/server/ui/openid"
	"github.com/mnemeproxy/mneme/server/webhook"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// Options configure a [Server]. Zero limits take the defaults.
type Options struct {
	Listen []string     // addresses, as [listen.Parse] reads them; at least one
	TLS    listen.Files // for those with TLS

	Inherited *listen.Inherited // sockets that are open already; nil: none

	Engine  Engine
	Router  *router.Router
	Log     *slog.Logger // nil: discard
	Version string

	PublicNames listen.Names // by which clients reach the memory, see [listen.Names]

	Origins []string // of pages that may call the surfaces; "*": of all

	PassThrough []string // what is passed on to providers although it is not for a proxy, see [resource.Permissions]

	OpenID openid.Options // sign-in to the page at /ui with an OpenID provider; the zero value: disabled

	Home    string              // of the user whose agents' histories can be imported from the page at /ui; "": no import
	Examine func() []ui.Finding // checks this machine for the page at /ui, within milliseconds; nil: nothing is checked

	Warn record.USD // see [memory.Options]

	Webhooks *webhook.Sender // sends webhooks for reached budgets and failed exchanges; nil: none are sent

	Centre *forward.Centre // answers requests for the memory with that of a cluster, of which Engine has a part; nil: Engine answers
	Lacks  string          // see [memory.Options]

	Management http.Handler // below [ManagementPrefix], for holders of keys, whom it authenticates; nil: none

	Telemetry *telemetry.Telemetry // of this server only; nil: discarded

	NoModels   bool     // serve the memory alone, and refuse requests for models
	CaptureOff bool     // pass exchanges without a record
	OptOut     []string // accounts whose callers may keep an exchange off the record

	Recall   recall.Options
	Memory   *recall.Memory  // shared with others; nil: one made from Recall
	Recaller recall.Recaller // for recall in requests; nil: one that recalls from Engine

	Connections           int // open at a time; 10,000
	ConnectionsPerAddress int // of one client address; 0: only the limit above
	Requests              int // handled at a time; 10,000

	Limiter   Limiter          // nil: one of this process, or by Leases
	Leases    *quota.Leases    // for limits and budgets shared with other servers; nil: none are
	KeyLimits store.Limits     // of keys that have none of their own
	Clock     func() time.Time // for the limits of keys; nil: time.Now

	// AskUsage requests usage from providers that count a stream only on request, if the client does not. Without it
	// only the streams of callers with limits are counted.
	AskUsage bool

	BodyBytes     int64         // largest request body, decompressed; 64 MiB
	HeaderBytes   int           // largest request head; 64 KiB
	AnswerBytes   int64         // largest answer that is not streamed; 256 MiB, above any known one: batches of embeddings
	InFlightBytes int64         // memory of all requests and answers: bytes that have arrived, and what is made of them; 1 GiB
	AnswerMemory  int64         // of that, for answers held, not counting those passed on as they arrive; 192 MiB
	ReadTimeout   time.Duration // for a client to send its request, or to read a piece of the answer; 3 min
	DrainDelay    time.Duration // between readiness going down and the drain; 0
	DrainTimeout  time.Duration // for open exchanges to end after Run's context is done; 30 s
	Heartbeat     time.Duration // silence on a stream before a heartbeat is sent to the client; 15 s

	blocking     bool          // serve every listener on the standard transport, as on Windows
	abortTimeout time.Duration // for aborted requests to end; 0: the default of package edge
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
	if o.Limiter == nil {
		o.Limiter = &quota.Table{Leases: o.Leases}
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
	opts   Options
	engine Engine
	ledger crossing.Ledger // of engine

	runs       backgroundRuns
	references knownReferences
	router     atomic.Pointer[router.Router]
	log        *slog.Logger
	edge       *edge.Server

	recaller *recall.Memory
	places   turns.Reader     // of recollections
	pieces   codec.Succession // of agents' requests
	openings chatkey.Memory   // of their conversations

	held          *edge.Budget  // memory of all requests and answers, without what is set aside for work
	answers       *edge.Budget  // of the answers held, as a part of that
	conversations *edge.Budget  // of those that WebSockets remember, as a part of that
	working       chan struct{} // holds one while a large body is worked on
	beat          *heartbeats
	life          context.Context // of background work
	end           context.CancelFunc

	certificates *listen.Certificates // nil without TLS

	telemetry *telemetry.Telemetry

	refusals  *telemetry.Refusals
	limiter   Limiter
	budgets   quota.Budgets
	loops     repeats.Reports
	window    *ui.UI
	keyLimits atomic.Pointer[store.Limits]
}

// conversationShare is the part of the memory of all requests and answers that idle WebSockets may hold, as a fraction.
// Their clients send a conversation whole when it has been forgotten.
const conversationShare = 8

// New opens the listeners, so that the addresses are known and a taken port is an error here. Clients that connect
// before [Server.Run] wait in a queue. A server that was made must be run.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	s := &Server{
		recaller: o.Memory,
		places:   turns.Reader{IsBoot: search.IsBoot},

		opts: o, engine: o.Engine, ledger: reasoningLedger{o.Engine.Notes}, limiter: o.Limiter, log: o.Log, telemetry: o.Telemetry,
		refusals: telemetry.NewRefusals(o.Log), held: edge.NewBudget(o.InFlightBytes-roomForWork(o.InFlightBytes, o.BodyBytes), nil), working: make(chan struct{}, 1),
	}
	s.answers = edge.NewBudget(o.AnswerMemory, s.held)
	s.conversations = edge.NewBudget(o.InFlightBytes/conversationShare, s.held)
	if s.recaller == nil {
		s.recaller = recall.New(o.Engine.Recall, o.Recall)
	}
	if s.opts.Recaller == nil {
		s.opts.Recaller = s.recaller
	}
	s.budgets.Leases = o.Leases
	err := s.loadBudgets(context.Background())
	if err != nil {
		return nil, err
	}
	if o.TLS != (listen.Files{}) {
		if s.certificates, err = listen.LoadCertificates(o.TLS); err != nil {
			return nil, fmt.Errorf("tls: %w", err)
		}
	}
	s.edge, err = edge.New(&edge.Options{
		Listen: o.Listen, Certificates: s.certificates, Inherited: o.Inherited, Blocking: o.blocking, Log: o.Log,
		Connections: o.Connections, ConnectionsPerAddress: o.ConnectionsPerAddress, Requests: o.Requests,
		BodyBytes: o.BodyBytes, HeaderBytes: o.HeaderBytes, Memory: s.held, ReadTimeout: o.ReadTimeout,
		DrainDelay: o.DrainDelay, DrainTimeout: o.DrainTimeout, AbortTimeout: o.abortTimeout,
		Single:  []string{"Authorization", headerServiceKey}, // two credentials are ambiguous
		Surface: func(path []byte) codec.Format { return surfaceOfPath(string(path)) },
		Fail: func(in *edge.Request, out *edge.Response, e *codec.Error) {
			s.answerError(out, errorShape(in), e, "")
		},
		Refused: s.telemetry.ConnectionRefused, NotFound: s.serveRest, NotServed: s.notAllowed,
	})
	if err != nil {
		return nil, err
	}
	s.Reroute(o.Router)
	s.LimitKeys(o.KeyLimits)
	s.life, s.end = context.WithCancel(context.Background())
	s.beat = startHeartbeats(s.life, o.Heartbeat)
	s.budgets.Notify = s.tellBudget
	s.routes()
	s.watch()
	return s, nil
}

// Addr returns the address of the first listener.
func (s *Server) Addr() net.Addr { return s.edge.Addr() }

// Addresses returns those of all listeners, with the ports that the system chose.
func (s *Server) Addresses() []listen.Address { return s.edge.Addresses() }

// Reroute sends subsequent requests through another router. Open ones keep theirs, which may be closed: that does not
// abort its calls.
func (s *Server) Reroute(r *router.Router) {
	if r != nil { // a server that is only started and stopped has none
		s.engine.Credentials.Guard(r.Credentials()...)
	}
	s.router.Store(r)
}

// Router returns the router in use.
func (s *Server) Router() *router.Router { return s.router.Load() }

// Draining reports whether the server has begun to shut down.
func (s *Server) Draining() bool { return s.edge.Draining() }

// ErrAborted means that the drain time ended before all requests had.
var ErrAborted = edge.ErrAborted

// HandOver makes the end of [Server.Run] leave the listening sockets open for the program that replaces this one, so
// that no client is refused: new connections wait in the queues of the sockets, requests on open ones are answered.
// Call it before Run's context is done.
func (s *Server) HandOver() (*listen.Handover, error) { return s.edge.HandOver() }

// Run serves until ctx is done, then drains: readiness goes down, the listeners are closed after the drain delay, open
// requests finish within the drain time, and the rest is ended in the surface's own way. It returns nil if every
// request ended by itself. A ctx that has already ended drains at once.
func (s *Server) Run(ctx context.Context) error {
	err := s.edge.Run(ctx)
	s.end()
	s.beat.wait()
	return err
}
