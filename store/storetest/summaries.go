package storetest

import (
	"context"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// Summaries are what models write about the sessions of a memory.
type Summaries interface {
	UnsummarizedSessions(ctx context.Context, since time.Time, skip func(record.AccountNumber) bool) ([]record.UnsummarizedSession, error)
	ClaimSession(ctx context.Context, u record.UnsummarizedSession) (claimed bool, err error)
	ConfirmSummarized(ctx context.Context, u record.UnsummarizedSession) error
	Material(account record.AccountNumber, session string) (*search.Material, error)
	KeepSessionSummary(ctx context.Context, account, session string, m record.SessionSummary, former *record.SessionSummary, exchanges []string) error
	SessionSummary(account, session string) (*record.SessionSummary, error)
	SummaryTokens(account record.AccountNumber, now time.Time) (int64, error)
	AddSummaryTokens(ctx context.Context, account record.AccountNumber, now time.Time, tokens int64) error
}

func isConflict(err error) bool {
	return err != nil && codec.AsError(err, "").Kind == codec.KindConflict
}

// RunSummaries tests a memory whose sessions are summarized.
func RunSummaries(t *testing.T, open func(*testing.T) (Memory, Summaries)) {
	for _, property := range []struct {
		name string
		test func(*testing.T, Memory, Summaries)
	}{
		{"a session that has grown is summarized", grownIsSummarized},
		{"a summary goes with any exchange of its session", summaryGoesWithExchanges},
		{"tokens are counted by day", tokensOfADay},
	} {
		t.Run(property.name, func(t *testing.T) {
			m, s := open(t)
			property.test(t, m, s)
		})
	}
}

// grown waits until a session has to be summarized, and claims it.
func grown(t *testing.T, s Summaries, session string) record.UnsummarizedSession {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		found, err := s.UnsummarizedSessions(t.Context(), time.Now().Add(time.Hour), func(record.AccountNumber) bool { return false })
		check(t, err)
		if len(found) > 0 {
			claimed, err := s.ClaimSession(t.Context(), found[0])
			if err != nil || !claimed || len(found) > 1 || found[0].Session != session {
				t.Fatalf("%+v are to be summarized, and claimed: %v, want %s (%v)", found, claimed, session, err)
			}
			return found[0]
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s is not to be summarized", session)
		}
	}
}

// turnsOf waits until a session has that many turns, and returns the source for its summary.
func turnsOf(t *testing.T, s Summaries, u record.UnsummarizedSession, turns int) *search.Material {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		m, err := s.Material(u.Account, u.Session)
		check(t, err)
		if m != nil && len(m.Turns) == turns {
			return m
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s has not %d turns: %+v", u.Session, turns, m)
		}
	}
}

func sessionOf(t *testing.T, m Memory, exchange string) string {
	t.Helper()
	info, err := m.ExchangeInfo(owner, exchange)
	check(t, err)
	return info.Session
}

func grownIsSummarized(t *testing.T, m Memory, s Summaries) {
	first := stored(t, m, "a", "where is the mutex taken?", "in the writer")
	session := sessionOf(t, m, first)
	u := grown(t, s, session)
	if found, err := s.UnsummarizedSessions(t.Context(), u.Grew, func(record.AccountNumber) bool { return false }); err != nil || len(found) > 0 {
		t.Errorf("%+v have been idle since before they grew (%v)", found, err)
	}
	if found, err := s.UnsummarizedSessions(t.Context(), time.Now().Add(time.Hour), func(n record.AccountNumber) bool { return n == u.Account }); err != nil || len(found) > 0 {
		t.Errorf("%+v are of an account that is left out (%v)", found, err)
	}
	material, err := s.Material(u.Account, session)
	check(t, err)
	if len(material.Turns) != 1 || material.Turns[0].User != "where is the mutex taken?" || material.Written != nil || material.Session.Account != owner {
		t.Errorf("there is to be summarized %+v", material)
	}
	written := record.SessionSummary{Text: "The mutex is taken in the writer.", By: "model m", Written: time.Now().UTC(), Through: first}
	check(t, s.KeepSessionSummary(t.Context(), owner, session, written, nil, []string{first}))

	second := stored(t, m, "a", "and who flushes?", "the journal") // before the first summary is confirmed
	sessionOf(t, m, second)
	material = turnsOf(t, s, u, 2)
	check(t, s.ConfirmSummarized(t.Context(), u))
	if m := material.Written; m == nil || m.Text != written.Text || !m.Written.Equal(written.Written) || m.Through != first || m.By != written.By {
		t.Errorf("the former summary is %+v", m)
	}
	u = grown(t, s, session)
	check(t, s.KeepSessionSummary(t.Context(), owner, session, record.SessionSummary{Text: "The journal flushes."}, material.Written, []string{first, second}))
	check(t, s.ConfirmSummarized(t.Context(), u))
	if found, err := s.UnsummarizedSessions(t.Context(), time.Now().Add(time.Hour), func(record.AccountNumber) bool { return false }); err != nil || len(found) > 0 {
		t.Errorf("%+v are to be summarized again (%v)", found, err)
	}
	if m, err := s.SessionSummary(owner, session); err != nil || m == nil || m.Text != "The journal flushes." {
		t.Errorf("the summary is %+v (%v)", m, err)
	}
	if m, err := s.SessionSummary(stranger, session); m != nil || err != nil && !isMissing(err) {
		t.Errorf("another account reads the summary %+v (%v)", m, err)
	}
	if err := s.KeepSessionSummary(t.Context(), stranger, session, written, nil, []string{first}); !isMissing(err) && !isConflict(err) {
		t.Errorf("another account writes a summary (%v)", err)
	}
}

