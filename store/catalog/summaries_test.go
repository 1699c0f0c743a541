package catalog_test

import (
	"context"
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
)

// summarized is a centre whose sessions are summarized, an edge that ships to it, and its database.
type summarized struct {
	t       *testing.T
	edge    *engine.Engine
	url     string
	db      *pgx.Conn
	centre  *catalog.Catalog
	shipped uint64
}

// TestWhatIsWrittenAboutSessions holds a centre to what it promises of the words that models and people write about sessions, beside
// what package storetest demands.
func TestWhatIsWrittenAboutSessions(t *testing.T) {
	server := postgrestest.Shared(t)
	for name, promise := range map[string]func(*testing.T, *summarized){
		"the claim of a process that died is taken over":                 claimIsTakenOver,
		"a summary is erased with any exchange of its session":           summaryIsErased,
		"a summary is erased by any program that erases its exchanges":   erasedByAnyProgram,
		"what is digested again is not summarized again":                 digestedAgain,
		"sessions are not marked unless the centre summarizes":           unmarked,
		"a deleted account leaves no summaries":                          deletedAccountLeavesNoSummaries,
		"an export has the summary of a session that is exported whole":  exportsSummary,
		"a session is found by its tag behind any number of newer turns": foundByTag,
		"a session is not found by what is gone":                         notFoundByWhatIsGone,
		"sessions are found by titles whose words are stored again":      foundByTitlesMadeAgain,
	} {
		t.Run(name, func(t *testing.T) { promise(t, openSummarized(t, server)) })
	}
}

func openSummarized(t *testing.T, server *postgrestest.Server) *summarized {
	t.Helper()
	s := &summarized{t: t}
	s.begin(server)
	return s
}

// begin opens the centre with a new database.
func (s *summarized) begin(server *postgrestest.Server) {
	t := s.t
	t.Helper()
	s.edge, s.url = openEngine(t, 0), server.Memory(t)
	s.open(true)
	var err error
	s.db, err = pgx.Connect(t.Context(), s.url)
	check(t, err)
	t.Cleanup(func() { _ = s.db.Close(context.Background()) })
	check(t, s.edge.Shipping().Begin(t.Context()))
}

// open opens the centre, which summarizes sessions or does not.
func (s *summarized) open(summaries bool) {
	s.t.Helper()
	id, err := catalog.MakeCentre(s.t.Context(), s.url, store.NewCentreID())
	check(s.t, err)
	s.centre, err = catalog.Open(s.t.Context(), catalog.Options{
		URL: s.url, Centre: id, Cache: s.edge.Shared(), Retention: s.edge.Archive().RetentionOf, Digest: digest.Exchange, Summaries: summaries,
	})
	check(s.t, err)
	s.t.Cleanup(s.centre.Close)
}

// say puts a turn of a conversation at the centre, and returns its exchange and its session.
func (s *summarized) say(conversation, question string) (exchange, session string) {
	s.t.Helper()
	exchange = askIn(s.t, s.edge, "acme", conversation, question)
	s.ship()
	check(s.t, s.centre.Wait(s.t.Context(), "acme"))
	x, err := s.centre.ExchangeInfo("acme", exchange)
	check(s.t, err)
	return exchange, x.Session
}

// ship puts at the centre what the edge has recorded.
func (s *summarized) ship() {
	s.t.Helper()
	f, err := s.edge.Shipping().Next(s.t.Context(), s.shipped)
	check(s.t, err)
	_, err = s.centre.Take(s.t.Context(), &f, noneAside)
	check(s.t, err)
	s.shipped = f.Last
}

// waiting returns what a process finds to summarize.
func (s *summarized) waiting(in *catalog.Catalog) []record.UnsummarizedSession {
	s.t.Helper()
	found, err := catalog.SummariesOf(in).UnsummarizedSessions(s.t.Context(), time.Now().Add(time.Hour), func(record.AccountNumber) bool { return false })
	check(s.t, err)
	return found
}

func (s *summarized) claim(in *catalog.Catalog, u record.UnsummarizedSession) bool {
	s.t.Helper()
	claimed, err := catalog.SummariesOf(in).ClaimSession(s.t.Context(), u)
	check(s.t, err)
	return claimed
}

