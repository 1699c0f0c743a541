package cluster

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// Erasures requested at the centre are carried out at every edge that has the exchanges. Each edge asks for the
// erasures since its last question and carries them out. Its questions say how far it is, so that an edge that was away
// resumes where it stopped.
const (
	erasedSubject = "mneme.erased"

	erasedEach = 2 * time.Second // between two questions of an edge
	erasedMost = 2048            // exchanges in a reply
	seenEach   = time.Minute     // interval at which the time an edge was last heard is written to disk
)

// carrying carries out the centre's erasures until it is closed.
type carrying struct {
	options *Options
	broker  *broker
	node    uint16
	centre  *centreClock
	stop    context.CancelFunc
	done    chan struct{}
}

func carryOut(ctx context.Context, s *Shipper) *carrying {
	ctx, stop := context.WithCancel(context.WithoutCancel(ctx))
	c := &carrying{options: &s.options, broker: s.broker, node: s.node, centre: &s.centre, stop: stop, done: make(chan struct{})}
	go c.run(ctx)
	return c
}

func (c *carrying) close() {
	if c != nil {
		c.stop()
		<-c.done
	}
}

func (c *carrying) run(ctx context.Context) {
	defer close(c.done)
	again := c.broker.reconnects()
	tick := time.NewTicker(erasedEach)
	defer tick.Stop()
	wanted, said := false, ""
	for ctx.Err() == nil {
		reply, err := c.ask(ctx, wanted)
		if err == nil && len(reply.Exchanges) > 0 {
			err = c.options.Carrier.Carry(ctx, reply.Exchanges, reply.UpTo)
		}
		text := ""
		if err != nil && ctx.Err() == nil && !errors.Is(err, nats.ErrNoResponders) { // there is no centre, or it does not know this question
			text = err.Error()
		}
		if text != said && text != "" {
			c.options.Log.Warn("erasures of the centre could not be carried out here; retrying", "cause", err)
		}
		said = text
		asked := wanted
		wanted = !reply.Wanted.IsZero()
		if err == nil && (len(reply.Exchanges) > 0 || wanted && !asked) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-again:
		case <-tick.C:
		}
	}
}

// errErased is returned for a reply that does not belong to the question.
var errErased = errors.New("the centre's reply about erasures does not match the question")

// ask reports how far this edge is, and asks for the erasures since.
func (c *carrying) ask(ctx context.Context, wanted bool) (reply ship.Erased, err error) {
	q := ship.ErasedQuestion{Node: c.node}
	_, _ = rand.Read(q.Nonce[:]) // never fails: crypto/rand ends the program instead
	if wanted {
		now := c.options.now()
		clean, err := c.options.Carrier.Clean(now)
		if err != nil {
			return reply, err
		}
		if ahead, known := c.centre.ahead(now); known && !clean.IsZero() {
			q.Clean = clean.Add(-ahead)
		}
	}
	if q.UpTo, err = c.options.Carrier.UpTo(); err != nil {
		return reply, err
	}
	sealed, err := q.Seal(c.options.Key)
	if err != nil {
		return reply, err
	}
	ctx, cancel := context.WithTimeout(ctx, reach)
	defer cancel()
	answer, err := c.broker.RequestWithContext(ctx, erasedSubject, sealed)
	if err != nil {
		return reply, fmt.Errorf("ask the centre for erasures: %w", err)
	}
	if reply, err = ship.OpenErased(c.options.Key, answer.Data); err == nil && reply.Nonce != q.Nonce {
		err = errErased
	}
	return reply, err
}

// edges holds what a centre knows about erasures at its edges.
type edges struct {
	erasures Erasures

	mu    sync.Mutex
	known map[uint16]*knownEdge
}

type knownEdge struct {
	record.EdgeErased
	noted time.Time // Seen on disk
}

func openEdges(erasures Erasures) (*edges, error) {
	e := &edges{erasures: erasures, known: make(map[uint16]*knownEdge)}
	err := e.read()
	return e, err
}

// read merges the state on disk, which workers write as well.
func (e *edges) read() error {
	noted, err := e.erasures.Edges()
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, edge := range noted {
		known := e.known[edge.Node]
		if known == nil {
			e.known[edge.Node] = &knownEdge{edge, edge.Seen}
			continue
		}
		if edge.Seen.After(known.Seen) {
			known.Seen, known.Gone = edge.Seen, edge.Gone
		}
		if edge.Clean.After(known.Clean) {
			known.Clean = edge.Clean
		}
	}
	return err
}

// heard notes that an edge was heard, and that it is clean up to a time; zero: it did not say.
func (e *edges) heard(ctx context.Context, node uint16, clean time.Time) error {
	if e == nil {
		return nil
	}
	now := time.Now().UTC()
	e.mu.Lock()
	edge := e.known[node]
	if edge == nil {
		edge = &knownEdge{EdgeErased: record.EdgeErased{Node: node}}
		e.known[node] = edge
	}
	news := clean.After(edge.Clean) || !edge.Gone.IsZero()
	edge.Seen, edge.Gone = now, time.Time{}
	if clean.After(edge.Clean) {
		edge.Clean = clean
	}
	noting := news || now.Sub(edge.noted) > seenEach
	if noting {
		edge.noted = now
	}
	note := edge.EdgeErased
	e.mu.Unlock()
	if !noting {
		return nil
	}
	err := e.erasures.NoteEdge(ctx, note)
	if err != nil {
		e.mu.Lock()
		defer e.mu.Unlock()
		edge.noted = time.Time{} // retry when the edge is heard next
	}
	return err
}

