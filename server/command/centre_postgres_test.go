package command

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// engineForAccounts is the store of a centre whose memory is elsewhere.
func engineForAccounts(t *testing.T) *engine.Engine {
	t.Helper()
	m, err := engine.Open(store.Options{Dir: t.TempDir(), MinFreeDisk: -1, MasterKey: bytes.Repeat([]byte{1}, 32)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}

// newCentre returns the accounts of a centre, which has one, and its memory in a database of its own.
func newCentre(t *testing.T) (*engine.Engine, *catalog.Catalog) {
	t.Helper()
	cfg := config.Default()
	cfg.Centre.Postgres = config.Secret(postgrestest.Shared(t).Database(t))
	m := engineForAccounts(t)
	kept, err := openCatalog(t.Context(), &cfg, m, nil, slog.New(slog.DiscardHandler))
	check(t, err)
	t.Cleanup(kept.Close)
	_, err = m.Accounts().Create("acme")
	check(t, err)
	return m, kept
}

func TestACentreRecallsWhatEdgesRecorded(t *testing.T) {
	m, kept := newCentre(t)
	edge := engineForAccounts(t)
	_, err := edge.Accounts().Create("acme")
	check(t, err)
	check(t, edge.Shipping().Begin(t.Context()))
	said := recordTurn(t, edge, "why does ErrLockTimeout come up?")
	frame, err := edge.Shipping().Next(t.Context(), 0)
	check(t, err)
	_, err = kept.Take(t.Context(), &frame, func([]shipped.Refused) error { return errors.New("refused") })
	check(t, err)
	check(t, kept.Wait(t.Context(), "acme"))

	own, managed := server.Over(m), admin.Over(m)
	centre{catalog: kept}.keep(&own, &managed)
	memory := recall.New(own.Recall, recall.Options{Deadline: time.Minute})
	got := memory.Recall(t.Context(), &recall.Query{Account: "acme", Project: "/home/ann", Prompt: "what about ErrLockTimeout"})
	if len(got.Hits) != 1 || got.Hits[0].Exchange != said {
		t.Fatalf("%+v is recalled, want %s", got, said)
	}
	kept.Close()
	if got := memory.Recall(t.Context(), &recall.Query{Account: "acme", Project: "/home/ann", Prompt: "what about ErrLockTimeout"}); got.Reason != recall.ReasonNoIndex {
		t.Errorf("a memory that is closed says %q", got.Reason)
	}
}

// What a process of the cluster has written about a session is shown at the centre, and written into the database.
func TestACentreWithADatabaseShowsSummariesOfItsSessions(t *testing.T) {
	cfg := config.Default()
	cfg.Centre.Postgres = config.Secret(postgrestest.Shared(t).Database(t))
	cfg.Search.Summaries.Model = "m"
	m, edge := engineForAccounts(t), engineForAccounts(t)
	kept, err := openCatalog(t.Context(), &cfg, m, nil, slog.New(slog.DiscardHandler))
	check(t, err)
	defer kept.Close()
	for _, e := range []*engine.Engine{m, edge} {
		_, err = e.Accounts().Create("acme")
		check(t, err)
	}
	check(t, edge.Shipping().Begin(t.Context()))
	said := recordTurn(t, edge, "why is the lantern broken?")
	frame, err := edge.Shipping().Next(t.Context(), 0)
	check(t, err)
	_, err = kept.Take(t.Context(), &frame, func([]shipped.Refused) error { return errors.New("refused") })
	check(t, err)
	check(t, kept.Wait(t.Context(), "acme"))

	c, own, managed := centre{catalog: kept}, server.Over(m), admin.Over(m)
	c.keep(&own, &managed)
	sessions := c.summarized(m)
	found, err := sessions.UnsummarizedSessions(t.Context(), time.Now().Add(time.Hour), func(record.AccountNumber) bool { return false })
	check(t, err)
	if len(found) != 1 {
		t.Fatalf("%+v wait for a summary, want the session that was recorded", found)
	}
	material, err := sessions.Material(found[0].Account, found[0].Session)
	check(t, err)
	if len(material.Turns) != 1 || material.Turns[0].User != "why is the lantern broken?" || material.Session.Account != "acme" {
		t.Errorf("the source for the summary is %+v", material)
	}
	if claimed, err := sessions.ClaimSession(t.Context(), found[0]); err != nil || !claimed {
		t.Fatalf("the session is not claimed (%v)", err)
	}
	check(t, sessions.KeepSessionSummary(t.Context(), "acme", found[0].Session, record.SessionSummary{Text: "of a lantern"}, nil, []string{said}))
	if shown, err := own.Archive.SessionSummary("acme", found[0].Session); err != nil || shown == nil || shown.Text != "of a lantern" {
		t.Errorf("the summary is shown as %+v (%v)", shown, err)
	}
}

// recordTurn puts a turn on record.
func recordTurn(t *testing.T, m *engine.Engine, asked string) (id string) {
	t.Helper()
	r, err := m.Begin(t.Context(), &record.Opening{
		Account: "acme", Surface: codec.Chat, Format: codec.Chat, ModelAsked: "m", ContentType: "application/json", Project: "/home/ann",
		Body: fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":%q}]}`, asked),
	})
	check(t, err)
	_, err = r.Write([]byte(`{"choices":[{"message":{"role":"assistant","content":"since it is held"}}]}`))
	check(t, err)
	check(t, r.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200}))
	return r.ID()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Only edges record: not even what a tool or an import asks for is left in the data directory of a centre.
func TestACentreRecordsNothing(t *testing.T) {
	m, kept := newCentre(t)
	own, managed := server.Over(m), admin.Over(m)
	centre{catalog: kept}.keep(&own, &managed)
	_, recorded := own.Recorder.Begin(t.Context(), &record.Opening{Account: "acme"})
	_, imported := managed.Archive.Import(t.Context(), "acme", record.Exported{Exchange: new(record.Exchange)})
	for _, err := range []error{recorded, imported} {
		if codec.AsError(err, "").Kind != codec.KindUnsupported || !strings.Contains(err.Error(), "at an edge") {
			t.Errorf("it says %v, want that an edge can", err)
		}
	}
	if err := own.Recorder.Ready(); err != nil {
		t.Errorf("it is not ready: %v", err)
	}
	if page, err := m.Archive().Exchanges("acme", record.ExchangeQuery{}); err != nil || len(page.Data) > 0 {
		t.Errorf("the data directory has %+v (%v)", page.Data, err)
	}
}

// The data directory of a server is no data directory of a centre, and the other way round.
func TestADataDirectoryIsOfACentreOrOfAServer(t *testing.T) {
	cfg := config.Default()
	cfg.Centre.Postgres = config.Secret(postgrestest.Shared(t).Database(t))
	recorded, m := engineForAccounts(t), engineForAccounts(t)
	check(t, ownAccounts(&cfg, recorded))
	if _, err := openCatalog(t.Context(), &cfg, recorded, nil, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), "mneme centre adopt") {
		t.Errorf("a centre starts with what a server has recorded: %v", err)
	}
	kept, err := openCatalog(t.Context(), &cfg, m, nil, slog.New(slog.DiscardHandler))
	check(t, err)
	kept.Close()
	if err := ownAccounts(&cfg, m); err == nil || !strings.Contains(err.Error(), "--data") {
		t.Errorf("a server starts with the data directory of a centre: %v", err)
	}
}
