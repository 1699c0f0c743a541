// Package storetest holds every memory engine to what package store promises: exchanges are read as they were recorded,
// in order, by their own account only, and not after they are erased. An engine passes [Run]; a search engine over it
// passes [RunSearch]. What a server builds on passes [RunWhole] and [RunRanking].
package storetest

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
)

// Memory records exchanges, reads and erases them.
type Memory interface {
	Recorder
	Reader
}

// Recorder puts exchanges on record.
type Recorder interface {
	Begin(ctx context.Context, o *record.Opening) (store.Recording, error)
	Off() store.Recording
}

// Reader reads exchanges, and erases them.
type Reader interface {
	Exchange(account, id string) (*record.Exchange, error)
	ExchangeInfo(account, id string) (*record.ExchangeInfo, error)
	Exchanges(account string, q record.ExchangeQuery) (record.ExchangePage, error)
	Session(account, id string) (*record.Session, error)
	Sessions(account string, q record.SessionQuery) (record.SessionPage, error)
	Timeline(account, session string, q record.TimelineQuery) (record.TimelinePage, error)
	Erase(ctx context.Context, account string, sel record.Selection, dryRun bool) (*record.Erasure, error) // which may go on after it returns
	Erasure(account, id string) (*record.Erasure, error)
}

// Answers finds what was answered by the ids that providers give their answers. A memory that has it has to keep its promises.
type Answers interface {
	AnsweredAs(account, response string) (exchange string, err error)
}

// Editor puts sessions together and takes them apart. A memory that has it has to keep its promises.
type Editor interface {
	MergeSession(ctx context.Context, account, from, into string) (*record.Session, error)
	SplitSession(ctx context.Context, account, session, exchange string) (*record.Session, error)
}

// Describer lets people describe sessions. A memory that has it has to keep its promises.
type Describer interface {
	DescribeSession(account, id string, d record.Description) (*record.Session, error)
}

// Transfer gives and takes what is exported. A memory that has it has to keep its promises.
type Transfer interface {
	Export(ctx context.Context, account string, sel record.Selection) iter.Seq2[record.Exported, error]
	Import(ctx context.Context, account string, e record.Exported) (taken bool, err error)
}

// Teller tells of commits.
type Teller interface {
	Subscribe(account string, after uint64) (*record.Subscription, error)
}

// Searcher finds what a memory holds.
type Searcher interface {
	Search(ctx context.Context, account string, r *search.Request) (*search.Answer, error)
	Wait(ctx context.Context, account string) error
}

// The accounts of the suites; no other exists.
const (
	owner    = "acme"
	stranger = "globex"
)

// Accounts are those that a memory under test has.
func Accounts() []string { return []string{owner, stranger} }

// Run tests a memory. open gives an empty one that has the [Accounts], and closes it with the test.
func Run(t *testing.T, open func(*testing.T) Memory) {
	for _, property := range []struct {
		name string
		test func(*testing.T, Memory)
	}{
		{"what is recorded is read as it came", readAsItCame},
		{"a request is on record before its answer", onRecordBeforeItsAnswer},
		{"lists are in order, page by page", inOrder},
		{"one conversation is one session", oneSession},
		{"no account sees another's", tenancy},
		{"what is erased is gone", erased},
		{"what is off the record leaves nothing", offTheRecord},
		{"an account has to exist", unknownAccount},
	} {
		t.Run(property.name, func(t *testing.T) { property.test(t, open(t)) })
	}
}

// RunWhole is [Run], and tests what a server needs of a memory besides.
func RunWhole(t *testing.T, open func(*testing.T) Memory) {
	Run(t, open)
	t.Run("a conversation goes on from its answers", func(t *testing.T) { continued(t, open(t)) })
	t.Run("sessions are put together and taken apart", func(t *testing.T) { edited(t, open(t)) })
	t.Run("a merged conversation goes on from its answers", func(t *testing.T) { continuedAfterAMerge(t, open(t)) })
	t.Run("what is exported is imported as it was", func(t *testing.T) { transferred(t, open(t)) })
	t.Run("who watches an account is told what ends there", func(t *testing.T) { told(t, open(t)) })
}

