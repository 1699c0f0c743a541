// Package server is the HTTP side of mneme: the surfaces that clients speak, authentication, and the pump that relays
// answers from providers to clients while they are recorded. Package edge handles everything before that.
//
// Read an exchange's path in serve.go and steps.go: admit, read, place, record, answer, finish. Each step makes one part
// of the exchange (exchange.go): request.go, route.go, attempts.go, answer.go, recording.go. The parts know nothing of the
// exchange; what needs several of them stands above: record.go, cost.go, limits.go, call.go, header.go. What all
// exchanges use together is the proxy (proxy.go).
//
// An answer passes (pass.go) or is translated (cross.go), as a stream (pump.go) or complete (buffered.go). Embeddings,
// compactions, what other paths of a provider offer (passage.go), answers in the background and recall are values of their
// own, with the exchange that they belong to. A [Server] has the proxy, the memory and the window.
package server

import (
	"context"
	"fmt"
	"net"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/server/listen"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/server/ui"
	"github.com/mnemeproxy/mneme/store"
)

// Server serves the surfaces, the memory and the window.
type Server struct {
	*proxy
	recaller     *recall.Memory
	certificates *listen.Certificates // nil without TLS
	window       *ui.UI
	life         context.Context // of background work
	end          context.CancelFunc
}

// New opens the listeners, so that the addresses are known and a taken port is an error here. Clients that connect
// before [Server.Run] wait in a queue. A server that was made must be run.
func New(o Options) (*Server, error) {
	o = o.withDefaults()
	if o.Memory == nil {
		o.Memory = recall.New(o.Engine.Recall, o.Recall)
	}
	s := &Server{proxy: newProxy(o), recaller: o.Memory}
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

// LimitKeys sets the limits of keys that have none of their own, from the next request on.
func (s *Server) LimitKeys(l store.Limits) { s.keyLimits.Store(&l) }

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

// watch lets the metrics observe what the server currently holds.
func (s *Server) watch() {
	s.telemetry.Watch(telemetry.Levels{
		RequestsOpen:  s.edge.Requests,
		StreamsOpen:   s.beat.open,
		InFlightBytes: s.held.Used,
		InFlightLimit: s.held.Limit(),
		Endpoints:     s.endpoints,
		Connections:   s.edge.Connections,
		Captures:      s.engine.Recorder.Stats,
		IndexLag:      s.engine.Index.Lag,
		Recalls:       s.recaller.Total,
	})
}