// wanted returns the completion time of the last erasure that the edge is not known to have carried out; zero: there is
// none.
func (e *edges) wanted(node uint16) (time.Time, error) {
	latest, err := e.erasures.Latest()
	e.mu.Lock()
	defer e.mu.Unlock()
	if edge := e.known[node]; edge != nil && edge.Clean.After(latest) {
		return time.Time{}, err
	}
	return latest, err
}

func (e *edges) list() (edges []record.EdgeErased, err error) {
	if err := e.read(); err != nil {
		return nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, edge := range e.known {
		edges = append(edges, edge.EdgeErased)
	}
	slices.SortFunc(edges, func(a, b record.EdgeErased) int { return cmp.Compare(a.Node, b.Node) })
	return edges, nil
}

// tellErased answers an edge's question about erasures.
func (c *Centre) tellErased(ctx context.Context, m *nats.Msg) {
	q, err := ship.OpenErasedQuestion(c.options.Key, m.Data)
	if err != nil {
		c.count(reasonOf(err))
		return
	}
	if err := c.answerErased(ctx, &q, m); err != nil {
		c.options.Log.Warn("an edge's question about erasures could not be answered", "node", q.Node, "cause", err)
	}
}

func (c *Centre) answerErased(ctx context.Context, q *ship.ErasedQuestion, m *nats.Msg) error {
	before := time.Now()
	page, upTo, err := c.options.Erasures.After(q.UpTo, erasedMost)
	if err != nil {
		return err
	}
	clean := q.Clean
	switch {
	case len(page) > 0:
		clean = time.Time{} // it has not carried that page out yet
	case clean.After(before): // its clock is ahead, or more was erased since
		clean = before
	}
	if err := c.edges.heard(ctx, q.Node, clean); err != nil {
		return err
	}
	reply := ship.Erased{Nonce: q.Nonce, Exchanges: page, UpTo: upTo}
	if reply.Wanted, err = c.edges.wanted(q.Node); err != nil {
		return err
	}
	sealed, err := reply.Seal(c.options.Key)
	if err != nil {
		return err
	}
	return m.Respond(sealed)
}

// Places returns the current state of an erasure at all places that may hold its exchanges. It returns none for
// erasures that nobody requested.
func (c *Centre) Places(ctx context.Context, e *record.Erasure) (places []record.ErasurePlace, err error) {
	if c.edges == nil || e.Reason != record.ErasedByRequest || e.DryRun {
		return nil, nil
	}
	edges, err := c.edges.list()
	if err != nil {
		return nil, err
	}
	done := e.State == record.ErasureDone
	add := func(name string, erased bool) *record.ErasurePlace {
		p := record.ErasurePlace{Place: name, State: record.PlaceWaiting}
		if done && erased {
			p.State = record.PlaceErased
		}
		places = append(places, p)
		return &places[len(places)-1]
	}
	add("centre", true)
	for _, edge := range edges {
		p := add("edge "+strconv.Itoa(int(edge.Node)), edge.Clean.After(e.Completed))
		p.Seen = edge.Seen
		if p.State != record.PlaceErased && !edge.Gone.IsZero() {
			p.State = record.PlaceDestroyed
		}
	}
	add("brokers", c.passedOn(ctx, e.Completed))
	kept := e.Created.Add(reasoningAge)
	if p := add("reasoning state", time.Now().After(kept)); p.State != record.PlaceErased {
		p.Until = kept
	}
	add("backups", false).State = record.PlaceNotReached
	return places, nil
}

// passedOn reports whether the brokers hold no message from before a time.
func (c *Centre) passedOn(ctx context.Context, before time.Time) bool {
	c.mu.Lock()
	stream := c.stream
	c.mu.Unlock()
	if stream == nil {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, look)
	defer cancel()
	info, err := stream.Info(ctx)
	return err == nil && (info.State.Msgs == 0 || info.State.FirstTime.After(before))
}

// DeclareDestroyed notes that an edge will not return and holds nothing any more. An edge that is heard again is no
// longer destroyed.
func (c *Centre) DeclareDestroyed(ctx context.Context, node uint16) error {
	if c.edges == nil {
		return codec.Errorf(codec.KindConflict, "this centre does not share erasures with its edges")
	}
	if err := c.edges.read(); err != nil {
		return err
	}
	c.edges.mu.Lock()
	edge := c.edges.known[node]
	if edge == nil {
		c.edges.mu.Unlock()
		return codec.Errorf(codec.KindNotFound, "this centre has never heard of edge %d", node)
	}
	edge.Gone = time.Now().UTC()
	note := edge.EdgeErased
	c.edges.mu.Unlock()
	c.options.Log.Warn("an edge was declared destroyed; erasures no longer wait for it", "node", node)
	return c.edges.erasures.NoteEdge(ctx, note)
}
