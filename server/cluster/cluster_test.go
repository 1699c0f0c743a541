package cluster

import (
	"bytes"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// timeout is how long a test waits for something that is to happen soon; only a failure takes that long.
const timeout = time.Minute

// startBroker runs a broker with JetStream in this process.
func startBroker(t *testing.T, dir string, port int) *server.Server {
	t.Helper()
	s, err := server.NewServer(&server.Options{
		Host: "127.0.0.1", Port: port, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true, SyncAlways: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	if !s.ReadyForConnections(timeout) {
		t.Fatal("the broker does not start")
	}
	t.Cleanup(func() { s.Shutdown(); s.WaitForShutdown() })
	return s
}

// dial connects to a broker as somebody who is no node.
func dial(t *testing.T, broker *server.Server) *nats.Conn {
	t.Helper()
	conn, err := nats.Connect(broker.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(conn.Close)
	return conn
}

func options(t *testing.T, seed byte, urls ...string) Options {
	t.Helper()
	key, err := ship.NewKey(bytes.Repeat([]byte{seed}, ship.KeySize))
	if err != nil {
		t.Fatal(err)
	}
	return Options{NATS: urls, Key: key, Log: slog.New(slog.NewTextHandler(logTo{t}, &slog.HandlerOptions{Level: slog.LevelInfo}))}
}

// logTo writes what nodes log to the log of the test, until that has ended.
type logTo struct{ t *testing.T }

func (l logTo) Write(line []byte) (int, error) {
	if l.t.Context().Err() == nil {
		l.t.Log(strings.TrimSpace(string(line)))
	}
	return len(line), nil
}

func openStore(t *testing.T, dir string) *store.Store {
	t.Helper()
	s, err := store.Open(store.Options{Dir: dir, MasterKey: bytes.Repeat([]byte{1}, 32), Digest: digest.Exchange, Stream: digest.Stream})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // once more
	if len(s.Accounts().List()) == 0 {
		if _, err := s.Accounts().Create("acme"); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// capture puts one turn of a conversation on record.
func capture(t *testing.T, s *store.Store, account, chatKey string, turn int, answer string) (id string) {
	t.Helper()
	id, err := stored(t.Context(), s, account, chatKey, turn, answer)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func shipFrom(t *testing.T, s *store.Store, node uint16, o Options) *Shipper {
	t.Helper()
	shipper, err := Ship(t.Context(), s.Shipping(), node, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(shipper.Close)
	return shipper
}

// centreNode is the data directory of a centre, with its memory in Postgres.
type centreNode struct {
	*store.Store
	kept *catalog.Catalog
}

// Archive returns the memory in Postgres.
func (c *centreNode) Archive() *catalog.Catalog { return c.kept }

// openCentre opens a centre with an account, in a database of its own.
func openCentre(t *testing.T) *centreNode {
	t.Helper()
	c := openCentreIn(t, postgrestest.Shared(t).Memory(t))
	if _, err := c.Accounts().Create("acme"); err != nil {
		t.Fatal(err)
	}
	return c
}

func openCentreIn(t *testing.T, database string) *centreNode {
	t.Helper()
	s, err := store.Open(store.Options{Dir: t.TempDir(), MasterKey: bytes.Repeat([]byte{1}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	kept, err := openCatalog(s, database, "", catalog.Seat{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(kept.Close)
	return &centreNode{s, kept}
}

func gatherIn(t *testing.T, node *centreNode, o Options) *Centre {
	t.Helper()
	o.Aside = catalog.AsideOf(node.kept)
	c, err := Gather(t.Context(), node.kept, node.kept, catalog.RosterOf(node.kept), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// eventually waits until a condition holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(timeout); !holds(); {
		if time.Now().After(deadline) {
			t.Fatalf("it does not come about that %s", what)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func count(t *testing.T, centre *centreNode, account string) int {
	t.Helper()
	page, err := centre.kept.Exchanges(account, record.ExchangeQuery{Limit: 1000})
	if err != nil {
		t.Fatal(err)
	}
	return len(page.Data)
}

func TestWhatTwoEdgesRecordIsAtTheCentre(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	one, two, centre := openStore(t, t.TempDir()), openStore(t, t.TempDir()), openCentre(t)
	early := capture(t, one, "acme", "c1", 0, "before the edge was one")
	shippers := []*Shipper{shipFrom(t, one, 1, o), shipFrom(t, two, 2, o)}
	gathering := gatherIn(t, centre, o)

	first := capture(t, one, "acme", "c2", 0, "answer 0")
	eventually(t, "the first edge is through", func() bool { return shippers[0].Status().Waiting == 0 })
	second := capture(t, two, "acme", "c2", 1, strings.Repeat("a long answer ", 200_000))
	eventually(t, "both edges are through", func() bool { return shippers[0].Status().Waiting == 0 && shippers[1].Status().Waiting == 0 })

	for id, from := range map[string]*store.Store{early: one, first: one, second: two} {
		want, err := from.Archive().Exchange("acme", id)
		if err != nil {
			t.Fatal(err)
		}
		got, err := centre.Archive().Exchange("acme", id)
		if err != nil || !bytes.Equal(got.RawRequest, want.RawRequest) || !bytes.Equal(got.RawResponse, want.RawResponse) {
			t.Errorf("%s is not at the centre as it was recorded (%v)", id, err)
		}
	}
	page, err := centre.Archive().Sessions("acme", record.SessionQuery{ChatKey: "c2"})
	if err != nil || len(page.Data) != 1 || page.Data[0].Exchanges != 2 {
		t.Errorf("the conversation over both edges is %+v (%v)", page.Data, err)
	}
	if status := gathering.Status(); status.Exchanges != 3 || !status.Connected || status.Problem != "" || status.Aside != 0 {
		t.Errorf("the centre says %+v", status)
	}
	if status := shippers[0].Status(); !status.Connected || status.Problem != "" || status.Confirmed.IsZero() || !status.Oldest.IsZero() {
		t.Errorf("the edge says %+v", status)
	}
}

func TestAnOutageIsOutlasted(t *testing.T) {
	for _, away := range []string{"brokers", "centre"} {
		t.Run(away, func(t *testing.T) {
			brokerDir := t.TempDir()
			broker := startBroker(t, brokerDir, server.RANDOM_PORT)
			port := broker.Addr().(*net.TCPAddr).Port
			o := options(t, 1, broker.ClientURL())
			edge, centre := openStore(t, t.TempDir()), openCentre(t)
			gathering := gatherIn(t, centre, o)
			shipper := shipFrom(t, edge, 1, o)
			capture(t, edge, "acme", "c", 0, "before")
			eventually(t, "it arrives", func() bool { return shipper.Status().Waiting == 0 })

			if away == "brokers" {
				broker.Shutdown()
				broker.WaitForShutdown()
			} else {
				gathering.Close()
			}
			for n := range 20 {
				capture(t, edge, "acme", "c", n+1, "meanwhile")
			}
			eventually(t, "the edge says so", func() bool {
				status := shipper.Status()
				return status.Waiting == 20 && !status.Oldest.IsZero() && (status.Problem != "" || away == "centre" && status.Frames > 1)
			})
			if away == "brokers" {
				startBroker(t, brokerDir, port)
			} else {
				gatherIn(t, centre, o)
			}
			eventually(t, "all is at the centre", func() bool { return shipper.Status().Waiting == 0 && count(t, centre, "acme") == 21 })
			eventually(t, "the edge says that it is over", func() bool { return shipper.Status().Problem == "" })
		})
	}
}

// What brokers hold may be lost at any time: the edge has it.
func TestBrokersThatForgetLoseNothing(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	edge, centre := openStore(t, t.TempDir()), openCentre(t)
	gathering := gatherIn(t, centre, o)
	shipper := shipFrom(t, edge, 1, o)
	capture(t, edge, "acme", "c", 0, "a")
	eventually(t, "it arrives", func() bool { return shipper.Status().Waiting == 0 })
	gathering.Close()
	for n := range 5 {
		capture(t, edge, "acme", "c", n+1, "lost by the brokers")
	}
	conn := dial(t, broker)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the brokers have it", func() bool {
		stream, err := js.Stream(t.Context(), streamName)
		return err == nil && stream.CachedInfo().State.LastSeq > 1 && shipper.Status().Frames > 1
	})
	if _, err := conn.Request("$JS.API.STREAM.PURGE."+streamName, nil, timeout); err != nil {
		t.Fatal(err)
	}
	gatherIn(t, centre, o)
	eventually(t, "all is at the centre", func() bool { return shipper.Status().Waiting == 0 && count(t, centre, "acme") == 6 })
	if shipper.Status().Resent == 0 {
		t.Error("nothing was sent again: the brokers had not lost anything")
	}
}

// A stream that is deleted under a running centre is made again, and edges ship again what it held.
func TestACentreMakesAStreamAgainThatIsDeleted(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	edge, centre := openStore(t, t.TempDir()), openCentre(t)
	gathering := gatherIn(t, centre, o)
	shipper := shipFrom(t, edge, 1, o)
	conn := dial(t, broker)
	for turn := range 2 {
		capture(t, edge, "acme", "c", turn, "a")
		eventually(t, "it arrives", func() bool { return shipper.Status().Waiting == 0 && count(t, centre, "acme") == turn+1 })
		if _, err := conn.Request("$JS.API.STREAM.DELETE."+streamName, nil, timeout); err != nil {
			t.Fatal(err)
		}
	}
	gathering.Close()
}

func TestWhatIsNotBelievedIsKeptAsideAndNothingStopsBehindIt(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	edge, centre := openStore(t, t.TempDir()), openCentre(t)
	gathering := gatherIn(t, centre, o)
	eventually(t, "the stream is there", func() bool { return broker.NumSubscriptions() > 0 && gathering.idle(t.Context()) })

	forged := (&ship.Frame{Node: 9, Last: 1}).Packets(options(t, 2).Key, ship.KindPacket, 100)[0]
	good := (&ship.Frame{Node: 9, Last: 1}).Packets(o.Key, ship.KindPacket, 100)[0]
	later := bytes.Clone(good)
	later[4]++
	conn := dial(t, broker)
	for _, message := range [][]byte{forged, good[:len(good)-1], later, nil, o.Key.Seal(ship.KindPacket, []byte("no packet"))} {
		if err := conn.Publish(shipSubjectOf(9), message); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := edge.Accounts().Create("unknown"); err != nil {
		t.Fatal(err)
	}
	shipper := shipFrom(t, edge, 1, o)
	stray := capture(t, edge, "unknown", "c", 0, "of an account that the centre does not have")
	id := capture(t, edge, "acme", "c", 0, "behind it")
	eventually(t, "the edge is through", func() bool { return shipper.Status().Waiting == 0 })
	if _, err := centre.Archive().Exchange("acme", id); err != nil {
		t.Error(err)
	}
	status := gathering.Status()
	for reason, want := range map[string]int64{refusedSignature: 3, refusedVersion: 1, refusedMalformed: 1, refusedAccount: 1} {
		if status.Refused[reason] != want {
			t.Errorf("refused for %s: %d, want %d", reason, status.Refused[reason], want)
		}
	}
	if status.Aside != 1 {
		t.Errorf("%d entries are aside", status.Aside)
	}

	// Once what was in its way is gone, it is taken.
	if _, err := centre.Accounts().Create("unknown"); err != nil {
		t.Fatal(err)
	}
	gathering.Close()
	gathering = gatherIn(t, centre, o)
	eventually(t, "the entry is taken", func() bool {
		_, err := centre.Archive().Exchange("unknown", stray)
		return err == nil && gathering.Status().Aside == 0
	})
}

func TestNodesWithDifferentKeysDoNotMix(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	edge, centre := openStore(t, t.TempDir()), openCentre(t)
	gatherIn(t, centre, options(t, 1, broker.ClientURL()))
	shipper := shipFrom(t, edge, 1, options(t, 2, broker.ClientURL()))
	capture(t, edge, "acme", "c", 0, "a")
	eventually(t, "the edge says why", func() bool { return strings.Contains(shipper.Status().Problem, errRefused.Error()) })
	if n := count(t, centre, "acme"); n != 0 || shipper.Status().Waiting != 1 {
		t.Errorf("the centre took %d", n)
	}
}

func TestACentreDoesNotTakeWhatAnotherGathers(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	first := gatherIn(t, openCentre(t), o)
	eventually(t, "the first has its stream", func() bool { return first.idle(t.Context()) })
	second := gatherIn(t, openCentreIn(t, postgrestest.Shared(t).Database(t)), o)
	eventually(t, "the second says why", func() bool { return strings.Contains(second.Status().Problem, errOwned.Error()) })
}

func TestAStoreThatWasSetBackIsShippedAgain(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	edge := openStore(t, t.TempDir())
	shipper := shipFrom(t, edge, 1, o)
	for round := range 2 { // the second centre knows nothing of what the first has confirmed
		centre := openCentre(t)
		gathering := gatherIn(t, centre, o)
		capture(t, edge, "acme", "c", round, "a")
		eventually(t, "all of it is at the centre", func() bool { return count(t, centre, "acme") == round+1 && shipper.Status().Waiting == 0 })
		gathering.Close()
		conn, err := nats.Connect(broker.ClientURL())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Request("$JS.API.STREAM.DELETE."+streamName, nil, timeout); err != nil {
			t.Fatal(err)
		}
		conn.Close()
	}
}

func TestAnEdgeThatWasSetBackToABackupLosesNothingSince(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	dir, centre := filepath.Join(t.TempDir(), "edge"), openCentre(t)
	gatherIn(t, centre, o)
	recordAndShip := func(turns int, answer string) {
		edge := openStore(t, dir)
		for n := range turns {
			capture(t, edge, "acme", answer, n, answer)
		}
		shipper := shipFrom(t, edge, 1, o)
		eventually(t, "the edge is through", func() bool { return shipper.Status().Waiting == 0 })
		shipper.Close()
		if err := edge.Close(); err != nil {
			t.Fatal(err)
		}
	}
	recordAndShip(3, "before the backup")
	backup := filepath.Join(t.TempDir(), "backup")
	if err := os.CopyFS(backup, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	recordAndShip(5, "after the backup")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(dir, os.DirFS(backup)); err != nil {
		t.Fatal(err)
	}
	// More than the centre has confirmed of what the edge no longer knows of, and under the same numbers.
	recordAndShip(7, "since it was set back")
	if n := count(t, centre, "acme"); n != 3+5+7 {
		t.Errorf("the centre has %d exchanges, and 15 were recorded", n)
	}
}

func TestCloseEndsWithoutBrokers(t *testing.T) {
	o := options(t, 1, "nats://127.0.0.1:1")
	c := gatherIn(t, openCentre(t), o)
	shipper := shipFrom(t, openStore(t, t.TempDir()), 1, o)
	if status := c.Status(); status.Connected || status.Problem == "" {
		t.Errorf("%+v", status)
	}
	if status := shipper.Status(); status.Connected || status.Problem == "" {
		t.Errorf("%+v", status)
	}
	shipper.Close()
	c.Close()
}
