package cluster

import (
	"context"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/ship"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// forgetful is an archive that lacks what the first frame of node 1 refers to. Taking a frame of node 2, it has the
// brokers get another one first, so that as many as ever are waiting.
type forgetful struct {
	Archive
	publish func()
	lost    atomic.Bool
}

func (f *forgetful) Take(ctx context.Context, frame *ship.Frame, aside func([]shipped.Refused) error) (bool, error) {
	if frame.Node == 2 {
		f.publish()
		return false, nil
	}
	if !f.lost.Swap(true) {
		return false, shipped.ErrIncomplete
	}
	return f.Archive.Take(ctx, frame, aside)
}

func TestAnEdgeShipsAgainWhatIsMissingWhileOthersShipWithoutPause(t *testing.T) {
	broker := startBroker(t, t.TempDir(), server.RANDOM_PORT)
	o := options(t, 1, broker.ClientURL())
	edge, centre := openStore(t, t.TempDir()), openCentre(t)
	conn, busy := dial(t, broker), packetsOf(t, o.Key, 2, 1)[0]
	archive := &forgetful{Archive: centre.kept, publish: func() {
		if t.Context().Err() != nil {
			return
		}
		if _, err := conn.Request(shipSubjectOf(2), busy, timeout); err != nil {
			t.Error(err)
		}
	}}
	gathering, err := Gather(t.Context(), archive, centre.kept, catalog.RosterOf(centre.kept), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(gathering.Close)
	eventually(t, "there is a stream", func() bool { return gathering.idle(t.Context()) })
	for range 1000 { // more than are handled while the brokers are asked how far they are
		archive.publish()
	}
	for turn := range 3 {
		capture(t, edge, "acme", "c", turn, "an answer")
	}
	shipper := shipFrom(t, edge, 1, o)
	eventually(t, "all is at the centre", func() bool { return shipper.Status().Waiting == 0 && count(t, centre, "acme") == 3 })
	if shipper.Status().Resent == 0 {
		t.Error("nothing was shipped again: nothing was missing")
	}
	if n, err := gathering.Behind(t.Context()); err != nil || n == 0 {
		t.Errorf("the other edge paused: %d messages wait (%v)", n, err)
	}
}