// RunSearch tests a search engine over a memory.
func RunSearch(t *testing.T, open func(*testing.T) (Memory, Searcher)) {
	runSearches(t, open, []searchProperty{
		{"what has ended is found after a wait", foundAfterAWait},
		{"no account finds another's", findsItsOwn},
		{"what is erased is not found", erasedIsNotFound},
	})
}

type searchProperty struct {
	name string
	test func(*testing.T, Memory, Searcher)
}

func runSearches(t *testing.T, open func(*testing.T) (Memory, Searcher), properties []searchProperty) {
	for _, property := range properties {
		t.Run(property.name, func(t *testing.T) {
			m, s := open(t)
			property.test(t, m, s)
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func isMissing(err error) bool {
	return err != nil && codec.AsError(err, "").Kind == codec.KindNotFound
}

// question is a request of the chat surface, reply its answer.
func question(text string) string {
	return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}]}`, text)
}

func reply(text string) string {
	return fmt.Sprintf(`{"id":"1","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}]}`, text)
}

func begin(t *testing.T, m Memory, chatKey, request string) store.Recording {
	t.Helper()
	r, err := m.Begin(t.Context(), &record.Opening{
		Account: owner, Surface: codec.Chat, Format: codec.Chat, ModelAsked: "m", ChatKey: chatKey,
		ContentType: "application/json", Body: []byte(request),
	})
	check(t, err)
	return r
}

// stored puts an exchange of the owner on record and gives its id.
func stored(t *testing.T, m Memory, chatKey, asked, answered string) string {
	t.Helper()
	r := begin(t, m, chatKey, question(asked))
	_, err := r.Write([]byte(reply(answered)))
	check(t, err)
	check(t, r.Finish(&record.Closing{
		Outcome: record.OutcomeComplete, Status: 200, ContentType: "application/json", LastByte: time.Now(),
		Usage: codec.Usage{InputUncached: 10, Output: 5}, Cost: &record.Cost{USD: record.Dollar, Saved: record.Dollar, Price: "m@2026-01-01"},
	}))
	return r.ID()
}

// erase returns when an exchange is erased.
func erase(t *testing.T, m Memory, account, id string) *record.Erasure {
	t.Helper()
	e, err := m.Erase(t.Context(), account, record.Selection{Exchanges: []string{id}}, false)
	for deadline := time.Now().Add(time.Minute); err == nil && e.State != record.ErasureDone; e, err = m.Erasure(account, e.ID) {
		if time.Now().After(deadline) {
			t.Fatalf("the erasure is not done: %+v", e)
		}
		time.Sleep(time.Millisecond)
	}
	check(t, err)
	return e
}

func readAsItCame(t *testing.T, m Memory) {
	request := question(strings.Repeat("where is the lock taken? ", 1000))
	r := begin(t, m, "", request)
	var whole strings.Builder
	piece := make([]byte, 3)
	for n := range 5000 {
		copy(piece, fmt.Sprintf("%03d", n%1000)) // the caller goes on using its buffer
		whole.Write(piece)
		_, err := r.Write(piece)
		check(t, err)
	}
	check(t, r.Finish(&record.Closing{Outcome: record.OutcomeUpstreamError, Status: 502, LastByte: time.Now()}))
	x, err := m.Exchange(owner, r.ID())
	check(t, err)
	if string(x.RawRequest) != request || string(x.RawResponse) != whole.String() {
		t.Errorf("of %d and %d bytes %d and %d are read, or others", len(request), whole.Len(), len(x.RawRequest), len(x.RawResponse))
	}
	if x.Outcome != record.OutcomeUpstreamError || x.Status != 502 || x.ModelAsked != "m" || x.Account != owner {
		t.Errorf("the record is %+v", x.ExchangeInfo)
	}
}

func onRecordBeforeItsAnswer(t *testing.T, m Memory) {
	r := begin(t, m, "a", question("hello"))
	check(t, r.Recorded(t.Context()))
	x, err := m.ExchangeInfo(owner, r.ID())
	check(t, err)
	if x.Session == "" || r.SessionID() != x.Session || x.Outcome == record.OutcomeComplete {
		t.Errorf("the record is %+v, its session %q", x, r.SessionID())
	}
	check(t, r.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200}))
}

