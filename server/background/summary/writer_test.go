package summary_test

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"
	"go.uber.org/goleak"

	"github.com/mnemeproxy/mneme/bench/provider"
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/background/summary"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// harness is a memory with an index, and a simulated model that writes about it.
type harness struct {
	t      *testing.T
	dir    string
	up     *provider.Server
	store  *engine.Engine
	routes *router.Router
	writer *summary.Writer
}

// newHarness lets the model play a script (package bench/provider).
func newHarness(t *testing.T, script string) *harness {
	t.Helper()
	h := &harness{t: t, dir: t.TempDir()}
	var err error
	h.up, err = provider.Start(provider.Options{Keep: 100, Strict: true})
	h.ok(err)
	t.Cleanup(func() { h.ok(h.up.Close()) })
	h.routes, err = router.New(router.Config{
		Providers: map[string]router.ProviderConfig{
			"openai":    {BaseURL: h.up.URL() + "/v1", APIKey: "servers"},
			"anthropic": {BaseURL: h.up.URL(), APIKey: "servers"},
		},
		Aliases: []router.Alias{{Model: "writer", To: "gpt-4.1 [[sim: " + script + "]]"}, {Model: "foreign", To: "claude-opus-4-8 [[sim: " + script + "]]"}},
		Retries: -1,
	})
	h.ok(err)
	t.Cleanup(h.routes.Close)
	h.open()
	t.Cleanup(func() { h.ok(h.store.Close()) })
	for _, account := range []string{"acme", "globex"} {
		_, err := h.store.Accounts().Create(account)
		h.ok(err)
	}
	return h
}

func (h *harness) ok(err error) {
	h.t.Helper()
	if err != nil {
		h.t.Fatal(err)
	}
}

func (h *harness) open() {
	h.t.Helper()
	var err error
	h.store, err = engine.Open(store.Options{Dir: h.dir, MinFreeDisk: -1, Digest: readScript, Summaries: true}, &search.Options{Dir: filepath.Join(h.dir, "index")})
	h.ok(err)
}

// write starts the writer; zero settings are those of a test in a hurry. The function that it gives stops it.
func (h *harness) write(s summary.Settings) (stop func()) {
	h.t.Helper()
	if s.Model == "" {
		s.Model = "writer"
	}
	if s.TokensPerDay == 0 {
		s.TokensPerDay = 1_000_000
	}
	s.Quiet = 20 * time.Millisecond
	var err error
	h.writer, err = summary.Start(summary.Options{Settings: s, Sessions: h.store.Summaries(), Credentials: h.store.Credentials().Get, Router: h.routes, Log: slog.New(slog.DiscardHandler)})
	h.ok(err)
	h.t.Cleanup(h.writer.Close)
	return h.writer.Close
}

// said is the body of a captured exchange in these tests: what was said, ready to be read.
type said struct{ Messages, Answer []record.Message }

func readScript(x *record.Exchange) (record.Digest, error) {
	var s said
	err := json.Unmarshal(x.RawRequest, &s)
	return record.Digest{Messages: s.Messages, Answer: s.Answer}, err
}

func text(role, words string) []record.Message {
	return []record.Message{{Role: role, Parts: []record.Part{{Kind: "text", Text: words}}}}
}

// long is a text with words in it that is worth a summary.
func long(words string) string { return words + strings.Repeat(" and then it went on", 30) }

// say has an account say something in a session, and gives the exchange and the session.
func (h *harness) say(account, session, user, assistant string) (exchange, id string) {
	h.t.Helper()
	body, err := json.Marshal(said{text("user", user), text("assistant", assistant)})
	h.ok(err)
	c, err := h.store.Begin(h.t.Context(), &record.Opening{
		Account: account, Surface: codec.Chat, Format: codec.Chat, Provider: "openai", ModelAsked: "gpt-5", ExternalSession: session, Body: body,
	})
	h.ok(err)
	h.ok(c.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200}))
	x, err := h.store.Archive().Exchange(account, c.ID())
	h.ok(err)
	return c.ID(), x.Session
}