func (s *summarized) keep(in *catalog.Catalog, session, text string, exchanges ...string) error {
	return catalog.SummariesOf(in).KeepSessionSummary(s.t.Context(), "acme", session, record.SessionSummary{Text: text, By: "model m", Written: time.Now()}, nil, exchanges)
}

// summarize writes about the one session that waits, as a process does.
func (s *summarized) summarize(session, text string, exchanges ...string) {
	s.t.Helper()
	found := s.waiting(s.centre)
	if len(found) != 1 || !s.claim(s.centre, found[0]) {
		s.t.Fatalf("%+v wait and are not claimed, want %s", found, session)
	}
	check(s.t, s.keep(s.centre, session, text, exchanges...))
	check(s.t, catalog.SummariesOf(s.centre).ConfirmSummarized(s.t.Context(), found[0]))
}

// text returns the summary of a session; "" if it has none.
func (s *summarized) text(session string) string {
	s.t.Helper()
	m, err := catalog.SummariesOf(s.centre).SessionSummary("acme", session)
	check(s.t, err)
	if m == nil {
		return ""
	}
	return m.Text
}

// rows counts what the database has about summaries.
func (s *summarized) rows() (summaries, unsummarized int) {
	s.t.Helper()
	err := s.db.QueryRow(s.t.Context(), "select (select count(*) from mneme.summaries), (select count(*) from mneme.unsummarized)").Scan(&summaries, &unsummarized)
	check(s.t, err)
	return summaries, unsummarized
}

func (s *summarized) erase(sel record.Selection) {
	s.t.Helper()
	e, err := s.centre.Erase(s.t.Context(), "acme", sel, false)
	check(s.t, err)
	eventually(s.t, "it is erased", func() bool {
		e, err := s.centre.Erasure("acme", e.ID)
		check(s.t, err)
		return e.State == record.ErasureDone
	})
}

func isConflict(err error) bool { return codec.AsError(err, "").Kind == codec.KindConflict }

// One process claims a session and dies. Another one takes over once the claim has expired, and what the first one would
// still store, if it was only slow, is not stored.
func claimIsTakenOver(t *testing.T, s *summarized) {
	exchange, session := s.say("a", "question")
	other, sessionOfOther := s.say("b", "another question")
	worker := openWorker(t, s.url)
	found := s.waiting(s.centre)
	if len(found) != 1 || found[0].Session != session || !s.claim(s.centre, found[0]) {
		t.Fatalf("%+v wait, want the session that grew first, %s", found, session)
	}
	second := record.UnsummarizedSession{Account: found[0].Account, Session: sessionOfOther}
	if s.claim(worker, found[0]) || s.claim(worker, second) || len(s.waiting(worker)) > 0 {
		t.Error("a session of the account is claimed by two processes")
	}
	if !s.claim(s.centre, found[0]) {
		t.Error("a process cannot claim again what it has claimed")
	}
	if err := s.keep(worker, sessionOfOther, "unclaimed", other); !isConflict(err) {
		t.Errorf("a summary is stored by a process without a claim (%v)", err)
	}

	_, err := s.db.Exec(t.Context(), "update mneme.summarizing set claimed = claimed - interval '6 minutes'")
	check(t, err)
	if found := s.waiting(worker); len(found) != 1 || !s.claim(worker, found[0]) {
		t.Fatalf("%+v wait after the claim has expired, and are not claimed", found)
	}
	if err := s.keep(s.centre, session, "late", exchange); !isConflict(err) {
		t.Errorf("a process stores a summary after it has lost the claim (%v)", err)
	}
	check(t, s.keep(worker, session, "in time", exchange))
	check(t, catalog.SummariesOf(worker).ConfirmSummarized(t.Context(), found[0]))
	if found := s.waiting(s.centre); len(found) != 1 || found[0].Session != sessionOfOther || s.text(session) != "in time" {
		t.Errorf("the summary is %q, and %+v wait, want %s", s.text(session), found, sessionOfOther)
	}
	if !s.claim(worker, second) {
		t.Error("a released account cannot be claimed")
	}
	check(t, catalog.SummariesOf(worker).Release(t.Context()))
	if !s.claim(s.centre, second) {
		t.Error("a claim outlives the process that has released it")
	}
}