func inOrder(t *testing.T, m Memory) {
	var ids []string
	for n := range 5 {
		ids = append(ids, stored(t, m, "", fmt.Sprint("question ", n), "answer"))
	}
	if !slices.IsSorted(ids) {
		t.Errorf("ids do not ascend with time: %v", ids)
	}
	slices.Reverse(ids)
	var listed []string
	for q := (record.ExchangeQuery{Limit: 2}); ; {
		page, err := m.Exchanges(owner, q)
		check(t, err)
		for i := range page.Data {
			listed = append(listed, page.Data[i].ID)
		}
		if !page.HasMore {
			break
		}
		q.After = page.Data[len(page.Data)-1].ID
	}
	if !slices.Equal(listed, ids) {
		t.Errorf("the pages have %v, want %v", listed, ids)
	}
}

func oneSession(t *testing.T, m Memory) {
	first, second := stored(t, m, "a", "one", "1"), stored(t, m, "a", "two", "2")
	other := stored(t, m, "b", "three", "3")
	session := func(id string) string {
		x, err := m.ExchangeInfo(owner, id)
		check(t, err)
		return x.Session
	}
	if session(first) != session(second) || session(first) == session(other) {
		t.Errorf("the sessions are %s, %s and %s", session(first), session(second), session(other))
	}
	timeline, err := m.Timeline(owner, session(first), record.TimelineQuery{})
	check(t, err)
	if len(timeline.Data) != 2 || timeline.Data[0].Exchange.ID != first || timeline.Data[1].Exchange.ID != second {
		t.Errorf("the timeline has %d entries, or others", len(timeline.Data))
	}
	s, err := m.Session(owner, session(first))
	check(t, err)
	page, err := m.Sessions(owner, record.SessionQuery{ChatKey: "a"})
	check(t, err)
	if s.Exchanges != 2 || len(page.Data) != 1 || page.Data[0].ID != s.ID {
		t.Errorf("the session is %+v, listed as %+v", s, page.Data)
	}
	_, noSession := m.Session(owner, first)
	_, noExchange := m.Exchange(owner, s.ID)
	for id, err := range map[string]error{"exchange": noSession, "session": noExchange} {
		if !isMissing(err) || !strings.Contains(err.Error(), "that is the id of a") {
			t.Errorf("the id of the other kind, of a %s, leads to %v", id, err)
		}
	}
}

func tenancy(t *testing.T, m Memory) {
	id := stored(t, m, "a", "what is the secret?", "it is not told")
	x, err := m.ExchangeInfo(owner, id)
	check(t, err)
	_, whole := m.Exchange(stranger, id)
	_, info := m.ExchangeInfo(stranger, id)
	_, session := m.Session(stranger, x.Session)
	for name, err := range map[string]error{"the exchange": whole, "what is known of it": info, "its session": session} {
		if !isMissing(err) {
			t.Errorf("%s is given to another account, with error %v", name, err)
		}
	}
	if timeline, err := m.Timeline(stranger, x.Session, record.TimelineQuery{}); len(timeline.Data) > 0 || err != nil && !isMissing(err) {
		t.Errorf("the timeline: %+v, %v", timeline, err)
	}
	exchanges, err := m.Exchanges(stranger, record.ExchangeQuery{})
	check(t, err)
	sessions, err := m.Sessions(stranger, record.SessionQuery{})
	check(t, err)
	if len(exchanges.Data)+len(sessions.Data) > 0 {
		t.Error("another account lists them")
	}
	if e := erase(t, m, stranger, id); e.Exchanges > 0 {
		t.Errorf("another account erases %d exchanges", e.Exchanges)
	}
	if _, err := m.Exchange(owner, id); err != nil {
		t.Errorf("another account has erased it: %v", err)
	}
}

