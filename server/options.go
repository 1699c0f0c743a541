package server

import (
	"log/slog"
	"net/http"
	"time"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/forward"
	"github.com/mnemeproxy/mneme/server/listen"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/server/ui"
	"github.com/mnemeproxy/mneme/server/ui/openid"
	"github.com/mnemeproxy/mneme/server/webhook"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
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