// summary is what a model has written about a session, "" if none has.
func (h *harness) summary(account, session string) string {
	h.t.Helper()
	m, err := h.store.Archive().SessionSummary(account, session)
	h.ok(err)
	if m == nil {
		return ""
	}
	return m.Text
}

// timeout is how long a test waits for something that is to happen soon; only a failure takes that long.
const timeout = time.Minute

// until waits for something that is to happen soon.
func (h *harness) until(what string, happened func() bool) {
	h.t.Helper()
	for deadline := time.Now().Add(timeout); !happened(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(deadline) {
			h.t.Fatalf("waited in vain: %s", what)
		}
	}
}

// settled waits until nothing is left to be written about, but in accounts that rest.
func (h *harness) settled(resting ...record.AccountNumber) {
	h.t.Helper()
	for _, account := range []string{"acme", "globex"} {
		h.ok(h.store.Index().Wait(h.t.Context(), account))
	}
	h.until("sessions are taken up", func() bool {
		left, err := h.store.Summaries().UnsummarizedSessions(h.t.Context(), time.Now().Add(time.Hour), func(n record.AccountNumber) bool {
			return slices.Contains(resting, n)
		})
		h.ok(err)
		return len(left) == 0
	})
}

func (h *harness) found(account, query string) []search.Hit {
	h.t.Helper()
	a, err := h.store.Index().Search(h.t.Context(), account, &search.Request{Query: query, Granularity: search.Sessions})
	h.ok(err)
	return a.Data
}

func (h *harness) erase(account string, exchanges ...string) {
	h.t.Helper()
	e, err := h.store.Archive().Erase(h.t.Context(), account, record.Selection{Exchanges: exchanges}, false)
	h.ok(err)
	h.until("it is erased", func() bool {
		e, err = h.store.Archive().Erasure(account, e.ID)
		h.ok(err)
		return e.State == record.ErasureDone
	})
}

// A session that was left alone is summarized once, and found by a word that only the summary has; when it goes on it is
// summarized again, from the summary so far and what came since.
func TestAQuietSessionIsSummarizedOnceAndFoundByItsSummary(t *testing.T) {
	for _, model := range []string{"writer", "foreign"} { // in the provider's own format, and across
		t.Run(model, func(t *testing.T) {
			h := newHarness(t, `text "They repaired the kumquat."`)
			h.write(summary.Settings{Model: model})
			_, session := h.say("acme", "one", long("why does pkg/lock/wait.go fail"), "It times out.")
			h.settled()
			hits := h.found("acme", "kumquat")
			if len(hits) != 1 || hits[0].Session != session || !strings.Contains(hits[0].Snippet, "kumquat") {
				t.Fatalf("found %+v, want session %s", hits, session)
			}
			if s := hits[0].Summary; s.Text != "They repaired the kumquat." || !strings.HasPrefix(s.By, "model ") || s.Done != "It times out." {
				t.Errorf("the hit says %+v", s)
			}
			if len(h.found("globex", "kumquat")) > 0 {
				t.Error("another account finds it")
			}
			if n := len(h.up.Requests()); n != 1 {
				t.Fatalf("the model was asked %d times", n)
			}
			if sent := string(h.up.Requests()[0].Body); !strings.Contains(sent, "pkg/lock/wait.go") || !strings.Contains(sent, "It times out.") {
				t.Errorf("the model was told %s", sent)
			}
			h.say("acme", "one", "Raise the limit.", "Raised.")
			h.until("it is summarized again", func() bool { return len(h.up.Requests()) == 2 })
			if sent := string(h.up.Requests()[1].Body); !strings.Contains(sent, "Raised.") || !strings.Contains(sent, `Summary so far:\nThey repaired the kumquat.`) {
				t.Errorf("the second time it was told %s", sent)
			}
			h.settled()
			if u := h.writer.Usage(); u.Calls != 2 || u.Failures != 0 || u.Tokens == 0 {
				t.Errorf("usage is %+v", u)
			}
			if page, err := h.store.Archive().Exchanges("acme", record.ExchangeQuery{}); err != nil || len(page.Data) != 2 {
				t.Errorf("%d exchanges are on record (%v), want the two that were said", len(page.Data), err)
			}
		})
	}
}