// What an exchange said may be in the summary of its session.
func summaryIsErased(t *testing.T, s *summarized) {
	first, session := s.say("a", "question")
	second, _ := s.say("a", "one more")
	s.summarize(session, "of both", first, second)
	if summaries, marks := s.rows(); summaries != 1 || marks != 0 {
		t.Fatalf("there are %d summaries and %d marks", summaries, marks)
	}
	s.erase(record.Selection{Exchanges: []string{first}})
	if text := s.text(session); text != "" {
		t.Errorf("after an erasure the summary is %q", text)
	}
	found := s.waiting(s.centre)
	if len(found) != 1 || !s.claim(s.centre, found[0]) {
		t.Fatalf("%+v wait, want the rest of the session", found)
	}
	if err := s.keep(s.centre, session, "of both", first, second); !isConflict(err) {
		t.Errorf("a summary of what is erased is stored (%v)", err)
	}
	check(t, s.keep(s.centre, session, "of the rest", second))
	s.erase(record.Selection{Sessions: []string{session}})
	if summaries, marks := s.rows(); summaries != 0 || marks != 0 {
		t.Errorf("of an erased session %d summaries and %d marks are left", summaries, marks)
	}
	if err := s.keep(s.centre, session, "of nothing"); codec.AsError(err, "").Kind != codec.KindNotFound {
		t.Errorf("a summary of a session is stored that is gone (%v)", err)
	}
}

// An earlier version of the program, which knows no summaries, erases beside this one in a rolling upgrade.
func erasedByAnyProgram(t *testing.T, s *summarized) {
	exchange, session := s.say("a", "question")
	s.summarize(session, "of it", exchange)
	_, err := s.db.Exec(t.Context(), "delete from mneme.exchanges")
	check(t, err)
	if text := s.text(session); text != "" {
		t.Errorf("the summary is %q", text)
	}
}

func digestedAgain(t *testing.T, s *summarized) {
	exchange, session := s.say("a", "question")
	s.summarize(session, "of it", exchange)
	check(t, s.centre.Rebuild(t.Context()))
	madeAgain(t, s.centre)
	if _, marks := s.rows(); marks != 0 || s.text(session) != "of it" {
		t.Errorf("%d sessions wait, and the summary is %q", marks, s.text(session))
	}
	s.say("a", "one more")
	if _, marks := s.rows(); marks != 1 {
		t.Errorf("a session that has continued is marked %d times", marks)
	}
}

func unmarked(t *testing.T, s *summarized) {
	s.centre.Close()
	s.open(false)
	s.say("a", "question")
	if _, marks := s.rows(); marks != 0 {
		t.Errorf("%d sessions wait", marks)
	}
}

func deletedAccountLeavesNoSummaries(t *testing.T, s *summarized) {
	exchange, session := s.say("a", "question")
	s.summarize(session, "of it", exchange)
	s.say("a", "one more")
	number, err := s.edge.Accounts().Number("acme")
	check(t, err)
	check(t, s.centre.DeleteAccount(t.Context(), "acme"))
	var left int
	check(t, s.db.QueryRow(t.Context(), `select (select count(*) from mneme.summaries) + (select count(*) from mneme.unsummarized)
		+ (select count(*) from mneme.summarizing)`).Scan(&left))
	if left != 0 {
		t.Errorf("%d rows are left", left)
	}
	if s.claim(s.centre, record.UnsummarizedSession{Account: number, Session: session}) {
		t.Error("a session of an account that is gone is claimed")
	}
}

func exportsSummary(t *testing.T, s *summarized) {
	first, session := s.say("a", "question")
	second, _ := s.say("a", "one more")
	s.summarize(session, "of both", first, second)
	for want, sel := range map[string]record.Selection{
		"of both": {All: true},
		"":        {Exchanges: []string{first}},
	} {
		exported := "no session"
		for e, err := range s.centre.Export(t.Context(), "acme", sel) {
			check(t, err)
			if e.Session != nil {
				if exported = ""; e.Summary != nil {
					exported = e.Summary.Text
				}
			}
		}
		if exported != want {
			t.Errorf("the summary in an export of %+v is %q, want %q", sel, exported, want)
		}
	}
}
