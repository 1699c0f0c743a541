// Package clustertest makes memories of which edges record and a centre keeps, so that what package storetest demands of a
// memory is demanded of a cluster. Brokers, edges and shipping are the real ones; the centre is that of a test.
package clustertest

import (
	"bytes"
	"context"
	"iter"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/ship"
	"github.com/mnemeproxy/mneme/store/storetest"
)

// timeout is how long something may take that is to happen soon; only a failure takes that long.
const timeout = time.Minute

// Archive is what a centre keeps, and reads.
type Archive interface {
	storetest.Reader
	storetest.Searcher
	storetest.Editor
	storetest.Teller
	cluster.Answers
}

// Recorder records exchanges.
type Recorder interface {
	Begin(ctx context.Context, o *store.Opening) (store.Recording, error)
}

// Centre is what stands behind the brokers. It has the accounts of package storetest.
type Centre struct {
	Arrivals cluster.Archive
	Archive  Archive
	Roster   cluster.Roster
	Erasures cluster.Erasures

	// Recorder is where the centre records beside its archive, Own is the log of that, and Carrier erases there; nil: its archive is
	// where it does.
	Recorder Recorder
	Own      cluster.Log
	Carrier  cluster.Carrier
}

// Gather has the centre begin to take what edges ship. It ends with the test, if it is not closed before.
func (c *Centre) Gather(t *testing.T, dir string, o cluster.Options) *cluster.Centre {
	t.Helper()
	o.Erasures, o.Own, o.Carrier = c.Erasures, c.Own, c.Carrier
	gathering, err := cluster.Gather(t.Context(), c.Arrivals, c.Archive, c.Roster, dir, o)
	check(t, err)
	t.Cleanup(gathering.Close)
	return gathering
}

// edges is how many there are: turns of a conversation alternate between them.
const edges = 2

// Memory is a cluster: its edges record, in turn, and what is read is the centre's, once the edges have shipped everything.
type Memory struct {
	Archive
	own     cluster.Log // the centre's
	t       *testing.T
	engines []*engine.Engine
	joined  []*cluster.Edge

	mu   sync.Mutex
	next int            // edge that records next
	last int64          // millisecond in which the last exchange began
	open map[string]int // exchanges that have not ended, and the edges that record them
}

// Cluster is a memory, and finds what that holds.
type Cluster interface {
	storetest.Memory
	storetest.Searcher
}

// Over makes a cluster with a centre. It ends with the test. It gives and takes exports if the centre's archive does.
func Over(t *testing.T, c Centre) Cluster {
	t.Helper()
	m := over(t, c)
	if transfer, can := c.Archive.(storetest.Transfer); can {
		return &transferring{m, transfer}
	}
	return m
}