// A session whose record is damaged gets no summary, and those behind it do.
func TestADamagedSessionHoldsNoSummaryUp(t *testing.T) {
	h := newHarness(t, `text "They repaired the kumquat."`)
	_, damaged := h.say("acme", "one", long("where is the marmalade"), "In the cupboard.")
	_, second := h.say("acme", "two", long("where is the honey"), "Beside it.")
	h.ok(h.store.Index().Wait(h.t.Context(), "acme"))
	number, err := h.store.Accounts().Number("acme")
	h.ok(err)
	h.ok(h.store.Close())
	h.damageSession(number, damaged)
	h.open()
	h.write(summary.Settings{})
	h.until("the second session is summarized", func() bool { return h.summary("acme", second) != "" })
	h.settled()
	if n := len(h.up.Requests()); n != 1 {
		t.Errorf("the model was asked %d times", n)
	}
}

// damageSession makes the record of a session unreadable, while the store is closed; see FORMAT.md for where it is.
func (h *harness) damageSession(account record.AccountNumber, session string) {
	h.t.Helper()
	_, bare, _ := strings.Cut(session, "_")
	id, ok := record.ParseExchangeID("exch_" + bare) // ids of all kinds are written alike
	if !ok {
		h.t.Fatalf("%s is no session", session)
	}
	key := append(binary.BigEndian.AppendUint32([]byte{'s'}, uint32(account)), id[:]...)
	_ = os.Remove(filepath.Join(h.dir, "stop.json")) // which says what the files were like
	db, err := badger.Open(badger.DefaultOptions(filepath.Join(h.dir, "badger")).WithLogger(nil))
	h.ok(err)
	h.ok(db.Update(func(tx *badger.Txn) error {
		if _, err := tx.Get(key); err != nil {
			return err
		}
		return tx.Set(key, []byte("damage"))
	}))
	h.ok(db.Close())
}

func TestWhatSaysLittleIsNotWrittenAbout(t *testing.T) {
	h := newHarness(t, `text "x"`)
	h.write(summary.Settings{})
	_, session := h.say("acme", "one", "hello", "Hello.")
	h.settled()
	if n := len(h.up.Requests()); n > 0 || h.summary("acme", session) != "" {
		t.Errorf("the model was asked %d times", n)
	}
}

// A model that is dead, or says nothing, leaves what sessions say themselves, and is not asked again and again.
func TestAModelThatFailsLeavesSessionsToTheirOwnWords(t *testing.T) {
	for _, script := range []string{"error overloaded", "error authentication", "garbage", "reset", "empty", "error invalid"} {
		t.Run(script, func(t *testing.T) {
			h := newHarness(t, script)
			h.write(summary.Settings{})
			_, session := h.say("acme", "one", long("where is the marmalade"), "In the cupboard.")
			h.say("acme", "two", long("where is the honey"), "Beside it.")
			h.until("it fails", func() bool { return h.writer.Usage().Failures > 0 })
			h.say("globex", "one", long("where is the jam"), "There.")
			h.until("it fails for the other account", func() bool { return h.writer.Usage().Failures > 1 })
			if u := h.writer.Usage(); u.Failures != 2 || u.Calls != 0 {
				t.Errorf("usage is %+v, want one call of each account that failed, and then a pause", u)
			}
			h.ok(h.store.Index().Wait(h.t.Context(), "acme"))
			hits := h.found("acme", "marmalade")
			if len(hits) != 1 || hits[0].Session != session || hits[0].Summary.By != "" || hits[0].Summary.Done != "In the cupboard." {
				t.Errorf("found %+v, want the session in its own words", hits)
			}
		})
	}
}

