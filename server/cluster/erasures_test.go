package cluster

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
)

// holds reports whether a store has an exchange.
func holds(t *testing.T, s *store.Store, id string) bool {
	t.Helper()
	_, err := s.Archive().Exchange("acme", id)
	if err != nil && codec.AsError(err, "").Kind != codec.KindNotFound {
		t.Error(err)
	}
	return err == nil
}

func holdsAny(t *testing.T, s *store.Store, ids ...string) bool {
	t.Helper()
	for _, id := range ids {
		if holds(t, s, id) {
			return true
		}
	}
	return false
}

// eraseConversation erases at a centre what it knows of a conversation, and gives the receipt.
func eraseConversation(t *testing.T, centre *store.Store, chatKey string) (receipt func() *store.Erasure) {
	t.Helper()
	page, err := centre.Archive().Sessions("acme", store.SessionQuery{ChatKey: chatKey})
	if err != nil || len(page.Data) != 1 {
		t.Fatalf("the conversation is %+v (%v)", page.Data, err)
	}
	asked, err := centre.Archive().Erase(t.Context(), "acme", store.Selection{Sessions: []string{page.Data[0].ID}}, false)
	if err != nil {
		t.Fatal(err)
	}
	receipt = func() *store.Erasure {
		e, err := centre.Archive().Erasure("acme", asked.ID)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	eventually(t, "the centre has erased it", func() bool { return receipt().State == store.ErasureDone })
	return receipt
}

func TestAnErasureReachesEveryEdgeAndNothingComesBack(t *testing.T) {
	broker, dir := startBroker(t, t.TempDir(), server.RANDOM_PORT), t.TempDir()
	centre, one, two := openStore(t, dir), openStore(t, t.TempDir()), openStore(t, t.TempDir())
	central := options(t, 1, broker.ClientURL())
	central.Erasures = centre.Erased()
	gathering := gatherIn(t, centre, dir, central)
	join := func(s *store.Store, node uint16) *Edge {
		own := options(t, 1, broker.ClientURL())
		own.Carrier = s.Erased()
		return joinFrom(t, s, node, 0, own)
	}
	shipped := func(e *Edge) func() bool { return func() bool { return e.Status().Waiting == 0 } }
	first, second := join(one, 1), join(two, 2)

	onOne := capture(t, one, "acme", "erased", 0, "an answer")
	eventually(t, "the first edge is through", shipped(first))
	onTwo := capture(t, two, "acme", "erased", 1, "an answer")
	kept := capture(t, one, "acme", "kept", 0, "an answer")
	eventually(t, "both edges are through", func() bool { return shipped(first)() && shipped(second)() })

	second.Close() // and goes on alone
	alone := capture(t, two, "acme", "erased", 2, "an answer that the centre has never seen")
	slow, err := begin(t.Context(), two, "acme", "erased", 3, "an answer that goes on meanwhile")
	if err != nil {
		t.Fatal(err)
	}
	receipt := eraseConversation(t, centre, "erased")
	place := func(name string) store.ErasurePlace {
		for _, p := range gathering.Places(t.Context(), receipt()) {
			if p.Place == name {
				return p
			}
		}
		t.Fatalf("the receipt names no %s: %+v", name, gathering.Places(t.Context(), receipt()))
		return store.ErasurePlace{}
	}
	eventually(t, "the edge that is there has erased it, and the receipt says so", func() bool {
		return !holds(t, one, onOne) && place("edge 1").State == store.PlaceErased
	})
	if !holds(t, one, kept) || !holds(t, centre, kept) {
		t.Error("another conversation is erased as well")
	}
	if p := place("edge 2"); p.State != store.PlaceWaiting || p.Seen.IsZero() {
		t.Errorf("of the edge that is away the receipt says %+v", p)
	}
	if err := gathering.DeclareDestroyed(t.Context(), 2); err != nil || place("edge 2").State != store.PlaceDestroyed {
		t.Errorf("of an edge that will not return the receipt says %+v (%v)", place("edge 2"), err)
	}
	if err := gathering.DeclareDestroyed(t.Context(), 9); codec.AsError(err, "").Kind != codec.KindNotFound {
		t.Errorf("an edge that there never was: %v", err)
	}

	second = join(two, 2)
	later := capture(t, two, "acme", "erased", 4, "an answer since")
	eventually(t, "the edge that was away has erased what it had", func() bool {
		return shipped(second)() && !holdsAny(t, two, onTwo, alone)
	})
	if place("edge 2").State == store.PlaceErased {
		t.Error("the receipt says that an edge has erased what goes on there")
	}
	if err := finish(t.Context(), slow); err != nil {
		t.Fatal(err)
	}
	eventually(t, "it has erased all of it, and the receipt says so", func() bool {
		return shipped(second)() && !holds(t, two, slow.ID()) && place("edge 2").State == store.PlaceErased
	})
	if holdsAny(t, centre, onOne, onTwo, alone, slow.ID()) {
		t.Error("the edge has brought back what was erased")
	}
	if !holds(t, two, later) || !holds(t, centre, later) {
		t.Error("the conversation does not go on")
	}
	if e := receipt(); e.Exchanges != 2 || e.Late != 2 {
		t.Errorf("the receipt is %+v", e)
	}
	eventually(t, "the brokers have nothing of it", func() bool { return place("brokers").State == store.PlaceErased })
	if place("centre").State != store.PlaceErased || place("backups").State != store.PlaceNotReached || place("reasoning state").Until.Before(time.Now()) {
		t.Errorf("the receipt says %+v", gathering.Places(t.Context(), receipt()))
	}

	// A centre that is started again knows all of it.
	gathering.Close()
	gathering = gatherIn(t, centre, dir, central)
	if place("edge 1").State != store.PlaceErased || place("edge 2").State != store.PlaceErased {
		t.Errorf("after a restart the receipt says %+v", gathering.Places(t.Context(), receipt()))
	}
}
