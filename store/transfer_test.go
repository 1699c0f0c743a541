package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/recording"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
)

// exported returns the contents of an export, without the account's name.
func exported(t *testing.T, s *Store, account string, sel record.Selection) (all []record.Exported) {
	t.Helper()
	for e, err := range s.Archive().Export(context.Background(), account, sel) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Session != nil {
			e.Session.Account = ""
		}
		if e.Exchange != nil {
			e.Exchange.Account, e.Exchange.Imported = "", time.Time{}
		}
		all = append(all, e)
	}
	return all
}

func TestAnExportIsImportedWithoutLossInAnotherStore(t *testing.T) {
	ctx := context.Background()
	c := newConversation(t)
	session := c.session(with(say("1"), func(o *record.Opening) { o.ChatKey = "k" }), "2")
	c.session(with(say("1", "2", "3"), func(o *record.Opening) { o.ChatKey = "k" }), "4")
	c.session(derived(say("plain"), "plain"), strings.Repeat("long ", 60_000))
	partial, _ := c.exchange(with(say("x"), func(o *record.Opening) { o.NativeSession, o.NativeAgent = "n", "agent" }), record.OutcomeClientClosed, "partial")
	captureBody(t, c.s, "acme", newAgent(1).request(), []byte{0, 0xff})
	title := "a title"
	if _, err := c.s.Archive().DescribeSession("acme", session, record.Description{Title: &title, Tags: []string{"tag"}, Note: &title}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.s.Archive().DescribeExchange("acme", partial, record.Description{Tags: []string{"bad"}, Note: &title}); err != nil {
		t.Fatal(err)
	}
	c.summarize(session, "what was said")
	open, err := c.s.Begin(ctx, say("still open"))
	if err != nil {
		t.Fatal(err)
	}
	want := exported(t, c.s, "acme", record.Selection{All: true})
	if err := open.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
		t.Fatal(err)
	}

	d := newConversation(t)
	mustAccount(t, d.s, "elsewhere")
	for round, taken := range []bool{true, false} {
		for _, e := range want {
			got, err := d.s.Archive().Import(ctx, "elsewhere", e)
			if err != nil {
				t.Fatal(err)
			}
			if got != taken {
				t.Errorf("round %d: taken is %v", round, got)
			}
		}
	}
	d.settle()
	mustBeSound(t, d.s)
	if m, err := d.s.Archive().SessionSummary("elsewhere", session); err != nil || m == nil || m.Text != "what was said" {
		t.Errorf("the summary is %+v (%v)", m, err)
	}
	for _, e := range want {
		if e.Exchange != nil {
			e.Exchange.Disown()
		}
	}
	if diff := cmp.Diff(want, exported(t, d.s, "elsewhere", record.Selection{All: true})); diff != "" {
		t.Errorf("export and import differ (-want +got):\n%s", diff)
	}
	if page, err := d.s.Archive().Exchanges("acme", record.ExchangeQuery{}); err != nil || len(page.Data) != 0 {
		t.Errorf("another account got %d exchanges (%v)", len(page.Data), err)
	}
	timeline, err := d.s.Archive().Timeline("elsewhere", session, record.TimelineQuery{})
	if err != nil || len(timeline.Data) != 2 || timeline.Data[1].Turn == nil || timeline.Data[1].Turn.Known != 2 {
		t.Errorf("imported exchanges are not digested: %+v (%v)", timeline, err)
	}
}