// The tokens of a day are counted for each account by itself, and over restarts.
func TestAnAccountStopsWhenItsTokensOfTheDayAreUsedUp(t *testing.T) {
	h := newHarness(t, `text "short" ; usage input=8000 output=300`)
	budget := summary.Settings{TokensPerDay: summary.MostTokens}
	stop := h.write(budget)
	_, first := h.say("acme", "one", long("the first"), "Done.")
	h.settled()
	stop()
	acme, err := h.store.Accounts().Number("acme")
	h.ok(err)
	if n, err := h.store.Summaries().SummaryTokens(acme, time.Now()); err != nil || n != 8300 {
		t.Errorf("%d tokens are on record (%v), want 8300", n, err)
	}
	if n, err := h.store.Summaries().SummaryTokens(acme, time.Now().Add(24*time.Hour)); err != nil || n != 0 {
		t.Errorf("%d tokens of tomorrow are used up (%v)", n, err)
	}
	h.ok(h.store.Close())
	h.open()

	_, second := h.say("acme", "two", long("the second"), "Done.")
	_, other := h.say("globex", "one", long("another's"), "Done.")
	h.write(budget)
	h.settled(acme)
	if h.summary("acme", first) == "" || h.summary("globex", other) == "" {
		t.Error("a session within the budget has no summary")
	}
	if h.summary("acme", second) != "" || len(h.up.Requests()) != 2 {
		t.Errorf("beyond its budget an account got a summary, in %d calls", len(h.up.Requests()))
	}
}

// What is erased is told in no summary: the present one goes with any of its exchanges, one that is being written is
// thrown away, and what is left of the session gets another one.
func TestErasingAnExchangeDropsTheSummaryOfItsSession(t *testing.T) {
	h := newHarness(t, `text "About the kumquat."`)
	stop := h.write(summary.Settings{})
	secret, session := h.say("acme", "one", long("the secret is marmalade"), "Noted.")
	kept, _ := h.say("acme", "one", long("and the weather"), "Fine.")
	h.settled()
	stop()
	if len(h.found("acme", "kumquat")) != 1 {
		t.Fatal("there is no summary to erase")
	}
	stale, err := h.store.Archive().SessionSummary("acme", session)
	h.ok(err)
	h.erase("acme", secret)
	if h.summary("acme", session) != "" || len(h.found("acme", "kumquat")) > 0 {
		t.Error("the summary is still there")
	}
	for what, err := range map[string]error{
		"of an erased exchange": h.store.Summaries().KeepSessionSummary(t.Context(), "acme", session, *stale, nil, []string{secret, kept}),
		"of a dropped summary":  h.store.Summaries().KeepSessionSummary(t.Context(), "acme", session, *stale, stale, []string{kept}),
	} {
		var e *codec.Error
		if !errors.As(err, &e) || e.Kind != codec.KindConflict {
			t.Errorf("a summary %s is kept: %v", what, err)
		}
	}
	asked := len(h.up.Requests())
	h.write(summary.Settings{})
	h.settled()
	requests := h.up.Requests()
	if len(requests) != asked+1 || h.summary("acme", session) == "" {
		t.Fatalf("what is left of the session is summarized in %d calls", len(requests)-asked)
	}
	if sent := string(requests[asked].Body); strings.Contains(sent, "marmalade") || strings.Contains(sent, "Summary so far") {
		t.Errorf("the model is told what was erased: %s", sent)
	}
	h.erase("acme", kept)
	if report, err := h.store.Upkeep().Check(context.Background(), false, func(f store.Finding) { t.Errorf("check finds %+v", f) }); err != nil || report.Findings > 0 {
		t.Errorf("check: %+v, %v", report, err)
	}
}

