package store

import (
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/conversation"
	"github.com/mnemeproxy/mneme/store/record"
)

// elsewhere is an exchange as an export of another store has it.
func elsewhere(change func(*record.Exchange)) *record.Exchange {
	started := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	x := &record.Exchange{
		ExchangeInfo: record.ExchangeInfo{
			ID: record.DerivedExchangeID(started, "elsewhere", "1"), KeyID: "key_of_someone", Outcome: record.OutcomeComplete, Status: 200,
			Started: started, FirstByte: started.Add(time.Second), LastByte: started.Add(2 * time.Second),
			Surface: "chat", Format: "chat", Provider: "openai", ModelAsked: "gpt-4.1", ModelSent: "gpt-4.1",
			Usage: record.UsageInfo{InputUncached: 10, Output: 5}, Cost: &record.Cost{USD: record.Dollar, Price: "gpt-4.1@2026-11-20"},
		},
		RawRequest:  []byte(`{"model":"gpt-4.1","messages":[{"role":"user","content":"hi"}]}`),
		RawResponse: []byte(`{"choices":[{"message":{"role":"assistant","content":"hello"}}]}`),
	}
	if change != nil {
		change(x)
	}
	return x
}

// What no exchange that was recorded here could say is refused of one from elsewhere, and leaves nothing behind.
func TestAnImportIsCheckedLikeARecordedExchange(t *testing.T) {
	s := newConversation(t).s
	for name, change := range map[string]func(*record.Exchange){
		"cost":      func(x *record.Exchange) { x.Cost.USD = -1000 * record.Dollar },
		"cost ":     func(x *record.Exchange) { x.Cost.USD = 9_000_000_000 * record.Dollar },
		"cost  ":    func(x *record.Exchange) { x.Cost.Saved = -9_000_000_000 * record.Dollar },
		"usage":     func(x *record.Exchange) { x.Usage.InputUncached = -1e12 },
		"usage ":    func(x *record.Exchange) { x.Usage.Output = 1<<63 - 1 },
		"usage  ":   func(x *record.Exchange) { x.Usage.Reasoning = codec.MaxTokens + 1 },
		"time":      func(x *record.Exchange) { x.Started = time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC) },
		"time ":     func(x *record.Exchange) { x.Started = time.Date(1, 1, 2, 0, 0, 0, 0, time.UTC) },
		"time  ":    func(x *record.Exchange) { x.LastByte = time.Now().Add(48 * time.Hour) },
		"no time":   func(x *record.Exchange) { x.Started = time.Time{} },
		"surface":   func(x *record.Exchange) { x.Surface = "evil" },
		"surface  ": func(x *record.Exchange) { x.Surface = "openai" },
		"surface ":  func(x *record.Exchange) { x.Surface = "" },
		"format":    func(x *record.Exchange) { x.Format = "x" },
		"id":        func(x *record.Exchange) { x.ID = "exch_../../etc" },
		"outcome":   func(x *record.Exchange) { x.Outcome = record.OutcomeOpen },
		"native id": func(x *record.Exchange) { x.NativeSession = strings.Repeat("n", 1000) },
	} {
		if taken, err := s.Archive().Import(t.Context(), "acme", record.Exported{Exchange: elsewhere(change)}); err == nil || taken {
			t.Errorf("%s: taken %t", name, taken)
		}
	}
	session := &record.Session{ID: record.DerivedSessionID(time.Now(), "evil"), Created: time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)}
	if taken, err := s.Archive().Import(t.Context(), "acme", record.Exported{Session: session}); err == nil || taken {
		t.Error("a session of the year 9999 is taken")
	}
	if all := exported(t, s, "acme", record.Selection{All: true}); len(all) > 0 {
		t.Errorf("%+v is on record", all)
	}
	for _, change := range []func(*record.Exchange){
		nil,
		func(x *record.Exchange) { x.Format, x.Outcome, x.Cost = "", record.OutcomeRefused, nil },
		func(x *record.Exchange) { x.Started = time.Date(1990, 1, 1, 0, 0, 0, 0, time.UTC) },
		func(x *record.Exchange) { x.Usage.CacheRead = codec.MaxTokens },
	} {
		x := elsewhere(change)
		x.ID = record.DerivedExchangeID(x.Started, "elsewhere", x.Outcome.String(), x.Started.String(), x.Format, time.Duration(x.Usage.CacheRead).String())
		if taken, err := s.Archive().Import(t.Context(), "acme", record.Exported{Exchange: x}); err != nil || !taken {
			t.Errorf("%+v: %t, %v", x.ExchangeInfo, taken, err)
		}
	}
	mustBeSound(t, s)
}

