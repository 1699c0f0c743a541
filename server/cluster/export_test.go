package cluster

import (
	"context"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// What tests from outside need of those inside.
type (
	Order   = order
	Process = process
)

// Helpers of tests inside, which say there what they do.
var (
	OpenStore  = openStore
	Capture    = capture
	Begin      = begin
	Opening    = opening
	Finish     = finish
	JoinFrom   = joinFrom
	Eventually = eventually
)

// StartBroker runs a broker, and gives options of nodes that use it.
func StartBroker(t *testing.T) Options {
	t.Helper()
	return options(t, 1, startBroker(t, t.TempDir(), server.RANDOM_PORT).ClientURL())
}

// WithClock gives options of a node whose clock is ahead.
func WithClock(o Options, ahead time.Duration) Options {
	o.clock = func() time.Time { return time.Now().Add(ahead) }
	return o
}

// idle reports whether a centre has handled all messages at the brokers.
func (c *Centre) idle(ctx context.Context) bool {
	messages, err := c.Behind(ctx)
	return err == nil && messages == 0
}

// Do has an edge carry out an order; ok is false where it was killed before it said so.
func (p *process) Do(asked Order) (answer report, ok bool) { return p.do(asked) }

// Kill ends a process with no warning, and starts it again.
func (p *process) Kill() {
	p.kill()
	p.start()
}

// StartEdges starts edges as processes, and gives the options of the centre that they ship to.
func StartEdges(t *testing.T, dirs ...string) (edges []*Process, centre Options) {
	t.Helper()
	urls := []string{startBroker(t, t.TempDir(), server.RANDOM_PORT).ClientURL()}
	for n, dir := range dirs {
		edges = append(edges, startNode(t, role{Kind: "edge", Dir: dir, Node: uint16(n + 1), NATS: urls}))
	}
	return edges, options(t, 1, urls...)
}