func TestAnExportHasOnlySelectedExchangesOfOneAccount(t *testing.T) {
	c := newConversation(t)
	session := c.session(with(say("1"), func(o *record.Opening) { o.ChatKey = "k" }), "2")
	c.session(with(say("1"), func(o *record.Opening) { o.ChatKey = "l" }), "2")
	foreign := c.session(with(say("1"), func(o *record.Opening) { o.ChatKey, o.Account = "k", "other" }), "2")
	for _, step := range []struct {
		sel  record.Selection
		want int
	}{
		{record.Selection{All: true}, 4},
		{record.Selection{Sessions: []string{session}}, 2},
		{record.Selection{ChatKey: "l"}, 2},
		{record.Selection{Sessions: []string{foreign}}, 0},
	} {
		if got := exported(t, c.s, "acme", step.sel); len(got) != step.want {
			t.Errorf("%+v exports %d steps, want %d", step.sel, len(got), step.want)
		}
	}
	n := 0
	for _, err := range c.s.Archive().Export(context.Background(), "acme", record.Selection{All: true}) {
		if err != nil {
			t.Fatal(err)
		}
		n++
		break
	}
	if n != 1 {
		t.Errorf("an export that is left goes on")
	}
	for _, err := range c.s.Archive().Export(context.Background(), "nobody", record.Selection{All: true}) {
		wantKind(t, err, codec.KindNotFound)
	}
}

// summarize puts a summary of a session on record, as a model's.
func (c *talk) summarize(session, text string) {
	c.t.Helper()
	c.settle()
	written := record.SessionSummary{Text: text, By: "model m", Written: time.Date(2026, 11, 21, 8, 0, 0, 0, time.UTC)}
	if err := c.s.Summaries().KeepSessionSummary(context.Background(), "acme", session, written, nil, nil); err != nil {
		c.t.Fatal(err)
	}
}

// A summary may describe exchanges that are not exported.
func TestASummaryIsExportedOnlyWithItsWholeSession(t *testing.T) {
	c := newConversation(t)
	first, session := c.exchange(with(say("1"), func(o *record.Opening) { o.ChatKey = "k" }), record.OutcomeComplete, "2")
	second, _ := c.exchange(with(say("1", "2", "3"), func(o *record.Opening) { o.ChatKey = "k" }), record.OutcomeComplete, "4")
	c.session(with(say("1"), func(o *record.Opening) { o.ChatKey = "l" }), "2")
	c.summarize(session, "what was said")
	begun, err := c.s.Archive().Exchange("acme", second)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		sel  record.Selection
		want bool
	}{
		{record.Selection{All: true}, true},
		{record.Selection{Sessions: []string{session}}, true},
		{record.Selection{ChatKey: "k"}, true},
		{record.Selection{Exchanges: []string{first, second}}, true},
		{record.Selection{Exchanges: []string{first}}, false},
		{record.Selection{Until: begun.Started}, false},
		{record.Selection{Sessions: []string{session}, Since: begun.Started}, false},
	} {
		given := false
		for _, e := range exported(t, c.s, "acme", step.sel) {
			given = given || e.Summary != nil
		}
		if given != step.want {
			t.Errorf("%+v exports the summary: %t, want %t", step.sel, given, step.want)
		}
	}
}

// An export may come from an installation that masks less, or from a stranger.
func TestAnImportedSummaryIsMaskedAndTruncated(t *testing.T) {
	redactor, err := redact.New(redact.Options{Builtin: true})
	if err != nil {
		t.Fatal(err)
	}
	c := newConversation(t)
	session := c.session(say("1"), "2")
	c.summarize(session, "the key is sk-ant-api03-"+strings.Repeat("a", 93)+"AA. "+strings.Repeat("more ", 2000))
	steps := exported(t, c.s, "acme", record.Selection{All: true})
	steps[0].Summary.Text += strings.Repeat("more ", 2000)
	s := openStore(t, Options{Redact: redactor})
	mustAccount(t, s, "acme")
	if _, err := s.Archive().Import(t.Context(), "acme", steps[0]); err != nil {
		t.Fatal(err)
	}
	m, err := s.Archive().SessionSummary("acme", session)
	if err != nil || m == nil || len(m.Text) > record.MaxSummary || strings.Contains(m.Text, "aaaa") {
		t.Errorf("%.200v (%v)", m, err)
	}
}