// The model is asked about an account's sessions with the credential and the words of that account alone.
func TestNoAccountIsAskedForWithAnothersCredentialOrText(t *testing.T) {
	h := newHarness(t, `text "short"`)
	h.ok(h.store.Credentials().Set("acme", "openai", "acmes-own"))
	for i := range 5 {
		h.say("acme", fmt.Sprint(i), long("acme-words"), "Done.")
		h.say("globex", fmt.Sprint(i), long("globex-words"), "Done.")
	}
	h.write(summary.Settings{})
	h.settled()
	asked := map[string]int{}
	for _, r := range h.up.Requests() {
		key, body := r.Header.Get("Authorization"), string(r.Body)
		asked[key]++
		if ofAcme := key == "Bearer acmes-own"; strings.Contains(body, "acme-words") != ofAcme || strings.Contains(body, "globex-words") == ofAcme {
			t.Errorf("with %s the model was told %s", key, body)
		}
	}
	if asked["Bearer acmes-own"] != 5 || asked["Bearer servers"] != 5 {
		t.Errorf("asked %v, want five times with each", asked)
	}
}

func TestSettingsThatCannotWriteAreRefused(t *testing.T) {
	h := newHarness(t, "empty")
	for says, s := range map[string]summary.Settings{
		"No provider is known": {Model: "unheard-of", TokensPerDay: summary.MostTokens},
		"allow for no summary": {Model: "writer", TokensPerDay: summary.MostTokens - 1},
	} {
		if err := s.Check(h.routes); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

// endless are sessions that have nothing to say, of which there are always more. The third one takes until the writer is stopped.
type endless struct {
	summary.Sessions
	read  atomic.Int64
	third chan struct{}
}

func (e *endless) UnsummarizedSessions(context.Context, time.Time, func(record.AccountNumber) bool) ([]record.UnsummarizedSession, error) {
	return make([]record.UnsummarizedSession, 100), nil
}

func (e *endless) ClaimSession(context.Context, record.UnsummarizedSession) (bool, error) {
	return true, nil
}

func (e *endless) Material(record.AccountNumber, string) (*search.Material, error) {
	e.read.Add(1)
	return nil, nil
}

func (e *endless) ConfirmSummarized(ctx context.Context, _ record.UnsummarizedSession) error {
	if e.read.Load() == 3 {
		close(e.third)
		<-ctx.Done()
	}
	return ctx.Err()
}

func TestTheWriterStopsBetweenTwoSessions(t *testing.T) {
	h := newHarness(t, "empty")
	sessions := &endless{third: make(chan struct{})}
	w, err := summary.Start(summary.Options{
		Settings: summary.Settings{Model: "writer", TokensPerDay: summary.MostTokens, Quiet: time.Millisecond},
		Sessions: sessions, Credentials: h.store.Credentials().Get, Router: h.routes, Log: slog.New(slog.DiscardHandler),
	})
	h.ok(err)
	<-sessions.third
	w.Close()
	if n := sessions.read.Load(); n != 3 {
		t.Errorf("it has read %d sessions, stopped at the third", n)
	}
}

// The call that is under way ends with the writing, and its session is summarized after the next start.
func TestTheWriterStopsInTheMiddleOfACall(t *testing.T) {
	h := newHarness(t, "empty")
	asked, ended := make(chan struct{}), make(chan struct{})
	model := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the end of the connection is not seen
		close(asked)
		<-r.Context().Done()
		close(ended)
	}))
	defer model.Close()
	routes, err := router.New(router.Config{
		Providers: map[string]router.ProviderConfig{"openai": {BaseURL: model.URL, APIKey: "servers"}},
		Aliases:   []router.Alias{{Model: "writer", To: "gpt-4.1"}}, Retries: -1,
	})
	h.ok(err)
	defer routes.Close()
	h.routes = routes
	stop := h.write(summary.Settings{})
	h.say("acme", "one", long("why does pkg/lock/wait.go fail"), "It times out.")
	<-asked
	stop()
	<-ended
	left, err := h.store.Summaries().UnsummarizedSessions(t.Context(), time.Now().Add(time.Hour), func(record.AccountNumber) bool { return false })
	if err != nil || len(left) != 1 {
		t.Errorf("%d sessions are left to be summarized (%v)", len(left), err)
	}
}
