package catalog_test

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/ship"
)

// A conversation's turns come from two edges. Two centres keep each frame of both at the same time, in the same database.
func TestCentresThatWorkOnOneDatabaseDoubleNothing(t *testing.T) {
	const turns = 12
	accounts := openEngine(t, 0)
	url := postgrestest.Shared(t).Memory(t)
	centres := []*catalog.Catalog{openCatalog(t, accounts, url), openCatalog(t, accounts, url)}
	edges := []*engine.Engine{openEngine(t, 1), openEngine(t, 2)}
	for _, e := range edges {
		if err := e.Shipping().Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	frames := make([][]ship.Frame, len(edges))
	for turn := range turns {
		n := turn % len(edges)
		stored(t, edges[n], turn)
		after := uint64(0)
		if shipped := frames[n]; len(shipped) > 0 {
			after = shipped[len(shipped)-1].Last
		}
		f, err := edges[n].Shipping().Next(t.Context(), after)
		if err != nil || len(f.Entries) != 1 {
			t.Fatalf("turn %d is a frame of %d entries (%v)", turn, len(f.Entries), err)
		}
		frames[n] = append(frames[n], f)
	}
	var taking sync.WaitGroup
	for _, c := range centres {
		for _, log := range frames {
			taking.Go(func() {
				for i := range log {
					for mark := uint64(0); mark < log[i].Last; {
						if _, err := c.Take(t.Context(), &log[i], noneAside); err != nil {
							t.Error(err)
							return
						}
						at, err := c.Mark(log[i].Log)
						if err != nil {
							t.Error(err)
							return
						}
						mark = at.Mark
					}
				}
			})
		}
	}
	taking.Wait()

	page, err := centres[0].Sessions("acme", record.SessionQuery{Limit: 10})
	if err != nil || len(page.Data) != 1 {
		t.Fatalf("one conversation is %d sessions (%v)", len(page.Data), err)
	}
	session := &page.Data[0]
	timeline, err := centres[1].Timeline("acme", session.ID, record.TimelineQuery{Limit: 100})
	if err != nil || session.Exchanges != turns || session.Completed != turns || len(timeline.Data) != turns {
		t.Errorf("of %d turns the session counts %d and %d, and has %d (%v)", turns, session.Exchanges, session.Completed, len(timeline.Data), err)
	}
	var counted int64
	count := func(_ record.RollupOf, r *record.Rollup) { counted += r.Requests }
	if err := centres[0].Rollups(t.Context(), record.RollupQuery{Account: "acme"}, count); err != nil || counted != turns {
		t.Errorf("%d exchanges are rolled up, want %d (%v)", counted, turns, err)
	}

	receipt, err := centres[0].Erase(t.Context(), "acme", record.Selection{Sessions: []string{session.ID}}, false)
	for deadline := time.Now().Add(time.Minute); err == nil && receipt.State != record.ErasureDone; time.Sleep(5 * time.Millisecond) {
		if receipt, err = centres[1].Erasure("acme", receipt.ID); time.Now().After(deadline) {
			t.Fatalf("the erasure does not end: %+v", receipt)
		}
	}
	if err != nil || receipt.Exchanges != turns || receipt.Sessions != 1 {
		t.Errorf("together they have erased %+v (%v)", receipt, err)
	}
	for _, log := range frames {
		for i := range log {
			if err := centres[0].Retry(t.Context(), &log[i].Entries[0]); err != nil {
				t.Error(err)
			}
		}
	}
	if left, err := centres[0].Exchanges("acme", record.ExchangeQuery{}); err != nil || len(left.Data) > 0 {
		t.Errorf("%d exchanges that were erased are there again (%v)", len(left.Data), err)
	}
}

// One centre digests an exchange of one account and does not come to an end. Another centre on the same database digests the
// other account meanwhile.
func TestCentresOnOneDatabaseDigestSeveralAccountsAtOnce(t *testing.T) {
	edge := openEngine(t, 0)
	if _, err := edge.Accounts().Create("other"); err != nil {
		t.Fatal(err)
	}
	if err := edge.Shipping().Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	url := postgrestest.Shared(t).Memory(t)
	begun, held := make(chan struct{}), make(chan struct{})
	begin := sync.OnceFunc(func() { close(begun) })
	first := openCatalogThat(t, edge, url, func(x *record.Exchange) (record.Digest, error) {
		begin()
		<-held
		return digest.Exchange(x)
	})
	t.Cleanup(sync.OnceFunc(func() { close(held) })) // before the first centre is closed
	take := func(account string, after uint64) uint64 {
		askAs(t, edge, account, "question")
		f, err := edge.Shipping().Next(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		if taken, err := first.Take(t.Context(), &f, noneAside); err != nil || !taken {
			t.Fatal("a frame is not taken: ", err)
		}
		return f.Last
	}
	after := take("acme", 0)
	<-begun
	take("other", after)
	second := openCatalogThat(t, edge, url, digest.Exchange)
	soon, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if err := second.Wait(soon, "other"); err != nil {
		t.Errorf("an account waits for the digest of another one: %v", err)
	}
}

// Another transaction holds a session and does not come to an end. The rest of its account, and other accounts, are digested
// meanwhile, and the session afterwards.
func TestASessionThatIsLockedHoldsUpNoOther(t *testing.T) {
	edge := openEngine(t, 0)
	if _, err := edge.Accounts().Create("other"); err != nil {
		t.Fatal(err)
	}
	if err := edge.Shipping().Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	url := postgrestest.Shared(t).Memory(t)
	idle := openCatalogThat(t, edge, url, func(*record.Exchange) (record.Digest, error) { return record.Digest{}, nil })
	after := uint64(0)
	take := func(to *catalog.Catalog, account, chatKey string) (id string) {
		id = askIn(t, edge, account, chatKey, "question")
		f, err := edge.Shipping().Next(t.Context(), after)
		if err != nil {
			t.Fatal(err)
		}
		if taken, err := to.Take(t.Context(), &f, noneAside); err != nil || !taken {
			t.Fatal("a frame is not taken: ", err)
		}
		after = f.Last
		return id
	}
	first := take(idle, "acme", "a")
	if err := idle.Wait(t.Context(), "acme"); err != nil {
		t.Fatal(err)
	}
	x, err := idle.Exchange("acme", first)
	if err != nil {
		t.Fatal(err)
	}
	idle.Close()

	db, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	if _, err := db.Exec(t.Context(), "update mneme.exchanges set digested = false"); err != nil { // as if it had just come
		t.Fatal(err)
	}
	tx, err := db.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if tag, err := tx.Exec(t.Context(), "select from mneme.sessions where id = $1 for update", x.Session); err != nil || tag.RowsAffected() != 1 {
		t.Fatalf("the session is not locked: %v (%v)", tag, err)
	}
	c := openCatalog(t, edge, url)
	free, foreign := take(c, "acme", "b"), take(c, "other", "a")
	waiting := func(id string) (is bool) {
		t.Helper()
		if err := tx.QueryRow(t.Context(), "select not digested from mneme.exchanges where id = $1", id).Scan(&is); err != nil {
			t.Fatal(err)
		}
		return is
	}
	eventually(t, "the others are digested", func() bool { return !waiting(free) && !waiting(foreign) })
	if !waiting(first) {
		t.Error("a session is digested that another transaction holds")
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(t.Context(), "acme"); err != nil {
		t.Error(err)
	}
}

func openEngine(t *testing.T, node uint16) *engine.Engine {
	t.Helper()
	e, err := engine.Open(store.Options{Dir: t.TempDir(), Node: node, MinFreeDisk: -1, MasterKey: bytes.Repeat([]byte{1}, 32), Digest: digest.Exchange}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = e.Close() })
	if _, err := e.Accounts().Create("acme"); err != nil {
		t.Fatal(err)
	}
	return e
}

func openCatalog(t *testing.T, accounts *engine.Engine, url string) *catalog.Catalog {
	t.Helper()
	return openCatalogThat(t, accounts, url, digest.Exchange)
}

func openCatalogThat(t *testing.T, accounts *engine.Engine, url string, digests func(*record.Exchange) (record.Digest, error)) *catalog.Catalog {
	t.Helper()
	id, err := catalog.MakeCentre(t.Context(), url, store.NewCentreID())
	if err != nil {
		t.Fatal(err)
	}
	c, err := catalog.Open(t.Context(), catalog.Options{
		URL: url, Centre: id, Cache: accounts.Shared(), Retention: accounts.Archive().RetentionOf, Digest: digests,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// record has an edge record a turn of a conversation that names itself.
func stored(t *testing.T, e *engine.Engine, turn int) (id string) {
	t.Helper()
	return ask(t, e, fmt.Sprint("question ", turn))
}

// ask puts a turn on record that asks a question.
func ask(t *testing.T, e *engine.Engine, question string) (id string) {
	t.Helper()
	return askAs(t, e, "acme", question)
}

func askAs(t *testing.T, e *engine.Engine, account, question string) (id string) {
	t.Helper()
	return askIn(t, e, account, "a", question)
}

func askIn(t *testing.T, e *engine.Engine, account, chatKey, question string) (id string) {
	t.Helper()
	r, err := e.Begin(t.Context(), &record.Opening{
		Account: account, Surface: codec.Chat, Format: codec.Chat, ModelAsked: "m", ChatKey: chatKey, ContentType: "application/json",
		Body: fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":%q}]}`, question),
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.Write([]byte(`{"choices":[{"message":{"role":"assistant","content":"answer"}}]}`)); err != nil {
		t.Fatal(err)
	}
	if err := r.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200}); err != nil {
		t.Fatal(err)
	}
	return r.ID()
}
