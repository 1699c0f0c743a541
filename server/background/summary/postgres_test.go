package summary_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/background/summary"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/shipped"
)

// shared is a memory in Postgres: a centre and a worker summarize what the harness, as an edge, has recorded.
type shared struct {
	*harness
	centre, worker *catalog.Catalog
	sent           uint64
}

func newShared(t *testing.T, script string) *shared {
	t.Helper()
	s := &shared{harness: newHarness(t, script)}
	url := postgrestest.Start(t, false).Memory(t)
	open := func(o catalog.Options) *catalog.Catalog {
		o.URL, o.Centre, o.Digest = url, postgrestest.Centre, readScript
		c, err := catalog.Open(t.Context(), o)
		s.ok(err)
		t.Cleanup(c.Close)
		return c
	}
	s.centre = open(catalog.Options{Cache: s.store.Shared(), Retention: s.store.Archive().RetentionOf, Summaries: true})
	s.worker = open(catalog.Options{})
	s.ok(s.store.Shipping().Begin(t.Context()))
	s.until("the worker has the accounts", func() bool {
		_, err := s.worker.Sessions("globex", record.SessionQuery{})
		return err == nil
	})
	return s
}

// say has an account say something in a session at the edge, which ships it, and returns the session.
func (s *shared) say(account, session, user, assistant string) (id string) {
	s.t.Helper()
	exchange, _ := s.harness.say(account, session, user, assistant)
	frame, err := s.store.Shipping().Next(s.t.Context(), s.sent)
	s.ok(err)
	taken, err := s.centre.Take(s.t.Context(), &frame, func(r []shipped.Refused) error { return r[0].Reason })
	s.ok(err)
	if !taken {
		s.t.Fatal("the frame is not taken")
	}
	s.sent = frame.Last
	x, err := s.centre.ExchangeInfo(account, exchange)
	s.ok(err)
	return x.Session
}

// write starts a writer in a process.
func (s *shared) write(in *catalog.Catalog, tokensPerDay int64) *summary.Writer {
	s.t.Helper()
	w, err := summary.Start(summary.Options{
		Settings: summary.Settings{Model: "writer", TokensPerDay: tokensPerDay, Quiet: 20 * time.Millisecond},
		Sessions: catalog.SummariesOf(in), Credentials: s.store.Credentials().Get, Router: s.routes, Log: slog.New(slog.DiscardHandler),
	})
	s.ok(err)
	s.t.Cleanup(w.Close)
	return w
}

// settled waits until everything is digested and summarized.
func (s *shared) settled() {
	s.t.Helper()
	for _, account := range []string{"acme", "globex"} {
		s.ok(s.centre.Wait(s.t.Context(), account))
	}
	s.until("all sessions are summarized", func() bool {
		waiting, err := catalog.SummariesOf(s.centre).Waiting(s.t.Context())
		s.ok(err)
		return waiting == 0
	})
}

func (s *shared) summary(account, session string) *record.SessionSummary {
	s.t.Helper()
	m, err := catalog.SummariesOf(s.worker).SessionSummary(account, session)
	s.ok(err)
	return m
}

