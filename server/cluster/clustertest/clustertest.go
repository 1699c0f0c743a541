// Package clustertest builds clusters in which edges record and a centre keeps, so that they can be tested against the
// demands of package storetest on a memory. Brokers, edges and shipping are real; the test provides the centre.
package clustertest

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
	"github.com/mnemeproxy/mneme/store/storetest"
)

// timeout bounds the wait for something that normally happens quickly; only a failure takes that long.
const timeout = time.Minute

// Archive is what a centre keeps and reads.
type Archive interface {
	storetest.Reader
	storetest.Searcher
	storetest.Editor
	storetest.Describer
	storetest.Teller
	cluster.Answers
	Export(ctx context.Context, account string, sel record.Selection) iter.Seq2[record.Exported, error]
}

// Centre is the node behind the brokers. It has the accounts of package storetest.
type Centre struct {
	Arrivals cluster.Archive
	Archive  Archive
	Roster   cluster.Roster
	Erasures cluster.Erasures
	Recall   recall.Engine

	Summaries storetest.Summaries
}

// Gather starts taking what edges ship. It ends with the test, unless it is closed before.
func (c *Centre) Gather(t *testing.T, o cluster.Options) *cluster.Centre {
	t.Helper()
	o.Erasures = c.Erasures
	gathering, err := cluster.Gather(t.Context(), c.Arrivals, c.Archive, c.Roster, o)
	check(t, err)
	t.Cleanup(gathering.Close)
	return gathering
}

// streams is the number of those that a centre has its brokers make: of what edges ship, and of two buckets.
const streams = 3

// edges is the number of edges: turns of a conversation alternate between them.
const edges = 2

// Memory is a cluster. Its edges record in turn; reads go to the centre, once the edges have shipped everything.
type Memory struct {
	Archive
	t       *testing.T
	engines []*engine.Engine
	joined  []*cluster.Edge

	mu   sync.Mutex
	next int            // edge that records next
	last int64          // millisecond in which the last exchange began
	open map[string]int // open exchanges, and the edges that record them
}

// Over builds a cluster around a centre. It ends with the test.
func Over(t *testing.T, c Centre) *Memory {
	t.Helper()
	key, err := ship.NewKey(bytes.Repeat([]byte{1}, ship.KeySize))
	check(t, err)
	broker := startBroker(t)
	o := cluster.Options{NATS: []string{broker.ClientURL()}, Key: key, Log: logOf(t)}
	c.Gather(t, o)
	m := &Memory{Archive: c.Archive, t: t, open: make(map[string]int)}
	m.eventually("the centre has its streams", func() bool { // edges that miss one look again a second later
		made, err := broker.Jsz(nil)
		return err == nil && made.Streams == streams
	})
	for n := range edges {
		number := uint16(n + 1)
		e := openEngine(t, number)
		on := o
		on.Carrier = e.Erased()
		joined, err := cluster.Join(t.Context(), e.Shipping(), e.Archive(), e.Roster(), number, 0, on)
		check(t, err)
		t.Cleanup(joined.Close)
		m.engines, m.joined = append(m.engines, e), append(m.joined, joined)
	}
	for _, e := range m.engines {
		m.eventually("the edges have the accounts of the centre", func() bool {
			return len(e.Accounts().List()) == len(storetest.Accounts())
		})
	}
	return m
}

// Begin records at the next edge, each time in a new millisecond: ids are ordered by clock.
func (m *Memory) Begin(ctx context.Context, o *record.Opening) (store.Recording, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for time.Now().UnixMilli() <= m.last {
		time.Sleep(100 * time.Microsecond)
	}
	m.last = time.Now().UnixMilli()
	edge := m.next
	m.next = (m.next + 1) % len(m.engines)
	r, err := m.engines[edge].Begin(ctx, o)
	if err != nil {
		return nil, err
	}
	m.open[r.ID()] = edge
	return &recording{r, m}, nil
}

// Off returns a recording that records nothing.
func (m *Memory) Off() store.Recording { return m.engines[0].Off() }

// recording tells its memory when it has ended.
type recording struct {
	store.Recording
	memory *Memory
}