func TestInvalidElementsAreNotImported(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	for i, e := range []record.Exported{
		{Session: &record.Session{ID: "sess_nonsense"}},
		{Exchange: &record.Exchange{ExchangeInfo: record.ExchangeInfo{ID: "../../etc"}}},
		{Exchange: &record.Exchange{ExchangeInfo: record.ExchangeInfo{ID: kv.ExchangeID(s.ids.Next(s.accounts.All()[0].Created)).String(), Outcome: record.OutcomeOpen}}},
		{Exchange: &record.Exchange{ExchangeInfo: record.ExchangeInfo{ID: kv.ExchangeID(s.ids.Next(s.accounts.All()[0].Created)).String(), Outcome: record.OutcomeComplete, Note: strings.Repeat("x", record.MaxNote+1)}}},
	} {
		if _, err := s.Archive().Import(context.Background(), "acme", e); err == nil {
			t.Errorf("step %d was taken", i)
		} else {
			wantKind(t, err, codec.KindInvalidRequest)
		}
	}
	odd := record.Exported{Exchange: &record.Exchange{
		ExchangeInfo: record.ExchangeInfo{ID: kv.ExchangeID(s.ids.Next(s.accounts.All()[0].Created)).String(), Outcome: record.OutcomeComplete, Started: time.Now(), Surface: "chat"},
		RawRequest:   []byte("no JSON at all"), RawResponse: bytes.Repeat([]byte{1}, 3*recording.PartSize),
	}}
	if taken, err := s.Archive().Import(context.Background(), "acme", odd); err != nil || !taken {
		t.Fatal(taken, err)
	}
	x, err := s.Archive().Exchange("acme", odd.Exchange.ID)
	if err != nil || !bytes.Equal(x.RawRequest, odd.Exchange.RawRequest) || !bytes.Equal(x.RawResponse, odd.Exchange.RawResponse) {
		t.Error(fmt.Sprint("what was imported comes back different: ", err))
	}
}

func TestAnExchangeImportedWithoutItsSessionGetsOneOfItsNewAccount(t *testing.T) {
	c := newConversation(t)
	id, _ := c.exchange(with(say("1"), func(o *record.Opening) { o.ChatKey = "k" }), record.OutcomeComplete, "2")
	x, err := c.s.Archive().Exchange("acme", id)
	if err != nil {
		t.Fatal(err)
	}
	d := newConversation(t)
	mustAccount(t, d.s, "elsewhere")
	if taken, err := d.s.Archive().Import(t.Context(), "elsewhere", record.Exported{Exchange: x}); err != nil || !taken {
		t.Fatal(taken, err)
	}
	page, err := d.s.Archive().Sessions("elsewhere", record.SessionQuery{ChatKey: "k"})
	if err != nil || len(page.Data) != 1 || page.Data[0].Account != "elsewhere" {
		t.Errorf("%+v, %v", page.Data, err)
	}
}

// The record of a session is written with each of its exchanges, by the one writer that all accounts share.
func TestImportedSessionsHaveTheLimitsOfCapturedOnes(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	long := strings.Repeat("x", 1<<20)
	for name, spoil := range map[string]func(*record.Session){
		"title":   func(s *record.Session) { s.Title = long },
		"tag":     func(s *record.Session) { s.Tags = []string{long} },
		"tags":    func(s *record.Session) { s.Tags = strings.Split(strings.Repeat("tag ", 1000)+"tag", " ") },
		"model":   func(s *record.Session) { s.Models = []string{long} },
		"models":  func(s *record.Session) { s.Models = strings.Split(strings.Repeat("m ", 1000)+"m", " ") },
		"key":     func(s *record.Session) { s.ChatKey = long },
		"native":  func(s *record.Session) { s.NativeSession = long },
		"parent":  func(s *record.Session) { s.Parent = long },
		"control": func(s *record.Session) { s.ExternalSession = "\x00agent" },
	} {
		session := record.Session{ID: kv.SessionID(s.ids.Next(time.Now())).String()}
		spoil(&session)
		_, err := s.Archive().Import(t.Context(), "acme", record.Exported{Session: &session})
		if e := (*codec.Error)(nil); !errors.As(err, &e) || e.Kind != codec.KindInvalidRequest {
			t.Errorf("%s: %v", name, err)
		}
	}
	x := &record.Exchange{ExchangeInfo: record.ExchangeInfo{
		ID: kv.ExchangeID(s.ids.Next(time.Now())).String(), Session: "sess_gone", Surface: "chat", Format: "chat", Outcome: record.OutcomeComplete, Started: time.Now(), ModelAsked: long,
	}}
	if _, err := s.Archive().Import(t.Context(), "acme", record.Exported{Exchange: x}); err != nil {
		t.Fatal(err)
	}
	page, err := s.Archive().Sessions("acme", record.SessionQuery{})
	if err != nil || len(page.Data) != 1 || len(page.Data[0].Models[0]) != record.MaxModelName {
		t.Errorf("%d sessions, %v", len(page.Data), err)
	}
}