func erased(t *testing.T, m Memory) {
	gone, stays := stored(t, m, "a", "one", "1"), stored(t, m, "b", "two", "2")
	would, err := m.Erase(t.Context(), owner, record.Selection{Exchanges: []string{gone}}, true)
	check(t, err)
	if _, err := m.Exchange(owner, gone); err != nil || would.Exchanges != 1 {
		t.Errorf("after a dry run of %d: %v", would.Exchanges, err)
	}
	done := erase(t, m, owner, gone)
	if _, err := m.Exchange(owner, gone); !isMissing(err) || done.Exchanges != 1 {
		t.Errorf("after the erasure of %d: %v", done.Exchanges, err)
	}
	page, err := m.Exchanges(owner, record.ExchangeQuery{})
	check(t, err)
	sessions, err := m.Sessions(owner, record.SessionQuery{})
	check(t, err)
	if len(page.Data) != 1 || page.Data[0].ID != stays || len(sessions.Data) != 1 {
		t.Errorf("%d exchanges in %d sessions are left", len(page.Data), len(sessions.Data))
	}
}

func offTheRecord(t *testing.T, m Memory) {
	r := m.Off()
	check(t, r.Recorded(t.Context()))
	_, err := r.Write([]byte("nothing of this"))
	check(t, err)
	check(t, r.Finish(&record.Closing{Outcome: record.OutcomeComplete}))
	if page, err := m.Exchanges(owner, record.ExchangeQuery{}); err != nil || len(page.Data) > 0 || r.ID() == "" {
		t.Errorf("%q has left %+v, %v", r.ID(), page.Data, err)
	}
}

// continued has a conversation that names its answers alone go on, and a subagent of a client beside it.
// respond puts a turn of the surface of Responses on record, whose answer has an id, and gives its session.
func respond(t *testing.T, m Memory, o record.Opening, response string) (session string) {
	t.Helper()
	o.Account, o.Surface, o.Format, o.ModelAsked, o.ContentType = owner, codec.Responses, codec.Responses, "m", "application/json"
	o.Body = []byte(`{"model":"m","input":"go on"}`)
	r, err := m.Begin(t.Context(), &o)
	check(t, err)
	_, err = r.Write([]byte(`{"id":"` + response + `","object":"response","output":[]}`))
	check(t, err)
	check(t, r.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200, ResponseID: response, LastByte: time.Now()}))
	x, err := m.ExchangeInfo(owner, r.ID())
	check(t, err)
	return x.Session
}

func continued(t *testing.T, m Memory) {
	first := respond(t, m, record.Opening{NativeSession: "n"}, "resp_one")
	if second := respond(t, m, record.Opening{NativeSession: "n"}, "resp_two"); second != first {
		t.Errorf("by the client's own id the turns are of sessions %s and %s", first, second)
	}
	if third := respond(t, m, record.Opening{PreviousResponse: "resp_two"}, "resp_three"); third != first {
		t.Errorf("by the answer that it goes on from the third turn is of session %s, the others of %s", third, first)
	}
	if helper := respond(t, m, record.Opening{NativeSession: "n", NativeAgent: "a"}, "resp_four"); helper == first {
		t.Error("a subagent is of the session that it works for")
	}
	a, can := m.(Answers)
	if !can {
		return
	}
	id, err := a.AnsweredAs(owner, "resp_three")
	check(t, err)
	if x, err := m.Exchange(owner, id); err != nil || !strings.Contains(string(x.RawResponse), "resp_three") {
		t.Errorf("by its id another answer is found, or none: %v", err)
	}
	if id, err := a.AnsweredAs(stranger, "resp_three"); !isMissing(err) {
		t.Errorf("another account finds %s by the id (%v)", id, err)
	}
}

func told(t *testing.T, m Memory) {
	teller, can := m.(Teller)
	if !can {
		t.Skip("SKIPPED: this memory tells nothing")
	}
	own, err := teller.Subscribe(owner, 0)
	check(t, err)
	defer own.Close()
	other, err := teller.Subscribe(stranger, 0)
	check(t, err)
	id := stored(t, m, "a", "where is the mutex taken?", "in the writer")
	defer time.AfterFunc(time.Minute, own.Close).Stop()
	wanted := []record.EventKind{record.ExchangeCompleted, record.TurnDigested}
	for e := range own.Events {
		if e.Kind == record.ExchangeCreated {
			continue
		}
		if e.Kind != wanted[0] || e.Exchange != id || e.Session == "" || e.Outcome != record.OutcomeComplete {
			t.Errorf("got %+v, want %s of %s with its session", e, wanted[0], id)
		}
		if wanted = wanted[1:]; len(wanted) == 0 {
			break
		}
	}
	if len(wanted) > 0 {
		t.Errorf("within a minute nothing is told of %v", wanted)
	}
	other.Close()
	for e := range other.Events {
		t.Errorf("another account is told %+v", e)
	}
}

