package cluster

import (
	"bytes"
	"net"
	"os"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/ship"
)

// openNode opens a store under the master key that all nodes of these tests have, or another one.
func openNode(t *testing.T, dir string, masterKey byte) *store.Store {
	t.Helper()
	s, err := store.Open(store.Options{Dir: dir, MasterKey: bytes.Repeat([]byte{masterKey}, 32)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() }) // once more
	return s
}

func joinFrom(t *testing.T, s *store.Store, node uint16, maxAge time.Duration, o Options) *Edge {
	t.Helper()
	e, err := Join(t.Context(), s.Shipping(), s.Archive(), s.Roster(), node, maxAge, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func keyOf(t *testing.T, s *store.Store, account string) (secret, id string) {
	t.Helper()
	secret, key, err := s.Keys().Create(account, store.ScopeWrite, "")
	if err != nil {
		t.Fatal(err)
	}
	return secret, key.ID
}

// A centre reads what is published, stands still while another one takes its place, and then goes on to publish.
func TestACentreThatWasReplacedPublishesNothing(t *testing.T) {
	o := options(t, 1, startBroker(t, t.TempDir(), server.RANDOM_PORT).ClientURL())
	s := openNode(t, t.TempDir(), 1)
	if _, err := s.Accounts().Create("acme"); err != nil {
		t.Fatal(err)
	}
	var givers [2]giver
	for i := range givers {
		b, err := connect(&o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		givers[i] = giver{options: &o, broker: b, roster: s.Roster()}
		eventually(t, "a centre reads the bucket", func() bool { return givers[i].open(t.Context()) == nil })
		if i == 0 {
			if err := givers[i].giveChanges(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := givers[1].giveChanges(t.Context()); err != nil {
		t.Fatal(err)
	}
	secret, _ := keyOf(t, s, "acme")
	if err := givers[0].giveChanges(t.Context()); err == nil {
		t.Error("the one that was replaced publishes a key")
	}
	if err := givers[1].giveChanges(t.Context()); err != nil {
		t.Error(err)
	}
	edge := openNode(t, t.TempDir(), 1)
	joinFrom(t, edge, 1, 0, o)
	eventually(t, "an edge has the key", func() bool { return opens(secret, edge) })
}

// opens reports whether a key opens something on all of the nodes.
func opens(secret string, nodes ...*store.Store) bool {
	for _, s := range nodes {
		if _, err := s.Keys().Authenticate(secret); err != nil {
			return false
		}
	}
	return true
}

// opensNothing reports whether a key is refused on all of the nodes.
func opensNothing(secret string, nodes ...*store.Store) bool {
	for _, s := range nodes {
		if _, err := s.Keys().Authenticate(secret); err == nil {
			return false
		}
	}
	return true
}

func TestKeysAreMadeAndRevokedAtTheCentreForAllEdges(t *testing.T) {
	brokerDir := t.TempDir()
	broker := startBroker(t, brokerDir, server.RANDOM_PORT)
	port := broker.Addr().(*net.TCPAddr).Port
	o := options(t, 1, broker.ClientURL())
	centre, one, two := openCentre(t), openNode(t, t.TempDir(), 1), openNode(t, t.TempDir(), 1)
	gathering := gatherIn(t, centre, o)
	edge := joinFrom(t, one, 1, 0, o)
	joinFrom(t, two, 2, 0, o)

	secret, id := keyOf(t, centre.Store, "acme")
	eventually(t, "the key opens both edges", func() bool { return opens(secret, one, two) })
	if err := centre.Keys().Revoke(id); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it does so no more", func() bool { return opensNothing(secret, one, two) })

	// While the brokers are away edges go on with what they have; then what was missed comes. Brokers that have lost their
	// disks get it again.
	for _, disk := range []string{"kept", "lost"} {
		first, firstID := keyOf(t, centre.Store, "acme")
		eventually(t, "the key opens both edges", func() bool { return opens(first, one, two) })
		broker.Shutdown()
		broker.WaitForShutdown()
		if disk == "lost" {
			if err := os.RemoveAll(brokerDir); err != nil {
				t.Fatal(err)
			}
		}
		second, _ := keyOf(t, centre.Store, "acme")
		if err := centre.Keys().Revoke(firstID); err != nil {
			t.Fatal(err)
		}
		if !opens(first, one, two) {
			t.Error("an edge without brokers forgets its keys")
		}
		broker = startBroker(t, brokerDir, port)
		eventually(t, "what was made meanwhile opens both edges, and what was revoked does not", func() bool {
			return opens(second, one, two) && opensNothing(first, one, two)
		})
	}

	// The edge goes on without the centre, and says since when.
	last, _ := keyOf(t, centre.Store, "acme")
	eventually(t, "the key opens both edges", func() bool { return opens(last, one, two) })
	gathering.Close()
	if status := edge.Status(); status.Identity.Heard.IsZero() || status.Identity.Problem != "" {
		t.Errorf("the edge says %+v", *status.Identity)
	}
	if !opens(last, one, two) {
		t.Error("edges forget their keys without the centre")
	}
}

func TestAnEdgeBelievesItsKeysForAsLongAsItIsToldTo(t *testing.T) {
	t.Parallel()
	broker, edgeDir := startBroker(t, t.TempDir(), server.RANDOM_PORT), t.TempDir()
	o := options(t, 1, broker.ClientURL())
	centre, edge := openCentre(t), openNode(t, edgeDir, 1)
	secret, _ := keyOf(t, centre.Store, "acme")
	gathering := gatherIn(t, centre, o)
	member := joinFrom(t, edge, 1, 10*time.Second, o)
	eventually(t, "the key opens the edge", func() bool { return opens(secret, edge) })
	gathering.Close()
	eventually(t, "it does so no more", func() bool { return opensNothing(secret, edge) })
	member.Close()
	if err := edge.Close(); err != nil {
		t.Fatal(err)
	}
	edge = openNode(t, edgeDir, 1)
	joinFrom(t, edge, 1, 10*time.Second, o)
	if !opensNothing(secret, edge) {
		t.Error("a restart makes old keys young again")
	}
	gatherIn(t, centre, o)
	eventually(t, "the key opens the edge again", func() bool { return opens(secret, edge) })
}

func TestAnEdgeWithAnotherMasterKeySaysSo(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	centre, edge := openCentre(t), openNode(t, t.TempDir(), 2)
	gatherIn(t, centre, o)
	member := joinFrom(t, edge, 1, 0, o)
	eventually(t, "the edge says so", func() bool { return member.Status().Identity.Problem == store.ErrOtherMasterKey.Error() })
}

// Brokers may be written to by others.
func TestWhatTheCentreHasNotSignedIsNoKey(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	centre, edge, attacker := openCentre(t), openNode(t, t.TempDir(), 1), openNode(t, t.TempDir(), 1)
	if _, err := attacker.Accounts().Create("acme"); err != nil {
		t.Fatal(err)
	}
	gatherIn(t, centre, o)
	member := joinFrom(t, edge, 1, 0, o)
	secret, id := keyOf(t, centre.Store, "acme")
	eventually(t, "the key opens the edge", func() bool { return opens(secret, edge) })
	forged, _ := keyOf(t, attacker, "acme")

	conn := dial(t, broker)
	js, err := jetstream.New(conn)
	if err != nil {
		t.Fatal(err)
	}
	bucket, err := js.KeyValue(t.Context(), rosterBucket)
	if err != nil {
		t.Fatal(err)
	}
	entries, err := attacker.Roster().Entries()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		message := (*ship.NamedValue)(&e)
		_, err = bucket.Put(t.Context(), bucketKey(e.Name), message.Seal(options(t, 2).Key, ship.KindRoster))
		if err != nil {
			t.Fatal(err)
		}
	}
	// What the centre has signed for another name, likewise.
	signed, err := bucket.Get(t.Context(), bucketKey("key/"+id))
	if err == nil {
		_, err = bucket.Put(t.Context(), bucketKey("key/key_other"), signed.Value())
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the edge says that it does not believe it", func() bool { return member.Status().Identity.Problem != "" })
	if !opensNothing(forged, edge) || !opens(secret, edge) {
		t.Error("the edge believes what the centre has not signed")
	}
	if err := centre.Keys().Revoke(id); err != nil {
		t.Fatal(err)
	}
	eventually(t, "what the centre signs still comes", func() bool { return opensNothing(secret, edge) })
}