func (r *recording) Finish(closing *record.Closing) error {
	err := r.Recording.Finish(closing)
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	delete(r.memory.open, r.ID())
	return err
}

// ExchangeInfo asks the recording edge while the exchange is open.
func (m *Memory) ExchangeInfo(account, id string) (*record.ExchangeInfo, error) {
	m.mu.Lock()
	edge, open := m.open[id]
	m.mu.Unlock()
	if open {
		return m.engines[edge].Archive().ExchangeInfo(account, id)
	}
	return m.shipped().ExchangeInfo(account, id)
}

// shipped returns the centre's archive once it has everything.
func (m *Memory) shipped() Archive {
	for _, e := range m.joined {
		m.eventually("the edges have shipped everything", func() bool { return e.Status().Waiting == 0 })
	}
	return m.Archive
}

// Exchange returns an exchange that the centre has.
func (m *Memory) Exchange(account, id string) (*record.Exchange, error) {
	return m.shipped().Exchange(account, id)
}

// Exchanges lists the centre's exchanges.
func (m *Memory) Exchanges(account string, q record.ExchangeQuery) (record.ExchangePage, error) {
	return m.shipped().Exchanges(account, q)
}

// Session returns a session that the centre has.
func (m *Memory) Session(account, id string) (*record.Session, error) {
	return m.shipped().Session(account, id)
}

// Sessions lists those that the centre has.
func (m *Memory) Sessions(account string, q record.SessionQuery) (record.SessionPage, error) {
	return m.shipped().Sessions(account, q)
}

// Timeline lists what the centre has of a session.
func (m *Memory) Timeline(account, session string, q record.TimelineQuery) (record.TimelinePage, error) {
	return m.shipped().Timeline(account, session, q)
}

// Erase erases at the centre.
func (m *Memory) Erase(ctx context.Context, account string, sel record.Selection, dryRun bool) (*record.Erasure, error) {
	return m.shipped().Erase(ctx, account, sel, dryRun)
}

// MergeSession merges at the centre.
func (m *Memory) MergeSession(ctx context.Context, account, from, into string) (*record.Session, error) {
	return m.shipped().MergeSession(ctx, account, from, into)
}

// SplitSession splits at the centre.
func (m *Memory) SplitSession(ctx context.Context, account, session, exchange string) (*record.Session, error) {
	return m.shipped().SplitSession(ctx, account, session, exchange)
}

// AnsweredAs asks the centre.
func (m *Memory) AnsweredAs(account, response string) (exchange string, err error) {
	return m.shipped().AnsweredAs(account, response)
}

// Export exports what the centre has.
func (m *Memory) Export(ctx context.Context, account string, sel record.Selection) iter.Seq2[record.Exported, error] {
	m.shipped()
	return m.Archive.Export(ctx, account, sel)
}

// Import imports at an edge, which ships it.
func (m *Memory) Import(ctx context.Context, account string, e record.Exported) (taken bool, err error) {
	return m.engines[0].Archive().Import(ctx, account, e)
}

// Wait waits until searches at the centre find everything that the edges have recorded.
func (m *Memory) Wait(ctx context.Context, account string) error {
	return m.shipped().Wait(ctx, account)
}

func (m *Memory) eventually(what string, holds func() bool) {
	for deadline := time.Now().Add(timeout); !holds(); {
		if time.Now().After(deadline) {
			m.t.Fatalf("timed out waiting until %s", what)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// openEngine opens the memory of a node, and closes it with the test.
func openEngine(t *testing.T, node uint16) *engine.Engine {
	t.Helper()
	e, err := engine.Open(store.Options{Dir: t.TempDir(), Node: node, MinFreeDisk: -1, MasterKey: bytes.Repeat([]byte{1}, 32), Digest: digest.Exchange}, nil)
	check(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// startBroker runs a broker with JetStream in this process.
func startBroker(t *testing.T) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	})
	check(t, err)
	s.Start()
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	if !s.ReadyForConnections(timeout) {
		t.Fatal("the broker does not start")
	}
	return s
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func logOf(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(logTo{t}, nil)) }

// logTo writes the nodes' logs to the test's log, until the test has ended.
type logTo struct{ t *testing.T }

func (l logTo) Write(line []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}
