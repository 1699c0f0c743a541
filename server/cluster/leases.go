package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/store/ship"
)

// Limits of keys and budgets apply to all edges together. The centre lends each edge a share of what is left of a
// limit, and is told afterwards how much of it was used, so that no request waits for the centre.
const (
	leaseSubject = "mneme.lease"

	leaseUses  = 2048                  // in a message
	leasePause = 20 * time.Millisecond // between two requests of an edge
	leaseBeat  = 5 * time.Second       // between two requests while nothing is used: the centre counts the nodes that share limits
)

// renewing keeps the leases of a node until it is closed.
type renewing struct {
	server string // names the node and its start to the lender
	stop   context.CancelFunc
	done   chan struct{}
}

// renew starts renewing leases. lend is called with the server's name.
func renew(ctx context.Context, node string, leases *quota.Leases, lend func(context.Context, string, []ship.Use) (ship.Leases, error)) *renewing {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	r := &renewing{node + "-" + rand.Text(), stop, make(chan struct{})}
	go func() {
		defer close(r.done)
		tick := time.NewTicker(pause)
		defer tick.Stop()
		for asked := (time.Time{}); ctx.Err() == nil; {
			if uses := leases.Report(time.Now(), leaseUses); len(uses) > 0 || time.Since(asked) >= leaseBeat {
				lent, err := lend(ctx, r.server, uses)
				asked = time.Now()
				if err != nil {
					leases.Unheard(uses)
					asked = time.Time{}
					sleep(ctx, pause)
				} else {
					leases.Renew(asked, uses, lent.Leases, lent.Servers)
				}
			}
			select {
			case <-ctx.Done():
			case <-tick.C:
			case <-leases.Wake():
				sleep(ctx, leasePause-time.Since(asked))
			}
		}
	}()
	return r
}

func (r *renewing) close() {
	if r != nil {
		r.stop()
		<-r.done
	}
}

// errLease is returned for a reply that does not belong to the request.
var errLease = errors.New("the centre's reply does not match the request")

// leaseFromCentre renews the leases of an edge at the centre.
func leaseFromCentre(ctx context.Context, b *broker, node uint16, o *Options) *renewing {
	return renew(ctx, strconv.Itoa(int(node)), o.Leases, func(ctx context.Context, server string, uses []ship.Use) (l ship.Leases, err error) {
		return askLeases(ctx, b, o, server, uses)
	})
}

func askLeases(ctx context.Context, b *broker, o *Options, server string, uses []ship.Use) (l ship.Leases, err error) {
	asked := ship.LeaseRequest{Server: server, Uses: uses}
	_, _ = rand.Read(asked.Nonce[:]) // never fails: crypto/rand ends the program instead
	ctx, cancel := context.WithTimeout(ctx, pause)
	defer cancel()
	reply, err := b.RequestWithContext(ctx, leaseSubject, asked.Seal(o.Key))
	if err != nil {
		return l, fmt.Errorf("ask the centre for leases: %w", err)
	}
	l, err = ship.OpenLeases(o.Key, reply.Data)
	if err == nil && (l.Nonce != asked.Nonce || len(l.Leases) != len(uses)) {
		err = errLease
	}
	return l, err
}

// lend answers a lease request. A centre that does not lend counts along, so that it can continue for the one that does: limits per
// minute, and what is not on record yet, are known nowhere else.
func (c *Centre) lend(m *nats.Msg) {
	asked, err := ship.OpenLeaseRequest(c.options.Key, m.Data)
	if err != nil {
		c.count(reasonOf(err))
		return
	}
	lent := ship.Leases{Nonce: asked.Nonce}
	lent.Leases, lent.Servers = c.options.Lender.Lend(time.Now(), asked.Server, asked.Uses)
	if c.lends() {
		_ = m.Respond(lent.Seal(c.options.Key)) // an edge that misses the reply asks again
	}
}
