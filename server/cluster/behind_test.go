package cluster

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/ship"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// full is an archive that takes nothing until it has room.
type full struct {
	Archive
	room atomic.Bool
}

func (f *full) Take(ctx context.Context, frame *ship.Frame, aside func([]shipped.Refused) error) (bool, error) {
	if !f.room.Load() {
		return false, errors.New("no room")
	}
	return f.Archive.Take(ctx, frame, aside)
}

func TestACentreSaysHowManyMessagesItHasNotTaken(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	edge, centre := openStore(t, t.TempDir()), openCentre(t)
	archive := &full{Archive: centre.kept}
	var frames atomic.Int64
	at := o
	at.Took = func(n int, _ time.Duration) { frames.Add(int64(n)) }
	gathering, err := Gather(t.Context(), archive, centre.kept, catalog.RosterOf(centre.kept), at)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gathering.Close)
	behind := func(want bool) func() bool {
		return func() bool {
			n, err := gathering.Behind(t.Context())
			return err == nil && n > 0 == want
		}
	}
	shipper := shipFrom(t, edge, 1, o)
	capture(t, edge, "acme", "c", 0, "too much")
	eventually(t, "it is behind", behind(true))
	if n := frames.Load(); n != 0 {
		t.Errorf("it reports %d frames", n)
	}
	archive.room.Store(true)
	eventually(t, "it is behind no more", behind(false))
	eventually(t, "the edge is through", func() bool { return shipper.Status().Waiting == 0 })
	if n := frames.Load(); n == 0 {
		t.Error("it reports no frame")
	}
}

// What follows the first exchange waits until it is enough for a transaction, though the brokers announce no more with any message.
func TestFramesThatFollowEachOtherAreTakenTogether(t *testing.T) {
	o := options(t, 1, startBroker(t, t.TempDir(), server.RANDOM_PORT).ClientURL())
	edge, centre := openStore(t, t.TempDir()), openCentre(t)
	at := o
	at.Gather = time.Hour
	gathering := gatherIn(t, centre, at)
	shipper := shipFrom(t, edge, 1, o)
	capture(t, edge, "acme", "c", 0, "one alone")
	eventually(t, "it does not wait", func() bool { return shipper.Status().Waiting == 0 })
	for n := range togetherEntries {
		capture(t, edge, "acme", "c", n+1, "one of many")
	}
	eventually(t, "the edge is through", func() bool { return shipper.Status().Waiting == 0 })
	if s := gathering.Status(); s.Exchanges != togetherEntries+1 || s.Tries != 2 {
		t.Errorf("%d exchanges were taken by %d transactions", s.Exchanges, s.Tries)
	}
}
