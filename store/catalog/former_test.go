package catalog_test

import (
	"context"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/ship"
)

// A centre has its memory in its data directory, erases, imports some of it again, and is given a database. An edge that was away
// ships all that it has.
func TestWhatWasErasedInTheDataDirectoryStaysErasedInTheDatabase(t *testing.T) {
	centre, edge := openEngine(t, 0), openEngine(t, 1)
	if err := edge.Shipping().Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	var frames []ship.Frame
	shipped := func(turn int) (id string) {
		t.Helper()
		id = record(t, edge, turn)
		after := uint64(0)
		if len(frames) > 0 {
			after = frames[len(frames)-1].Last
		}
		f, err := edge.Shipping().Next(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		frames = append(frames, f)
		return id
	}
	erased, again := shipped(0), shipped(1)
	for i := range frames {
		if taken, err := centre.Arrivals().Take(t.Context(), &frames[i], noneAside); err != nil || !taken {
			t.Fatalf("frame %d is not taken (%v)", i, err)
		}
	}
	late := shipped(2) // which the centre never saw
	x, err := centre.Archive().ExchangeInfo("acme", erased)
	if err != nil {
		t.Fatal(err)
	}
	exported := exportedOf(t, centre, again)
	asked := eraseThere(t, centre, store.Selection{Sessions: []string{x.Session}})
	for _, e := range exported {
		if _, err := centre.Archive().Import(t.Context(), "acme", e); err != nil {
			t.Fatal(err)
		}
	}
	seen := time.Now().UTC().Truncate(time.Millisecond)
	if err := centre.Erased().NoteEdge(t.Context(), store.EdgeErased{Node: 1, Seen: seen}); err != nil {
		t.Fatal(err)
	}

	url := postgrestest.Shared(t).Database(t)
	for range 2 { // the second time it has it
		c := openCatalog(t, centre, url)
		if err := c.Erased().TakeOver(t.Context(), centre.Erased(), centre.Archive()); err != nil {
			t.Fatal(err)
		}
		deliver(t, centre, c, noneAside)
		mark, _, err := c.Mark(frames[0].Log)
		for i := range frames {
			if frames[i].Last <= mark {
				continue
			}
			if taken, failed := c.Take(t.Context(), &frames[i], noneAside); failed != nil || !taken {
				t.Fatalf("frame %d is not taken (%v)", i, failed)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]bool{erased: false, late: false, again: true} {
			if _, err := c.ExchangeInfo("acme", id); (err == nil) != want || err != nil && codec.AsError(err, "").Kind != codec.KindNotFound {
				t.Errorf("%s is there: %v, want %v (%v)", id, err == nil, want, err)
			}
		}
		receipt, err := c.Erasure("acme", asked.ID)
		if err != nil || receipt.State != store.ErasureDone || receipt.Exchanges != 2 || receipt.Late != 1 {
			t.Errorf("the receipt is %+v (%v)", receipt, err)
		}
		if edges, err := c.Erased().Edges(); err != nil || len(edges) != 1 || edges[0].Node != 1 || !edges[0].Seen.Equal(seen) {
			t.Errorf("of the edges it knows %+v (%v)", edges, err)
		}
		if latest, err := c.Erased().Latest(); err != nil || latest.Before(asked.Created) {
			t.Errorf("it asks the edges about what was erased until %v (%v)", latest, err)
		}
		if page, _, err := c.Erased().After(ship.ErasedMark{}, 10); err != nil || len(page) != 2 || page[0].Exchange != erased || page[1].Exchange != late {
			t.Errorf("edges are to erase %v (%v)", page, err)
		}
		c.Close()
	}
}

// exportedOf returns what an export has of an exchange.
func exportedOf(t *testing.T, e *engine.Engine, id string) (steps []store.Exported) {
	t.Helper()
	for step, err := range e.Archive().Export(t.Context(), "acme", store.Selection{Exchanges: []string{id}}) {
		if err != nil {
			t.Fatal(err)
		}
		steps = append(steps, step)
	}
	return steps
}

// eraseThere erases in a store, and gives the receipt when that is done.
func eraseThere(t *testing.T, e *engine.Engine, sel store.Selection) *store.Erasure {
	t.Helper()
	receipt, err := e.Archive().Erase(t.Context(), "acme", sel, false)
	for deadline := time.Now().Add(time.Minute); err == nil && receipt.State != store.ErasureDone; time.Sleep(5 * time.Millisecond) {
		if receipt, err = e.Archive().Erasure("acme", receipt.ID); time.Now().After(deadline) {
			t.Fatalf("the erasure does not end: %+v", receipt)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return receipt
}

// deliver has a catalog take all that a store has logged.
func deliver(t *testing.T, e *engine.Engine, c *catalog.Catalog, aside func([]store.Refused) error) {
	t.Helper()
	log := e.Shipping()
	if err := log.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	for {
		mark, _, err := c.Mark(log.Log())
		if err != nil {
			t.Fatal(err)
		}
		f, err := log.Next(context.WithoutCancel(t.Context()), mark)
		if err != nil {
			t.Fatal(err)
		}
		if f.Last == 0 {
			return
		}
		if taken, err := c.Take(t.Context(), &f, aside); err != nil || !taken {
			t.Fatalf("what the store has is not taken (%v)", err)
		}
	}
}
