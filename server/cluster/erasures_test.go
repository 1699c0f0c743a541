package cluster_test

import (
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/cluster"
	"github.com/mnemeproxy/mneme/server/cluster/clustertest"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// reader reads exchanges, at a centre or an edge.
type reader interface {
	Exchange(account, id string) (*record.Exchange, error)
}

// holds reports whether an exchange is there.
func holds(t *testing.T, in reader, id string) bool {
	t.Helper()
	_, err := in.Exchange("acme", id)
	if err != nil && codec.AsError(err, "").Kind != codec.KindNotFound {
		t.Error(err)
	}
	return err == nil
}

func holdsAny(t *testing.T, in reader, ids ...string) bool {
	t.Helper()
	for _, id := range ids {
		if holds(t, in, id) {
			return true
		}
	}
	return false
}

// eraseConversation erases at a centre what it knows of a conversation, and gives the receipt.
func eraseConversation(t *testing.T, centre clustertest.Archive, chatKey string) (receipt func() *record.Erasure) {
	t.Helper()
	page, err := centre.Sessions("acme", record.SessionQuery{ChatKey: chatKey})
	if err != nil || len(page.Data) != 1 {
		t.Fatalf("the conversation is %+v (%v)", page.Data, err)
	}
	asked, err := centre.Erase(t.Context(), "acme", record.Selection{Sessions: []string{page.Data[0].ID}}, false)
	if err != nil {
		t.Fatal(err)
	}
	receipt = func() *record.Erasure {
		e, err := centre.Erasure("acme", asked.ID)
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
	cluster.Eventually(t, "the centre has erased it", func() bool { return receipt().State == record.ErasureDone })
	return receipt
}

// placeIn returns what the receipt says of a place.
func placeIn(t *testing.T, c *cluster.Centre, receipt *record.Erasure, name string) record.ErasurePlace {
	t.Helper()
	places, err := c.Places(t.Context(), receipt)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range places {
		if p.Place == name {
			return p
		}
	}
	t.Fatalf("the receipt names no %s: %+v", name, places)
	return record.ErasurePlace{}
}

func TestAnErasureReachesEveryEdgeAndNothingComesBack(t *testing.T) {
	withEach(t, func(t *testing.T, open func(*testing.T) clustertest.Centre) { testErasureReachesEveryEdge(t, open(t)) })
}

func testErasureReachesEveryEdge(t *testing.T, c clustertest.Centre) {
	o := cluster.StartBroker(t)
	one, two, centre := cluster.OpenStore(t, t.TempDir()), cluster.OpenStore(t, t.TempDir()), c.Archive
	gathering := c.Gather(t, o)
	join := func(s *store.Store, node uint16) *cluster.Edge {
		own := o
		own.Carrier = s.Erased()
		return cluster.JoinFrom(t, s, node, 0, own)
	}
	shipped := func(e *cluster.Edge) func() bool { return func() bool { return e.Status().Waiting == 0 } }
	first, second := join(one, 1), join(two, 2)

	onOne := cluster.Capture(t, one, "acme", "erased", 0, "an answer")
	cluster.Eventually(t, "the first edge is through", shipped(first))
	onTwo := cluster.Capture(t, two, "acme", "erased", 1, "an answer")
	kept := cluster.Capture(t, one, "acme", "kept", 0, "an answer")
	cluster.Eventually(t, "both edges are through", func() bool { return shipped(first)() && shipped(second)() })

	second.Close() // and goes on alone
	alone := cluster.Capture(t, two, "acme", "erased", 2, "an answer that the centre has never seen")
	slow, err := cluster.Begin(t.Context(), two, "acme", "erased", 3, "an answer that goes on meanwhile")
	if err != nil {
		t.Fatal(err)
	}
	receipt := eraseConversation(t, centre, "erased")
	place := func(name string) record.ErasurePlace { return placeIn(t, gathering, receipt(), name) }
	cluster.Eventually(t, "the edge that is there has erased it, and the receipt says so", func() bool {
		return !holds(t, one.Archive(), onOne) && place("edge 1").State == record.PlaceErased
	})
	if !holds(t, one.Archive(), kept) || !holds(t, centre, kept) {
		t.Error("another conversation is erased as well")
	}
	if p := place("edge 2"); p.State != record.PlaceWaiting || p.Seen.IsZero() {
		t.Errorf("of the edge that is away the receipt says %+v", p)
	}
	if err := gathering.DeclareDestroyed(t.Context(), 2); err != nil || place("edge 2").State != record.PlaceDestroyed {
		t.Errorf("of an edge that will not return the receipt says %+v (%v)", place("edge 2"), err)
	}
	if err := gathering.DeclareDestroyed(t.Context(), 9); codec.AsError(err, "").Kind != codec.KindNotFound {
		t.Errorf("an edge that there never was: %v", err)
	}

	second = join(two, 2)
	later := cluster.Capture(t, two, "acme", "erased", 4, "an answer since")
	cluster.Eventually(t, "the edge that was away has erased what it had", func() bool {
		return shipped(second)() && !holdsAny(t, two.Archive(), onTwo, alone)
	})
	if place("edge 2").State == record.PlaceErased {
		t.Error("the receipt says that an edge has erased what goes on there")
	}
	if err := cluster.Finish(slow); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, "it has erased all of it, and the receipt says so", func() bool {
		return shipped(second)() && !holds(t, two.Archive(), slow.ID()) && place("edge 2").State == record.PlaceErased
	})
	if holdsAny(t, centre, onOne, onTwo, alone, slow.ID()) {
		t.Error("the edge has brought back what was erased")
	}
	if !holds(t, two.Archive(), later) || !holds(t, centre, later) {
		t.Error("the conversation does not go on")
	}
	if e := receipt(); e.Exchanges != 2 || e.Late != 2 {
		t.Errorf("the receipt is %+v", e)
	}
	cluster.Eventually(t, "brokers and centre have nothing of it", func() bool {
		return place("brokers").State == record.PlaceErased && place("centre").State == record.PlaceErased
	})
	if place("backups").State != record.PlaceNotReached || place("reasoning state").Until.Before(time.Now()) {
		t.Errorf("the receipt says %+v", receipt())
	}

	// A centre that is started again knows all of it.
	gathering.Close()
	gathering = c.Gather(t, o)
	if place("edge 1").State != record.PlaceErased || place("edge 2").State != record.PlaceErased {
		t.Errorf("after a restart the receipt says %+v", receipt())
	}
}

// An import brings back on purpose what began before.
func TestWhatIsImportedAfterAnErasureArrives(t *testing.T) {
	withEach(t, func(t *testing.T, open func(*testing.T) clustertest.Centre) {
		c, o := open(t), cluster.StartBroker(t)
		c.Gather(t, o)
		old, s := cluster.OpenStore(t, t.TempDir()), cluster.OpenStore(t, t.TempDir())
		edge := cluster.JoinFrom(t, s, 1, 0, o)
		id := cluster.Capture(t, old, "acme", "old", 0, "an answer")
		asked, err := c.Archive.Erase(t.Context(), "acme", record.Selection{All: true}, false)
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range old.Archive().Export(t.Context(), "acme", record.Selection{All: true}) {
			if err == nil {
				_, err = s.Archive().Import(t.Context(), "acme", e)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		cluster.Eventually(t, "the edge is through", func() bool { return edge.Status().Waiting == 0 })
		if !holds(t, c.Archive, id) {
			t.Error("it is not at the centre")
		}
		if e, err := c.Archive.Erasure("acme", asked.ID); err != nil || e.Late != 0 {
			t.Errorf("the receipt is %+v (%v)", e, err)
		}
	})
}

// skewed is an edge's memory whose clock is ahead.
type skewed struct {
	*store.Store
	ahead time.Duration
}

func (s skewed) begin(t *testing.T, chatKey string, turn int) store.Recording {
	t.Helper()
	o := cluster.Opening("acme", chatKey, turn)
	o.Started = time.Now().Add(s.ahead)
	c, err := s.Begin(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func (s skewed) capture(t *testing.T, chatKey string, turn int) (id string) {
	t.Helper()
	c := s.begin(t, chatKey, turn)
	if err := cluster.Finish(c); err != nil {
		t.Fatal(err)
	}
	return c.ID()
}

func TestErasedStaysErasedWhateverAnEdgesClockSays(t *testing.T) {
	withEach(t, func(t *testing.T, open func(*testing.T) clustertest.Centre) {
		for name, ahead := range map[string]time.Duration{"ahead": 10 * time.Minute, "right": 0, "behind": -10 * time.Minute} {
			t.Run(name, func(t *testing.T) { testErasedStaysErased(t, open(t), ahead) })
		}
	})
}

func testErasedStaysErased(t *testing.T, c clustertest.Centre, ahead time.Duration) {
	o := cluster.StartBroker(t)
	centre, s := c.Archive, skewed{cluster.OpenStore(t, t.TempDir()), ahead}
	gathering := c.Gather(t, o)
	own := cluster.WithClock(o, ahead)
	own.Carrier = s.Erased()
	edge := cluster.JoinFrom(t, s.Store, 1, 0, own)
	through := func() bool { return edge.Status().Waiting == 0 }

	first := s.capture(t, "erased", 0)
	cluster.Eventually(t, "the first turn is at the centre", through)
	edge.Close()
	before := s.capture(t, "erased", 1) // while the edge is alone
	running := s.begin(t, "erased", 2)
	receipt := eraseConversation(t, centre, "erased")
	since := s.capture(t, "erased", 3)
	edge = cluster.JoinFrom(t, s.Store, 1, 0, own)
	cluster.Eventually(t, "the edge has erased what began before", func() bool { return through() && !holdsAny(t, s.Archive(), first, before) })
	if placeIn(t, gathering, receipt(), "edge 1").State == record.PlaceErased {
		t.Error("the receipt says that an edge has erased what goes on there")
	}
	if err := cluster.Finish(running); err != nil {
		t.Fatal(err)
	}
	cluster.Eventually(t, "the receipt says that the edge has erased it", func() bool {
		return placeIn(t, gathering, receipt(), "edge 1").State == record.PlaceErased
	})
	if holdsAny(t, centre, first, before, running.ID()) || holdsAny(t, s.Archive(), running.ID()) {
		t.Error("what was erased has come back")
	}
	if !holds(t, centre, since) || !holds(t, s.Archive(), since) {
		t.Error("what began after the erasure was erased as well")
	}
	if e := receipt(); e.Late != 2 {
		t.Errorf("%d exchanges came late, want 2", e.Late)
	}
}