func TestAnExportContinuesAfterDamage(t *testing.T) {
	c := newConversation(t)
	first, _ := c.exchange(say("one"), record.OutcomeComplete, "a")
	second, session := c.exchange(say("two"), record.OutcomeComplete, "b")
	third, _ := c.exchange(say("three"), record.OutcomeComplete, "c")
	damageExchange(t, c.s, "acme", first)
	number, _ := c.s.accounts.Find("acme")
	id, _ := kv.ParseSessionID(session)
	damage(t, c.s, kv.SessionKey(number, id), []byte("damaged"))
	var whole, damaged []string
	for step, err := range c.s.Archive().Export(t.Context(), "acme", record.Selection{All: true}) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case step.Exchange != nil:
			whole = append(whole, step.Exchange.ID)
		case step.Damaged != nil:
			if step.Damaged.Error == "" {
				t.Errorf("nothing is said of why %s is missing", step.Damaged.ID)
			}
			damaged = append(damaged, step.Damaged.ID)
		}
	}
	if !slices.Equal(whole, []string{second, third}) || !slices.Equal(damaged, []string{first, session}) {
		t.Errorf("whole are %v, damaged %v", whole, damaged)
	}
}

func TestAnImportedExchangeAgesFromItsImport(t *testing.T) {
	ctx := context.Background()
	from := newConversation(t)
	for age := range 3 {
		from.exchange(with(say("years ago"), func(o *record.Opening) { o.Started = time.Now().AddDate(-age-2, 0, 0) }), record.OutcomeComplete, "answer")
	}
	var log bytes.Buffer
	s := openStore(t, Options{Retention: Retention{MaxAge: time.Hour}, Log: slog.New(slog.NewTextHandler(&log, nil))})
	mustAccount(t, s, "acme")
	for _, e := range exported(t, from.s, "acme", record.Selection{All: true}) {
		if _, err := s.Archive().Import(ctx, "acme", e); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() int {
		page, err := s.Archive().Exchanges("acme", record.ExchangeQuery{})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range page.Data {
			if old := time.Since(x.Started) > 365*24*time.Hour; old == x.Imported.IsZero() {
				t.Errorf("it began %v and was imported %v", x.Started, x.Imported)
			}
		}
		return len(page.Data)
	}
	if err := s.keeper.Retention.Enforce(ctx, time.Now()); err != nil || kept() != 3 {
		t.Fatalf("right behind the import %d are left (%v)", kept(), err)
	}
	native := captureBody(t, s, "acme", newAgent(1).request(), nil)
	if err := s.keeper.Retention.Enforce(ctx, time.Now().Add(59*time.Minute)); err != nil || kept() != 4 {
		t.Fatalf("before their time %d are left (%v)", kept(), err)
	}
	if strings.Contains(log.String(), "retention") {
		t.Errorf("nothing was erased, and the log says %s", log.String())
	}
	if err := s.keeper.Retention.Enforce(ctx, time.Now().Add(61*time.Minute)); err != nil || kept() != 0 {
		t.Fatalf("behind their time %d are left, %s too (%v)", kept(), native, err)
	}
	if line := log.String(); !strings.Contains(line, "account=acme exchanges=4") || !strings.Contains(line, "retention.max_age") {
		t.Errorf("the log says %q", line)
	}
	if usage, err := s.Archive().Usage(ctx, "acme"); err != nil || usage.ErasedByRetention != 4 {
		t.Errorf("retention has erased %d (%v)", usage.ErasedByRetention, err)
	}
}
