package catalog_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/enginetest"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/search"
)

// copied is a centre whose candidates are found in an engine.
type copied struct {
	*summarized
	engine *enginetest.Engine
}

// TestTheCopiesInAnEngine holds a centre to what it promises of the copies that an engine has of its turns.
func TestTheCopiesInAnEngine(t *testing.T) {
	server := postgrestest.Shared(t)
	for name, promise := range map[string]func(*testing.T, *copied){
		"searches use the engine, by words and by likeness":                    usesTheEngine,
		"searches use Postgres while the engine is away, which misses nothing": engineIsAway,
		"an earlier state that arrives late changes nothing":                   lateState,
		"a receipt waits until the engine has nothing of what is erased":       erasedThere,
		"erasures go on in Postgres while the engine does not answer":          stuckEngine,
		"a deleted account leaves nothing, also of what arrives late":          deletedAccountLeavesNoCopies,
		"an engine that was lost is filled again":                              lostEngine,
		"an engine that was off has nothing that was erased meanwhile":         offMeanwhile,
		"searches use Postgres until the engine takes a turn that it refused":  refusedTurn,
		"all copies are made again on demand":                                  copiedAgain,
	} {
		t.Run(name, func(t *testing.T) {
			engine := enginetest.New()
			s := &summarized{t: t, engine: engine}
			s.begin(server)
			promise(t, &copied{s, engine})
		})
	}
}

// copies waits until the engine has what it is to have.
func (c *copied) copies() {
	c.t.Helper()
	eventually(c.t, "the engine has all turns", func() bool { return c.count("unindexed") == 0 })
}

func (c *copied) exec(sql string) {
	c.t.Helper()
	_, err := c.db.Exec(c.t.Context(), sql)
	check(c.t, err)
}

// id returns the id of the centre.
func (c *copied) id() string {
	c.t.Helper()
	id, err := catalog.CentreOf(c.t.Context(), c.url)
	check(c.t, err)
	return id
}

// reopen opens the centre again, with the present engine.
func (c *copied) reopen() {
	c.t.Helper()
	c.centre.Close()
	c.open(true)
}

// searched returns what a search finds, and whether the engine found it.
func (c *copied) searched(query string) (ids []string, byEngine bool) {
	c.t.Helper()
	before := c.engine.Searches()
	ids, answer := c.finds(c.centre, search.Request{Query: query})
	degraded := slices.ContainsFunc(answer.Degraded, func(note string) bool { return strings.HasPrefix(note, "search engine: ") })
	byEngine = c.engine.Searches() > before
	if byEngine && degraded {
		c.t.Errorf("the engine finds %q, and the answer says %q", query, answer.Degraded)
	}
	return ids, byEngine && !degraded
}

// wants checks what a search finds, once the engine finds it or Postgres does.
func (c *copied) wants(byEngine bool, query string, want ...string) {
	c.t.Helper()
	eventually(c.t, "a search uses what it should", func() bool {
		ids, by := c.searched(query)
		if slices.Sort(ids); !slices.Equal(ids, want) {
			c.t.Fatalf("a search for %q finds %q, want %q; by the engine: %v", query, ids, want, by)
		}
		return by == byEngine
	})
}

func usesTheEngine(t *testing.T, c *copied) {
	car, _ := c.say("one", "the car is red")
	bread, _ := c.say("two", "the bread is fresh")
	c.embeds(c.centre, &topics{identity: "topics"})
	c.copies()
	c.wants(true, "red", car)
	c.wants(true, "fresh", bread)
	ids, answer := c.finds(c.centre, search.Request{Query: "automobile", Mode: search.Vector})
	if len(ids) == 0 || ids[0] != car || len(answer.Degraded) > 0 {
		t.Errorf("the engine finds %q by likeness, want %s first; degraded: %q", ids, car, answer.Degraded)
	}
}

func engineIsAway(_ *testing.T, c *copied) {
	before, _ := c.say("one", "the first lighthouse")
	c.wants(true, "lighthouse", before)
	c.engine.Away(true)
	c.wants(false, "lighthouse", before)
	after, _ := c.say("two", "the second lighthouse")
	c.wants(false, "lighthouse", before, after)
	c.engine.Away(false)
	c.wants(true, "lighthouse", before, after)
}

func lateState(t *testing.T, c *copied) {
	c.say("one", "something before")
	c.copies()
	release := c.engine.Hold()
	t.Cleanup(release) // before the centre is closed, which waits for it
	id := askIn(t, c.edge, "acme", "two", "an anchor")
	c.ship()
	eventually(t, "the centre sends the turn", func() bool { return c.count("unindexed where claimed is not null") == 1 })
	c.exec("update mneme.unindexed set claimed = null") // as if it had died
	worker, err := catalog.Open(t.Context(), catalog.Options{URL: c.url, Centre: c.id(), Engine: c.engine, Digest: digest.Exchange})
	check(t, err)
	eventually(t, "a worker sends the turn", func() bool { return c.engine.Has(id) })
	c.erase(store.Selection{Exchanges: []string{id}})
	worker.Close()
	release()
	c.say("three", "something after")
	c.copies() // the centre sends one change after the other
	if c.engine.Has(id) {
		t.Error("the engine has an erased turn again")
	}
}

