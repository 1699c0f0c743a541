package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"

	"github.com/nats-io/nats.go"
)

// Gather starts taking what edges ship. It publishes the roster to the edges and answers their questions. It does not
// wait for the brokers.
func Gather(ctx context.Context, archive Archive, answers Answers, roster Roster, o Options) (*Centre, error) {
	return start(ctx, archive, answers, roster, o)
}

// Work takes what edges ship into an archive that it shares with the centre that keeps the accounts. It tells edges how
// far their logs have been taken and, if that centre does not answer, finds exchanges in the archive. Any number of
// workers may start and stop.
func Work(ctx context.Context, archive Archive, answers Answers, o Options) (*Centre, error) {
	return start(ctx, archive, answers, nil, o)
}

// start starts a centre; without a roster it is a worker.
func start(ctx context.Context, archive Archive, answers Answers, roster Roster, o Options) (*Centre, error) {
	id, err := archive.ID(ctx)
	if err != nil {
		return nil, err
	}
	b, err := connect(&o)
	if err != nil {
		return nil, err
	}
	var known *edges
	if o.Erasures != nil {
		if known, err = openEdges(o.Erasures); err != nil {
			b.Close()
			return nil, err
		}
	}
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &Centre{
		options: o, worker: roster == nil, archive: archive, id: id, broker: b, stop: stop, edges: known,
		opened: make(chan struct{}), partials: newPartials(o.now), status: Arriving{Refused: make(map[string]int64)},
		order: byte(rand.Uint32()), //nolint:gosec // no secret
	}
	if err := c.listen(ctx, answers); err != nil {
		stop()
		b.Close()
		return nil, err
	}
	c.running.Go(func() { c.run(ctx) })
	c.running.Go(func() { c.retry(ctx) })
	if !c.worker {
		c.running.Go(func() { c.lead(ctx, roster) })
	}
	return c, nil
}

// listen subscribes the centre to the questions of nodes.
func (c *Centre) listen(ctx context.Context, answers Answers) error {
	hear := map[string]nats.MsgHandler{questionSubject: func(m *nats.Msg) {
		if err := c.answer(ctx, m); err != nil {
			c.options.Log.Warn("a node's question about its log could not be answered", "cause", err)
		}
	}}
	if c.options.Lender != nil {
		hear[leaseSubject] = c.lend
	}
	if c.options.Erasures != nil && !c.worker {
		hear[erasedSubject] = func(m *nats.Msg) { c.tellErased(ctx, m) }
	}
	for subject, handler := range hear {
		if _, err := c.broker.Subscribe(subject, handler); err != nil {
			return fmt.Errorf("listen to the edges: %w", err)
		}
	}
	name, said, when := findCentre, findCentre, (func() bool)(nil)
	switch {
	case c.worker:
		name, said = findWorker, c.options.Name
	case c.options.Leading != nil:
		said, when = c.options.Name, c.leads
	}
	if err := answerFinds(c.broker, &c.options, name, answers, when); err != nil {
		return err
	}
	return answerSurveys(c.broker, &c.options, func() Node {
		status := c.Status()
		return Node{Name: said, Worker: c.worker, Standby: !c.worker && !c.leads(), Centre: &status}
	})
}

// run reads the stream. It starts over after a failure, and after each reconnection: the client's reader would notice a
// lost broker only after two missed heartbeats.
func (c *Centre) run(ctx context.Context) {
	said, again := "", c.broker.reconnects()
	for ctx.Err() == nil {
		err := c.read(ctx, again)
		text := ""
		if err != nil && ctx.Err() == nil {
			text = err.Error()
		}
		c.mu.Lock()
		c.status.Problem = text
		c.mu.Unlock()
		if text != said {
			said = text
			if text != "" {
				c.options.Log.Warn("nothing is taken from the edges, which keep their exchanges until it is", "cause", err)
			}
		}
		if err != nil {
			sleep(ctx, pause)
		}
	}
}
