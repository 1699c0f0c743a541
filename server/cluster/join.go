package cluster

import (
	"context"
	"strconv"
	"time"
)

// Join makes a store an edge's. The roster stays valid for maxAge after the centre was last heard; 0: forever. Join
// does not wait for brokers or centre.
func Join(ctx context.Context, log Log, answers Answers, roster Followed, node uint16, maxAge time.Duration, o Options) (*Edge, error) {
	s, err := Ship(ctx, log, node, o)
	if err != nil {
		return nil, err
	}
	f, err := startFollower(ctx, s.broker, roster, maxAge, &s.options)
	if err != nil {
		s.Close()
		return nil, err
	}
	e := &Edge{Shipper: s, follower: f, reasoning: shareReasoning(ctx, s.broker, &s.options), finding: make(chan struct{}, findsMost)}
	if o.Leases != nil {
		e.leases = leaseFromCentre(ctx, s.broker, node, &s.options)
	}
	if o.Carrier != nil {
		e.carrying = carryOut(ctx, s)
	}
	describe := func() Node {
		status := e.Status()
		return Node{Name: "edge " + strconv.Itoa(int(node)), Edge: &status}
	}
	if err := answerSurveys(s.broker, &s.options, describe); err != nil {
		e.Close()
		return nil, err
	}
	if err := answerFinds(s.broker, &s.options, strconv.Itoa(int(node)), answers, nil); err != nil {
		e.Close()
		return nil, err
	}
	return e, nil
}

// Close ends all of it. The next Join ships what was not confirmed.
func (e *Edge) Close() {
	e.carrying.close()
	e.leases.close()
	e.reasoning.close()
	e.follower.close()
	e.Shipper.Close()
}

// Status returns how far shipping and roster are.
func (e *Edge) Status() Shipping {
	s := e.Shipper.Status()
	s.Identity = new(Identity)
	*s.Identity = e.follower.identity()
	return s
}