func edited(t *testing.T, m Memory) {
	e, can := m.(Editor)
	if !can {
		t.Skip("SKIPPED: this memory does not change sessions")
	}
	session := func(id string) string {
		x, err := m.ExchangeInfo(owner, id)
		check(t, err)
		return x.Session
	}
	members := func(session string) (ids []string) {
		page, err := m.Timeline(owner, session, record.TimelineQuery{})
		check(t, err)
		for i := range page.Data {
			ids = append(ids, page.Data[i].Exchange.ID)
		}
		return ids
	}
	ids := []string{stored(t, m, "a", "one", "1"), stored(t, m, "b", "two", "2"), stored(t, m, "a", "three", "3")}
	a, b := session(ids[0]), session(ids[1])
	for name, try := range map[string]func() error{
		"merges": func() error { _, err := e.MergeSession(t.Context(), stranger, b, a); return err },
		"splits": func() error { _, err := e.SplitSession(t.Context(), stranger, a, ids[2]); return err },
	} {
		if err := try(); !isMissing(err) {
			t.Errorf("another account %s sessions (%v)", name, err)
		}
	}
	s, err := e.MergeSession(t.Context(), owner, b, a)
	check(t, err)
	if s.ID != a || s.Exchanges != 3 || !slices.Equal(members(a), ids) {
		t.Errorf("the sessions together are %+v, with %v, want %v", s, members(a), ids)
	}
	if s, err := m.Session(owner, b); err != nil || s.Merged != a || s.Exchanges != 0 || s.Usage.InputUncached != 0 || s.Cost != (record.Spending{}) {
		t.Errorf("the session that was merged is %+v (%v)", s, err)
	}
	if !slices.Equal(members(b), ids) {
		t.Errorf("the id of the session that was merged leads to %v, want %v", members(b), ids)
	}
	if _, err := e.MergeSession(t.Context(), owner, b, a); err == nil {
		t.Error("it is merged twice")
	}
	next := stored(t, m, "b", "four", "4")
	if session(next) != a {
		t.Errorf("what goes on from the merged session is of %s, want %s", session(next), a)
	}
	if _, err := e.SplitSession(t.Context(), owner, a, ids[0]); err == nil {
		t.Error("all of a session is split off")
	}
	s, err = e.SplitSession(t.Context(), owner, b, ids[2]) // b leads to a
	check(t, err)
	if s.Exchanges != 2 || !slices.Equal(members(s.ID), []string{ids[2], next}) || !slices.Equal(members(a), ids[:2]) {
		t.Errorf("apart, the sessions have %v and %v, counted %d", members(a), members(s.ID), s.Exchanges)
	}
	if s, err := m.Session(owner, a); err != nil || s.Exchanges != 2 || s.Completed != 2 || s.Cost.USD != 2*record.Dollar {
		t.Errorf("what is left is %+v (%v)", s, err)
	}
}

func continuedAfterAMerge(t *testing.T, m Memory) {
	e, can := m.(Editor)
	if !can {
		t.Skip("SKIPPED: this memory does not change sessions")
	}
	a := respond(t, m, record.Opening{}, "resp_a")
	b := respond(t, m, record.Opening{}, "resp_b")
	if again := respond(t, m, record.Opening{PreviousResponse: "resp_b"}, "resp_b2"); a == b || again != b {
		t.Fatalf("the sessions are %s, %s, and of a turn that goes on from the second, %s", a, b, again)
	}
	_, err := e.MergeSession(t.Context(), owner, b, a)
	check(t, err)
	for _, answer := range []string{"resp_a", "resp_b", "resp_b2"} {
		if s := respond(t, m, record.Opening{PreviousResponse: answer}, answer+"_next"); s != a {
			t.Errorf("what goes on from %s is of %s, and the conversation of %s", answer, s, a)
		}
	}
	if s, err := m.Session(owner, a); err != nil || s.Exchanges != 6 {
		t.Errorf("the conversation is %+v (%v)", s, err)
	}
}