// Each session costs one call, whichever process makes it, and one more after it has continued.
func TestProcessesOnOneDatabaseSummarizeEachSessionOnce(t *testing.T) {
	s := newShared(t, `text "They repaired the kumquat."`)
	first, second := s.write(s.centre, 1_000_000), s.write(s.worker, 1_000_000)
	sessions := make(map[string]string) // with their accounts
	for _, account := range []string{"acme", "globex"} {
		for _, name := range []string{"one", "two", "three", "four"} {
			sessions[s.say(account, name, long("why does pkg/lock/"+name+".go fail"), "It times out.")] = account
		}
	}
	s.settled()
	if n := first.Usage().Calls + second.Usage().Calls; n != int64(len(sessions)) || len(s.up.Requests()) != len(sessions) {
		t.Errorf("for %d sessions the model has answered %d of %d calls", len(sessions), n, len(s.up.Requests()))
	}
	for session, account := range sessions {
		m := s.summary(account, session)
		if m == nil || m.Text != "They repaired the kumquat." || !strings.HasPrefix(m.By, "model ") {
			t.Errorf("the summary of %s is %+v", session, m)
		}
		other := map[string]string{"acme": "globex", "globex": "acme"}[account]
		if _, err := catalog.SummariesOf(s.centre).SessionSummary(other, session); err == nil {
			t.Errorf("%s reads a session of %s", other, account)
		}
	}
	found, err := s.centre.Search(t.Context(), "acme", &search.Request{Query: "pkg/lock/two.go", Granularity: search.Sessions})
	s.ok(err)
	if len(found.Data) == 0 || found.Data[0].Summary.Text != "They repaired the kumquat." {
		t.Errorf("a search finds %+v, want the session with its summary", found.Data)
	}

	found, err = s.worker.Search(t.Context(), "acme", &search.Request{Query: "kumquat", Granularity: search.Sessions})
	s.ok(err)
	if len(found.Data) != 4 || sessions[found.Data[0].Session] != "acme" {
		t.Errorf("by a word of their summaries %+v are found, want the four sessions of the account", found.Data)
	}

	session := s.say("acme", "one", "Raise the limit.", "Raised.")
	s.settled()
	if n := len(s.up.Requests()); n != len(sessions)+1 {
		t.Fatalf("a session has continued, and the model was asked %d times more", n-len(sessions))
	}
	sent := string(s.up.Requests()[len(sessions)].Body)
	if !strings.Contains(sent, "Raised.") || !strings.Contains(sent, `Summary so far:\nThey repaired the kumquat.`) {
		t.Errorf("the model was told %s", sent)
	}
	s.ok(s.centre.Rebuild(t.Context()))
	s.until("everything is digested again", func() bool {
		status, err := s.centre.Status(t.Context(), "acme")
		s.ok(err)
		return status.Lag == 0
	})
	s.settled()
	if n := len(s.up.Requests()); n != len(sessions)+1 || s.summary("acme", session) == nil {
		t.Errorf("after everything was digested again, the model was asked %d times more, and the summary is %v", n-len(sessions)-1, s.summary("acme", session))
	}
}

func TestProcessesOnOneDatabaseShareTheTokensOfTheDay(t *testing.T) {
	s := newShared(t, `text "short" ; usage input=8000 output=300`)
	s.say("acme", "one", long("why does pkg/lock/one.go fail"), "It times out.")
	s.say("acme", "two", long("why does pkg/lock/two.go fail"), "It times out.")
	s.ok(s.centre.Wait(t.Context(), "acme"))
	first := s.write(s.centre, summary.MostTokens)
	acme, err := s.store.Accounts().Number("acme")
	s.ok(err)
	s.until("the tokens of a summary are counted", func() bool {
		n, err := catalog.SummariesOf(s.centre).SummaryTokens(acme, time.Now())
		s.ok(err)
		return n == 8300
	})
	first.Close()
	s.ok(catalog.SummariesOf(s.centre).Release(t.Context()))

	session := s.say("globex", "one", long("why does pkg/lock/one.go fail"), "It times out.")
	s.ok(s.centre.Wait(t.Context(), "globex"))
	s.write(s.worker, summary.MostTokens)
	s.until("the other account is summarized", func() bool { return s.summary("globex", session) != nil }) // acme comes before it
	if n := len(s.up.Requests()); n != 2 {
		t.Errorf("the model was asked %d times, want once for each account", n)
	}
}

// Each process would else find out for itself that the model fails.
func TestProcessesOnOneDatabaseDoNotAskAModelForAnAccountThatHasJustFailed(t *testing.T) {
	s := newShared(t, "error overloaded")
	s.say("acme", "one", long("why does pkg/lock/one.go fail"), "It times out.")
	s.ok(s.centre.Wait(t.Context(), "acme"))
	first := s.write(s.centre, 1_000_000)
	s.until("the model fails", func() bool { return first.Usage().Failures > 0 })
	first.Close()
	waiting := func() int {
		found, err := catalog.SummariesOf(s.worker).UnsummarizedSessions(t.Context(), time.Now().Add(time.Hour), func(record.AccountNumber) bool { return false })
		s.ok(err)
		return len(found)
	}
	if n := waiting(); n != 0 {
		t.Errorf("another process finds %d sessions to summarize", n)
	}
	s.ok(catalog.SummariesOf(s.centre).Release(t.Context()))
	if n := waiting(); n != 1 {
		t.Errorf("once the first one has ended, another process finds %d sessions to summarize", n)
	}
}