func summaryGoesWithExchanges(t *testing.T, m Memory, s Summaries) {
	var exchanges []string
	for _, asked := range []string{"one", "two", "three"} {
		exchanges = append(exchanges, stored(t, m, "a", asked, "yes"))
	}
	session := sessionOf(t, m, exchanges[2])
	for _, x := range exchanges {
		sessionOf(t, m, x)
	}
	keep := func(left ...string) error {
		return s.KeepSessionSummary(t.Context(), owner, session, record.SessionSummary{Text: "of them"}, nil, left)
	}
	summarize := func(left ...string) {
		t.Helper()
		u := grown(t, s, session)
		check(t, keep(left...))
		check(t, s.ConfirmSummarized(t.Context(), u))
	}
	gone := func(by string) {
		t.Helper()
		if m, err := s.SessionSummary(owner, session); err != nil || m != nil {
			t.Errorf("after %s the summary is %+v (%v)", by, m, err)
		}
	}
	turnsOf(t, s, grown(t, s, session), len(exchanges)) // it grows no more
	summarize(exchanges...)
	erase(t, m, owner, exchanges[0])
	gone("an erasure")
	u := grown(t, s, session)
	if err := keep(exchanges...); !isConflict(err) {
		t.Errorf("a summary of what is erased is stored (%v)", err)
	}
	check(t, keep(exchanges[1:]...))
	check(t, s.ConfirmSummarized(t.Context(), u))
	if e, can := m.(Editor); can {
		_, err := e.SplitSession(t.Context(), owner, session, exchanges[2])
		check(t, err)
		gone("a split")
		if err := keep(exchanges[1:]...); !isConflict(err) {
			t.Errorf("a summary of what has moved is stored (%v)", err)
		}
	}
	erase(t, m, owner, exchanges[1])
	erase(t, m, owner, exchanges[2])
	if m, err := s.SessionSummary(owner, session); m != nil || err != nil && !isMissing(err) {
		t.Errorf("an erased session has the summary %+v (%v)", m, err)
	}
}

func tokensOfADay(t *testing.T, m Memory, s Summaries) {
	u := grown(t, s, sessionOf(t, m, stored(t, m, "a", "one", "1")))
	now := time.Now()
	tomorrow := now.Add(24 * time.Hour)
	for _, spending := range []struct {
		at           time.Time
		tokens, want int64
	}{{now, 100, 100}, {now, 20, 120}, {tomorrow, 7, 7}} {
		check(t, s.AddSummaryTokens(t.Context(), u.Account, spending.at, spending.tokens))
		if n, err := s.SummaryTokens(u.Account, spending.at); err != nil || n != spending.want {
			t.Errorf("%d tokens are counted, want %d (%v)", n, spending.want, err)
		}
	}
	if n, err := s.SummaryTokens(u.Account+1, tomorrow); err != nil || n != 0 {
		t.Errorf("another account has used %d tokens (%v)", n, err)
	}
}