// An import changes neither what was spent here nor what was measured here, and is nobody's key's.
func TestAnImportLeavesTheBooksAlone(t *testing.T) {
	s := newConversation(t).s
	if _, err := s.Archive().Import(t.Context(), "acme", record.Exported{Exchange: elsewhere(nil)}); err != nil {
		t.Fatal(err)
	}
	rows := 0
	err := s.Accounts().Rollups(t.Context(), record.RollupQuery{Account: "acme"}, func(of record.RollupOf, r *record.Rollup) {
		rows++
		if of.KeyID != record.ImportedKey || r.Cost.USD != 0 || r.Cost.Notional != record.Dollar || r.Usage.Output != 5 || r.FirstByteQuantile(0.5) != 0 {
			t.Errorf("%+v %+v", of, r)
		}
	})
	if err != nil || rows != 1 {
		t.Errorf("%d rows, %v", rows, err)
	}
	x, err := s.Archive().Exchange("acme", elsewhere(nil).ID)
	if err != nil || x.KeyID != record.ImportedKey || !x.Cost.Notional || x.Imported.IsZero() {
		t.Errorf("%+v %v", x, err)
	}
	mustBeSound(t, s)
}

// Earlier versions counted the times of imported exchanges. Their rollups are no damage, and are not shown.
func TestTimesOfImportsInOlderRollupsAreNoDamage(t *testing.T) {
	s := newConversation(t).s
	x := elsewhere(nil)
	if _, err := s.Archive().Import(t.Context(), "acme", record.Exported{Exchange: x}); err != nil {
		t.Fatal(err)
	}
	info := x.ExchangeInfo
	info.Imported = time.Now()
	number, err := s.accounts.Number("acme")
	if err != nil {
		t.Fatal(err)
	}
	r := conversation.RollupOf(&info)
	r.Cost.USD, r.Cost.Notional = 0, record.Dollar
	r.FirstByte[record.FirstByteBucket(time.Second)]++
	key := record.AppendRollupKey(nil, number, &info)
	damage(t, s, key, r.Encode())
	mustBeSound(t, s)
	if err := s.Accounts().Rollups(t.Context(), record.RollupQuery{}, func(_ record.RollupOf, r *record.Rollup) {
		if r.FirstByteQuantile(0.5) != 0 {
			t.Error("the times of an import count as measured")
		}
	}); err != nil {
		t.Error(err)
	}
}

// A client that resumes or forks a conversation copies its answers. Whichever copy comes first is the exchange, in this
// import or an earlier one; once it is erased, another one may be imported.
func TestAnAnswerThatAHistoryRepeatsIsImportedOnce(t *testing.T) {
	c := newConversation(t)
	s := c.s
	copyOf := func(session string, day int) *record.Exchange {
		return elsewhere(func(x *record.Exchange) {
			x.Started = x.Started.AddDate(0, 0, day)
			x.FirstByte, x.LastByte = x.Started, x.Started
			x.ID = record.DerivedExchangeID(x.Started, "claude-code", "msg_1")
			x.Surface, x.Format, x.Provider, x.ResponseID, x.NativeSession = "messages", "messages", "", "msg_1", session
			x.Session = record.DerivedSessionID(x.Started, session)
			x.RawRequest, x.RawResponse = []byte(`{"model":"m","messages":[]}`), []byte(`{"content":[]}`)
		})
	}
	take := func(x *record.Exchange) bool {
		t.Helper()
		session := &record.Session{ID: x.Session, Created: x.Started, Updated: x.Started, NativeSession: x.NativeSession}
		if _, err := s.Archive().Import(t.Context(), "acme", record.Exported{Session: session}); err != nil {
			t.Fatal(err)
		}
		taken, err := s.Archive().Import(t.Context(), "acme", record.Exported{Exchange: x})
		if err != nil {
			t.Fatal(err)
		}
		return taken
	}
	if !take(copyOf("a", 0)) || take(copyOf("a", 0)) || take(copyOf("b", 1)) || take(copyOf("c", -1)) {
		t.Error("an answer is not imported exactly once")
	}
	c.settle()
	mustBeSound(t, s)
	erase(t, s, "acme", record.Selection{Exchanges: []string{copyOf("a", 0).ID}})
	if !take(copyOf("b", 1)) {
		t.Error("the copy of an erased answer is not imported")
	}
	c.settle()
	mustBeSound(t, s)
}
