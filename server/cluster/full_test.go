package cluster

import (
	"crypto/rand"
	"encoding/base64"
	"errors"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/mnemeproxy/mneme/store/catalog"
)

func incompressible(size int) string {
	text := make([]byte, size*3/4)
	_, _ = rand.Read(text)
	return base64.StdEncoding.EncodeToString(text)
}

// Nothing is taken, until the brokers hold as much as they may. Keys go on to be made and revoked, and nothing is lost.
func TestKeysChangeWhileTheBrokersAreFull(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	own, centre := openStore(t, t.TempDir()), openCentre(t)
	// A centre of an earlier version has made the stream, without a bound.
	before := gatherIn(t, centre, o)
	<-before.opened
	before.Close()

	archive := &full{Archive: centre.kept}
	at := o
	at.Waiting = 1 << 20
	gathering, err := Gather(t.Context(), archive, centre.kept, catalog.RosterOf(centre.kept), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gathering.Close)
	<-gathering.opened
	edge := joinFrom(t, own, 1, 0, o)
	for n := range 4 {
		capture(t, own, "acme", "c", n, incompressible(500_000))
	}
	eventually(t, "the edge says that the brokers are full", func() bool { return strings.HasPrefix(edge.Status().Problem, errFull.Error()) })
	secret, id := keyOf(t, centre.Store, "acme")
	eventually(t, "a new key opens the edge", func() bool { return opens(secret, own) })
	if err := centre.Keys().Revoke(id); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a revoked key does not", func() bool { return opensNothing(secret, own) })
	if messages, err := gathering.Behind(t.Context()); err != nil || messages == 0 {
		t.Errorf("%d messages wait (%v)", messages, err)
	}
	if s := gathering.Status().Stream; s == nil || s.Most != at.Waiting || s.Bytes == 0 || int64(s.Bytes) > s.Most {
		t.Errorf("the stream is %+v", s)
	}
	archive.room.Store(true)
	eventually(t, "all of it is at the centre", func() bool { return edge.Status().Waiting == 0 && count(t, centre, "acme") == 4 })
}

// A broker has no room for as much as is to wait there.
func TestACentreSaysThatTheBrokersHaveTooLittleRoom(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	o.Waiting = 1 << 50
	gathering := gatherIn(t, openCentre(t), o)
	eventually(t, "the centre says so", func() bool {
		return strings.Contains(gathering.Status().Problem, "cluster.waiting")
	})
	var refused *jetstream.APIError
	if _, err := gathering.openStream(t.Context()); !errors.As(err, &refused) {
		t.Errorf("the error is %v", err)
	}
}