func transferred(t *testing.T, m Memory) {
	moved, can := m.(Transfer)
	if !can {
		t.Skip("SKIPPED: this memory gives and takes no exports")
	}
	ids := []string{stored(t, m, "a", "one", "1"), stored(t, m, "a", "two", "2"), stored(t, m, "b", "three", "3")}
	was := make(map[string]*record.Exchange)
	for _, id := range ids {
		x, err := m.Exchange(owner, id)
		check(t, err)
		was[id] = x
	}
	var all []record.Exported
	for e, err := range moved.Export(t.Context(), owner, record.Selection{All: true}) {
		check(t, err)
		all = append(all, e)
	}
	if len(all) != 5 { // two sessions and three exchanges
		t.Fatalf("%d steps are exported", len(all))
	}
	var rest []string
	for e, err := range moved.Export(t.Context(), owner, record.Selection{All: true, After: all[1].Exchange.ID}) {
		check(t, err)
		if e.Exchange != nil {
			rest = append(rest, e.Exchange.ID)
		}
	}
	if !slices.Equal(rest, slices.Sorted(maps.Keys(was))[1:]) {
		t.Errorf("after the first exchange, %v are exported", rest)
	}
	for _, again := range []bool{false, true} {
		for _, e := range all {
			if taken, err := moved.Import(t.Context(), stranger, e); err != nil || taken == again {
				t.Fatalf("imported: %v, where it was before: %v (%v)", taken, again, err)
			}
		}
	}
	for id, want := range was {
		x, err := m.Exchange(stranger, id)
		check(t, err)
		if !bytes.Equal(x.RawRequest, want.RawRequest) || !bytes.Equal(x.RawResponse, want.RawResponse) || x.Session != want.Session || !x.Started.Equal(want.Started) {
			t.Errorf("%s is imported as %+v", id, x.ExchangeInfo)
		}
	}
	page, err := m.Sessions(stranger, record.SessionQuery{ChatKey: "a"})
	check(t, err)
	if len(page.Data) != 1 || page.Data[0].Exchanges != 2 {
		t.Errorf("the session is imported as %+v", page.Data)
	}
}

func unknownAccount(t *testing.T, m Memory) {
	r, err := m.Begin(t.Context(), &record.Opening{Account: "nobody", Surface: codec.Chat, Body: []byte(question("hello"))})
	if err == nil || r != nil {
		t.Error("an exchange of an account that is not there was begun")
	}
}

func find(t *testing.T, s Searcher, account, query string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check(t, s.Wait(ctx, account))
	answer, err := s.Search(ctx, account, &search.Request{Query: query, Mode: search.Lexical})
	check(t, err)
	var found []string
	for i := range answer.Data {
		found = append(found, answer.Data[i].Exchange)
	}
	return found
}

func foundAfterAWait(t *testing.T, m Memory, s Searcher) {
	stored(t, m, "a", "how do I bake bread?", "with flour")
	id := stored(t, m, "b", "where is the mutex taken?", "in the writer")
	for _, query := range []string{"mutex", "writer"} {
		if found := find(t, s, owner, query); !slices.Equal(found, []string{id}) {
			t.Errorf("%q finds %v, want %s", query, found, id)
		}
	}
}

func findsItsOwn(t *testing.T, m Memory, s Searcher) {
	stored(t, m, "a", "where is the mutex taken?", "in the writer")
	if found := find(t, s, stranger, "mutex"); len(found) > 0 {
		t.Errorf("another account finds %v", found)
	}
}

func erasedIsNotFound(t *testing.T, m Memory, s Searcher) {
	id := stored(t, m, "a", "where is the mutex taken?", "in the writer")
	find(t, s, owner, "mutex")
	erase(t, m, owner, id)
	if found := find(t, s, owner, "mutex"); len(found) > 0 {
		t.Errorf("after the erasure %v is found", found)
	}
}

func answerTo(t *testing.T, s Searcher, account string, r *search.Request) *search.Answer {
	t.Helper()
	check(t, s.Wait(t.Context(), account))
	answer, err := s.Search(t.Context(), account, r)
	check(t, err)
	return answer
}
