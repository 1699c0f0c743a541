package command

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/recall"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/engine"
)

// A centre that is given a database goes on with the receipts that it has.
func TestReceiptsMoveWithTheMemoryIntoTheDatabase(t *testing.T) {
	cfg := config.Default()
	cfg.Centre.Postgres = config.Secret(postgrestest.Start(t, false).Database(t))
	m := engineForAccounts(t)
	if _, err := m.Accounts().Create("acme"); err != nil {
		t.Fatal(err)
	}
	asked, err := m.Archive().Erase(t.Context(), "acme", store.Selection{All: true}, false)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := openCatalog(t.Context(), &cfg, m, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if _, err := kept.Erasure("acme", asked.ID); err != nil {
		t.Error(err)
	}
}

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

// What an edge recorded is only in the database. The centre's own store still has what was recalled before there was one.
func TestACentreWithADatabaseRecallsWhatEdgesRecorded(t *testing.T) {
	cfg := config.Default()
	cfg.Centre.Postgres = config.Secret(postgrestest.Start(t, false).Database(t))
	m := engineForAccounts(t)
	_, err := m.Accounts().Create("acme")
	check(t, err)
	former, place := recordTurn(t, m, "why is the lantern broken?"), store.RecollectionKey{9}
	_, err = m.Notes().Recollect(t.Context(), "acme", []store.RecollectionKey{place}, store.Recollection{Exchange: former, Text: "former"})
	check(t, err)
	kept, err := openCatalog(t.Context(), &cfg, m, slog.New(slog.DiscardHandler))
	check(t, err)
	defer kept.Close()
	edge := engineForAccounts(t)
	_, err = edge.Accounts().Create("acme")
	check(t, err)
	check(t, edge.Shipping().Begin(t.Context()))
	said := recordTurn(t, edge, "why does ErrLockTimeout come up?")
	frame, err := edge.Shipping().Next(t.Context(), 0)
	check(t, err)
	_, err = kept.Take(t.Context(), &frame, func([]store.Refused) error { return errors.New("refused") })
	check(t, err)
	check(t, kept.Wait(t.Context(), "acme"))

	own, managed := server.Over(m), admin.Over(m)
	inPostgres{catalog: kept}.keep(&own, &managed)
	memory := recall.New(own.Recall, recall.Options{Deadline: time.Minute})
	got := memory.Recall(t.Context(), &recall.Query{Account: "acme", Project: "/home/ann", Prompt: "what about ErrLockTimeout"})
	if len(got.Hits) != 1 || got.Hits[0].Exchange != said {
		t.Fatalf("%+v is recalled, want %s", got, said)
	}
	places := []store.RecollectionKey{{1}, place}
	r, err := own.Notes.Recollect(t.Context(), "acme", places[:1], store.Recollection{Exchange: former, Text: got.Text, Quotes: []string{said}})
	if err != nil || r.Text != got.Text {
		t.Fatalf("%+v is inserted, want what was recalled (%v)", r, err)
	}
	found, err := own.Notes.Recollections("acme", places)
	if err != nil || found[0] == nil || found[0].Text != got.Text || found[1] == nil || found[1].Text != "former" {
		t.Errorf("%+v is inserted again (%v)", found, err)
	}
	kept.Close()
	if got := memory.Recall(t.Context(), &recall.Query{Account: "acme", Project: "/home/ann", Prompt: "what about ErrLockTimeout"}); got.Reason != recall.ReasonNoIndex {
		t.Errorf("a memory that is closed says %q", got.Reason)
	}
}

// What a process of the cluster has written about a session is shown at the centre, and written into the database.
func TestACentreWithADatabaseShowsSummariesOfItsSessions(t *testing.T) {
	cfg := config.Default()
	cfg.Centre.Postgres = config.Secret(postgrestest.Start(t, false).Database(t))
	cfg.Search.Summaries.Model = "m"
	m := engineForAccounts(t)
	_, err := m.Accounts().Create("acme")
	check(t, err)
	check(t, m.Shipping().Begin(t.Context()))
	kept, err := openCatalog(t.Context(), &cfg, m, slog.New(slog.DiscardHandler))
	check(t, err)
	defer kept.Close()
	said := recordTurn(t, m, "why is the lantern broken?")
	frame, err := m.Shipping().Next(t.Context(), 0)
	check(t, err)
	_, err = kept.Take(t.Context(), &frame, func([]store.Refused) error { return errors.New("refused") })
	check(t, err)
	check(t, kept.Wait(t.Context(), "acme"))

	centre, own, managed := inPostgres{catalog: kept}, server.Over(m), admin.Over(m)
	centre.keep(&own, &managed)
	sessions := centre.summarized(m)
	found, err := sessions.UnsummarizedSessions(t.Context(), time.Now().Add(time.Hour), func(store.AccountNumber) bool { return false })
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
	check(t, sessions.KeepSessionSummary(t.Context(), "acme", found[0].Session, store.SessionSummary{Text: "of a lantern"}, nil, []string{said}))
	if shown, err := own.Archive.SessionSummary("acme", found[0].Session); err != nil || shown == nil || shown.Text != "of a lantern" {
		t.Errorf("the summary is shown as %+v (%v)", shown, err)
	}
}

// recordTurn puts a turn on record.
func recordTurn(t *testing.T, m *engine.Engine, asked string) (id string) {
	t.Helper()
	r, err := m.Begin(t.Context(), &store.Opening{
		Account: "acme", Surface: codec.Chat, Format: codec.Chat, ModelAsked: "m", ContentType: "application/json", Project: "/home/ann",
		Body: fmt.Appendf(nil, `{"model":"m","messages":[{"role":"user","content":%q}]}`, asked),
	})
	check(t, err)
	_, err = r.Write([]byte(`{"choices":[{"message":{"role":"assistant","content":"since it is held"}}]}`))
	check(t, err)
	check(t, r.Finish(&store.Closing{Outcome: store.OutcomeComplete, Status: 200}))
	return r.ID()
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
