package cluster

import (
	"context"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// Options configure the nodes of a cluster: edges, centres and workers.
type Options struct {
	NATS        []string // URLs of the brokers
	Credentials string   // file of a user of the brokers; "": the URLs have it, or none is needed
	CA          string   // file with the CA that signed the brokers' certificates; "": the system's
	Replicas    int      // of streams and buckets; 0: 1. More than one needs as many brokers
	Waiting     int64    // of a centre: bytes of what edges ship that the brokers hold at most; 0: no bound
	Key         *ship.Key
	Name        string        // of this node, shown in the brokers' connection lists
	Leases      *quota.Leases // of the limits that this node enforces; nil: it shares no limits
	Version     string        // of the program, for surveys
	MasterKey   string        // as made by [MasterKeyMark], for surveys
	Quorum      bool          // on an edge: exchanges wait for the brokers, see [Shipper.Brokered]
	Lender      *quota.Lender // at a centre: lends the limits of the cluster; nil: each node has its own
	Erasures    Erasures      // at a centre: erasures that its edges carry out as well; nil: each node erases for itself
	Carrier     Carrier       // on an edge: carries these erasures out; nil: nothing does
	Log         *slog.Logger
	Leading     Leading                              // at a centre: several centres share its archive; nil: there is one
	Spending    func(context.Context) error          // at a centre that begins to lead: brings Lender to what is on record
	Aside       Aside                                // at a centre or worker: refused entries of its archive, to be retried; nil: they are not
	Gather      time.Duration                        // at a centre or worker: how long frames wait at most to be taken together, see [GatherEach]
	Took        func(frames int, took time.Duration) // at a centre: reports the frames of a transaction of its archive; nil: they are not counted

	clock    func() time.Time // nil: [time.Now]
	findTime time.Duration    // 0: [findTime]
}

func (o *Options) now() time.Time {
	if o.clock == nil {
		return time.Now()
	}
	return o.clock()
}

// unreachable says that no broker can be reached, and where they should be; not with which password.
func (o *Options) unreachable() string {
	var hosts []string
	for _, text := range o.NATS {
		if u, err := url.Parse(text); err == nil {
			hosts = append(hosts, u.Host)
		}
	}
	return "no broker of cluster.nats can be reached: " + strings.Join(hosts, ", ")
}

// Aside gives access to the refused entries of an archive.
type Aside interface {
	Count(ctx context.Context) (int, error) // of refused entries
	Retry(ctx context.Context) error
}

// Carrier carries out the centre's erasures at an edge.
type Carrier interface {
	UpTo() (ship.ErasedMark, error)
	Carry(ctx context.Context, page []ship.ErasedExchange, upTo ship.ErasedMark) error
	Clean(now time.Time) (time.Time, error)
}

// Erasures are the erasures requested at a centre, and what the centre knows of its edges.
type Erasures interface {
	After(mark ship.ErasedMark, most int) (page []ship.ErasedExchange, upTo ship.ErasedMark, err error)
	Latest() (time.Time, error) // when the last of them was completed; zero: there is none
	Edges() ([]record.EdgeErased, error)
	NoteEdge(ctx context.Context, edge record.EdgeErased) error
}

// Leading is how centres that share an archive choose the one that publishes the roster, lends limits, and finds exchanges for edges.
type Leading interface {
	Leads() bool

	// Lends returns the term in which this centre lends limits; 0: it does not. It may go on to lend while no centre can lead.
	Lends() (term int64)

	// While calls do each time that this centre begins to lead, with a context that ends when it leads no longer, until ctx is done.
	While(ctx context.Context, do func(context.Context))
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// refusalPrefix starts the answer to a question that cannot be verified. The answer is not signed: it is only a hint.
const refusalPrefix = "mneme refuses: "