func stuckEngine(t *testing.T, c *copied) {
	gone, _ := c.say("one", "the secret anchor")
	later, _ := c.say("two", "the second anchor")
	c.copies()
	waits, release := c.engine.Stick()
	t.Cleanup(release)
	first, err := c.centre.Erase(t.Context(), "acme", store.Selection{Exchanges: []string{gone}}, false)
	check(t, err)
	<-waits
	second, err := c.centre.Erase(t.Context(), "acme", store.Selection{Exchanges: []string{later}}, false)
	check(t, err)
	eventually(t, "Postgres has nothing of either", func() bool { return c.count("turns") == 0 })
	for _, id := range []string{first.ID, second.ID} {
		if e, err := c.centre.Erasure("acme", id); err != nil || e.State == store.ErasureDone {
			t.Errorf("a receipt says %s before the engine has answered (%v)", e.State, err)
		}
	}
	release()
	eventually(t, "the erasures are done", func() bool {
		a, err := c.centre.Erasure("acme", first.ID)
		check(t, err)
		b, err := c.centre.Erasure("acme", second.ID)
		check(t, err)
		return a.State == store.ErasureDone && b.State == store.ErasureDone
	})
}

func erasedThere(t *testing.T, c *copied) {
	gone, _ := c.say("one", "the secret anchor")
	kept, _ := c.say("two", "the other anchor")
	second, _ := c.say("three", "the second anchor")
	c.copies()
	c.engine.Away(true)
	receipt, err := c.centre.Erase(t.Context(), "acme", store.Selection{Exchanges: []string{gone}}, false)
	check(t, err)
	eventually(t, "Postgres has nothing of it", func() bool { return c.count("turns") == 2 })
	later, err := c.centre.Erase(t.Context(), "acme", store.Selection{Exchanges: []string{second}}, false)
	check(t, err)
	eventually(t, "Postgres has nothing of a second one", func() bool { return c.count("turns") == 1 })
	c.wants(false, "anchor", kept)
	if receipt, err = c.centre.Erasure("acme", receipt.ID); err != nil || receipt.State == store.ErasureDone {
		t.Fatalf("the receipt says %s while the engine has the turn (%v)", receipt.State, err)
	}
	c.engine.Away(false)
	eventually(t, "the erasures are done", func() bool {
		first, err := c.centre.Erasure("acme", receipt.ID)
		check(t, err)
		other, err := c.centre.Erasure("acme", later.ID)
		check(t, err)
		return first.State == store.ErasureDone && other.State == store.ErasureDone
	})
	if c.engine.Has(gone) || c.engine.Has(second) || !c.engine.Has(kept) {
		t.Errorf("after the erasures the engine has the erased turns: %v and %v, and the other one: %v", c.engine.Has(gone), c.engine.Has(second), c.engine.Has(kept))
	}
}

func deletedAccountLeavesNoCopies(t *testing.T, c *copied) {
	c.say("one", "the anchor")
	c.copies()
	account, err := c.edge.Accounts().Number("acme")
	check(t, err)
	c.engine.Away(true)
	if err := c.centre.DeleteAccount(t.Context(), "acme"); err == nil {
		t.Fatal("nothing is said of the turns that the engine still has")
	}
	c.engine.Away(false)
	eventually(t, "the engine has deleted the turns", func() bool { return c.engine.Turns() == 0 && c.count("leaving where again > now()") == 1 })
	_, err = c.engine.Put(t.Context(), []catalog.Change{{Account: account, Exchange: "late", Version: 1, Turn: &catalog.Copied{Began: time.Now()}}})
	check(t, err)
	c.exec("update mneme.leaving set since = since - interval '2 hours', again = now()") // as if that time had passed
	eventually(t, "what arrived late is gone", func() bool { return c.engine.Turns() == 0 && c.count("leaving") == 0 })
}

func lostEngine(t *testing.T, c *copied) {
	id, _ := c.say("one", "the anchor")
	c.copies()
	c.engine.Lose()
	next, _ := c.say("two", "another anchor")
	c.wants(true, "anchor", id, next)
	if n := c.engine.Turns(); n != 2 {
		t.Errorf("the engine has %d turns, want 2", n)
	}
}

func offMeanwhile(t *testing.T, c *copied) {
	gone, _ := c.say("one", "the secret anchor")
	kept, _ := c.say("two", "the other anchor")
	c.copies()
	c.summarized.engine = nil
	c.reopen()
	c.erase(store.Selection{Exchanges: []string{gone}})
	if n := c.count("unindexed"); n > 0 {
		t.Errorf("%d turns are noted for an engine that is off", n)
	}
	c.summarized.engine = c.engine
	c.reopen()
	c.wants(true, "anchor", kept)
	if c.engine.Has(gone) {
		t.Error("the engine has a turn that was erased while it was off")
	}
}

func refusedTurn(t *testing.T, c *copied) {
	id, _ := c.say("one", "the anchor")
	c.copies()
	refused := askIn(t, c.edge, "acme", "two", "another anchor")
	c.engine.Refuse(refused)
	c.ship()
	eventually(t, "the engine has refused the turn", func() bool { _, n := catalog.CopiesOf(c.centre).Failures(); return n > 0 })
	c.exec("update mneme.unindexed set noted = now() - interval '1 minute'") // as if that time had passed
	c.wants(false, "anchor", id, refused)
	c.engine.Refuse("")
	c.exec("update mneme.unindexed set claimed = null")
	c.wants(true, "anchor", id, refused)
}

func copiedAgain(t *testing.T, c *copied) {
	id, _ := c.say("one", "the anchor")
	c.copies()
	account, err := c.edge.Accounts().Number("acme")
	check(t, err)
	_, err = c.engine.Put(t.Context(), []catalog.Change{{Account: account, Exchange: "stray", Version: 1, Turn: &catalog.Copied{Began: time.Now()}}})
	check(t, err)
	check(t, c.centre.Rebuild(t.Context()))
	check(t, c.centre.Wait(t.Context(), "acme"))
	c.wants(true, "anchor", id)
	if c.engine.Has("stray") {
		t.Error("the engine still has what no turn is there for")
	}
}