func over(t *testing.T, c Centre) *Memory {
	t.Helper()
	key, err := ship.NewKey(bytes.Repeat([]byte{1}, ship.KeySize))
	check(t, err)
	o := cluster.Options{NATS: []string{startBroker(t)}, Key: key, Log: logOf(t)}
	c.Gather(t, t.TempDir(), o)
	m := &Memory{Archive: c.Archive, own: c.Own, t: t, open: make(map[string]int)}
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

// Embedded is a centre whose archive is the embedded store.
func Embedded(t *testing.T) Centre {
	t.Helper()
	e := openEngine(t, 0)
	for _, account := range storetest.Accounts() {
		_, err := e.Accounts().Create(account)
		check(t, err)
	}
	return Centre{Arrivals: e.Arrivals(), Archive: embedded{e.Archive(), e.Index()}, Roster: e.Roster(), Erasures: e.Erased()}
}

// embedded is what the embedded store reads and finds.
type embedded struct {
	engine.Archive
	engine.Index
}

// Begin records at the edge whose turn it is, in a millisecond of its own: ids are in the order of the clocks.
func (m *Memory) Begin(ctx context.Context, o *store.Opening) (store.Recording, error) {
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

// Off gives a recording of nothing.
func (m *Memory) Off() store.Recording { return m.engines[0].Off() }

// recording tells its memory when it has ended.
type recording struct {
	store.Recording
	memory *Memory
}

func (r *recording) Finish(ctx context.Context, closing *store.Closing) error {
	err := r.Recording.Finish(ctx, closing)
	r.memory.mu.Lock()
	defer r.memory.mu.Unlock()
	delete(r.memory.open, r.ID())
	return err
}

// ExchangeInfo asks the edge for what is still open.
func (m *Memory) ExchangeInfo(account, id string) (*store.ExchangeInfo, error) {
	m.mu.Lock()
	edge, open := m.open[id]
	m.mu.Unlock()
	if open {
		return m.engines[edge].Archive().ExchangeInfo(account, id)
	}
	return m.shipped().ExchangeInfo(account, id)
}

// shipped gives the centre's archive once it has everything.
func (m *Memory) shipped() Archive {
	for _, e := range m.joined {
		m.eventually("the edges have shipped everything", func() bool { return e.Status().Waiting == 0 })
	}
	if m.own != nil {
		m.eventually("the archive has what the centre has recorded", func() bool { return m.own.Confirmed() == m.own.Last() })
	}
	return m.Archive
}

// Exchange gives an exchange that the centre has.
func (m *Memory) Exchange(account, id string) (*store.Exchange, error) {
	return m.shipped().Exchange(account, id)
}

// Exchanges lists those that the centre has.
func (m *Memory) Exchanges(account string, q store.ExchangeQuery) (store.ExchangePage, error) {
	return m.shipped().Exchanges(account, q)
}

// Session gives a session that the centre has.
func (m *Memory) Session(account, id string) (*store.Session, error) {
	return m.shipped().Session(account, id)
}

// Sessions lists those that the centre has.
func (m *Memory) Sessions(account string, q store.SessionQuery) (store.SessionPage, error) {
	return m.shipped().Sessions(account, q)
}

// Timeline lists what the centre has of a session.
func (m *Memory) Timeline(account, session string, q store.TimelineQuery) (store.TimelinePage, error) {
	return m.shipped().Timeline(account, session, q)
}

// Erase erases at the centre.
func (m *Memory) Erase(ctx context.Context, account string, sel store.Selection, dryRun bool) (*store.Erasure, error) {
	return m.shipped().Erase(ctx, account, sel, dryRun)
}

// MergeSession merges at the centre.
func (m *Memory) MergeSession(ctx context.Context, account, from, into string) (*store.Session, error) {
	return m.shipped().MergeSession(ctx, account, from, into)
}

// SplitSession splits at the centre.
func (m *Memory) SplitSession(ctx context.Context, account, session, exchange string) (*store.Session, error) {
	return m.shipped().SplitSession(ctx, account, session, exchange)
}

// AnsweredAs asks the centre.
func (m *Memory) AnsweredAs(account, response string) (exchange string, err error) {
	return m.shipped().AnsweredAs(account, response)
}

// transferring is a memory whose centre gives and takes exports.
type transferring struct {
	*Memory
	centre storetest.Transfer
}

func (m *transferring) Export(ctx context.Context, account string, sel store.Selection) iter.Seq2[store.Exported, error] {
	m.shipped()
	return m.centre.Export(ctx, account, sel)
}

func (m *transferring) Import(ctx context.Context, account string, e store.Exported) (taken bool, err error) {
	return m.centre.Import(ctx, account, e)
}

// Wait waits until the centre finds all that the edges have recorded.
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

// openEngine opens the memory of a node, which closes with the test.
func openEngine(t *testing.T, node uint16) *engine.Engine {
	t.Helper()
	dir := t.TempDir()
	var index *search.Options
	if node == 0 { // the centre's
		index = &search.Options{Dir: filepath.Join(dir, "index")}
	}
	e, err := engine.Open(store.Options{Dir: dir, Node: node, MinFreeDisk: -1, MasterKey: bytes.Repeat([]byte{1}, 32), Digest: digest.Exchange}, index)
	check(t, err)
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e
}

// startBroker runs a broker with JetStream in this process, and gives its URL.
func startBroker(t *testing.T) string {
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
	return s.ClientURL()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func logOf(t *testing.T) *slog.Logger { return slog.New(slog.NewTextHandler(logTo{t}, nil)) }

// logTo writes what nodes log to the log of the test, until that has ended.
type logTo struct{ t *testing.T }

func (l logTo) Write(line []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}
