package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/sessions"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

// spend records an exchange that cost something.
func spend(t testing.TB, s *Store, account, key, model string, usage codec.Usage, cost *record.Cost) string {
	t.Helper()
	ctx := context.Background()
	began := time.Now()
	c, err := s.Begin(ctx, &record.Opening{
		Account: account, KeyID: key, Surface: codec.Messages, Format: codec.Messages, Provider: "anthropic", ModelAsked: model, ModelSent: model,
		Project: "mneme", Header: []record.HeaderField{{Name: "User-Agent", Value: "claude-cli/2.1"}}, Body: []byte(`{"model":"` + model + `"}`), Started: began, ChatKey: key,
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Write([]byte("answer")); err != nil {
		t.Fatal(err)
	}
	if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete, Status: 200, FirstByte: began.Add(120 * time.Millisecond), Usage: usage, Cost: cost}); err != nil {
		t.Fatal(err)
	}
	return c.ID()
}

// rolledUp adds up the rollups of an account.
func rolledUp(t testing.TB, s *Store, account string) (sum record.Rollup, rows map[record.RollupOf]record.Rollup) {
	t.Helper()
	rows = make(map[record.RollupOf]record.Rollup)
	err := s.Accounts().Rollups(context.Background(), record.RollupQuery{Account: account}, func(of record.RollupOf, r *record.Rollup) {
		of.Hour = time.Time{}
		row := rows[of]
		row.Add(r)
		rows[of] = row
		sum.Add(r)
	})
	if err != nil {
		t.Fatal(err)
	}
	return sum, rows
}

func wantNoFindings(t testing.TB, s *Store) {
	t.Helper()
	if _, err := s.Upkeep().Check(context.Background(), false, func(f Finding) { t.Errorf("check: %s: %s", f.Subject, f.Problem) }); err != nil {
		t.Fatal(err)
	}
}

func TestUsageIsRolledUpByKeyProjectClientAndModel(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	mustAccount(t, s, "acme")
	mustAccount(t, s, "other")
	opus := codec.Usage{InputUncached: 100, CacheRead: 900, CacheWrite: 50, CacheLong: 20, Output: 30, Reasoning: 10}
	spend(t, s, "acme", "key_a", "claude-opus-5", opus, &record.Cost{USD: 4_200_000, Saved: 1_000, Price: "claude-opus-5@2026-11-20"})
	spend(t, s, "acme", "key_a", "claude-opus-5", opus, &record.Cost{USD: 4_200_000, Saved: 1_000, Estimated: true})
	spend(t, s, "acme", "key_a", "claude-opus-5", opus, &record.Cost{USD: 7, Notional: true})
	spend(t, s, "acme", "key_b", "unknown", codec.Usage{Output: 1}, nil)
	spend(t, s, "other", "key_c", "claude-opus-5", opus, &record.Cost{USD: 1})
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Dir: dir})
	_, rows := rolledUp(t, s, "acme")
	got := rows[record.RollupOf{Account: "acme", KeyID: "key_a", Project: "mneme", Client: "claude-code", Provider: "anthropic", Model: "claude-opus-5"}]
	want := record.Rollup{
		Requests: 3, Usage: record.UsageInfo{InputUncached: 300, CacheRead: 2700, CacheWrite: 150, CacheLong: 60, Output: 90, Reasoning: 30, Estimated: true},
		Cost: record.Spending{USD: 8_400_000, Notional: 7, Saved: 2_000, Estimated: 1},
	}
	want.FirstByte[2] = 3 // 100 to 200 ms
	if got != want {
		t.Errorf("rolled up:\n%+v, want\n%+v", got, want)
	}
	if q := got.FirstByteQuantile(0.5); q < 100*time.Millisecond || q > 200*time.Millisecond {
		t.Errorf("half of the first bytes took up to %v", q)
	}
	if b := rows[record.RollupOf{Account: "acme", KeyID: "key_b", Project: "mneme", Client: "claude-code", Provider: "anthropic", Model: "unknown"}]; b.Cost.Unpriced != 1 {
		t.Errorf("an exchange without a price is rolled up as %+v", b)
	}
	sessions, err := s.Archive().Sessions("acme", record.SessionQuery{ChatKey: "key_a"})
	if err != nil || len(sessions.Data) != 1 || sessions.Data[0].Cost != want.Cost {
		t.Errorf("the session has %+v (%v)", sessions.Data, err)
	}
	wantNoFindings(t, s)
}

// Rollups equal what was recorded, whatever is erased or left open when the process dies.
func TestRollupsAddUpToTheExchanges(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	mustAccount(t, s, "acme")
	random := rand.New(rand.NewPCG(1, 2))
	var want record.USD
	var ids []string
	for n := range 40 {
		cost := record.USD(random.Int64N(1e9))
		want += cost
		ids = append(ids, spend(t, s, "acme", fmt.Sprintf("key_%d", n%3), fmt.Sprintf("m-%d", n%4), codec.Usage{Output: 1}, &record.Cost{USD: cost}))
	}
	if _, err := s.Archive().Erase(context.Background(), "acme", record.Selection{Exchanges: ids[:10]}, false); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Begin(context.Background(), &record.Opening{Account: "acme", Surface: codec.Chat, Format: codec.Chat, Body: []byte("{}")}); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, Options{Dir: dir})
	if sum, _ := rolledUp(t, s, "acme"); sum.Cost.USD != want || sum.Requests != 41 || sum.Errors != 1 {
		t.Errorf("%d requests for %v USD are rolled up, %d errors; want 41 for %v, 1", sum.Requests, sum.Cost.USD, sum.Errors, want)
	}
	wantNoFindings(t, s)
}

func TestACheckFindsAndRepairsWrongRollups(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	spend(t, s, "acme", "key_a", "m", codec.Usage{Output: 1}, &record.Cost{USD: 5})
	number, _ := s.accounts.Find("acme")
	wrong := record.Rollup{Requests: 7}
	err := s.writer.Update(context.Background(), func(g *writing.Group, w *commit.Op) error {
		it := g.Committed().NewIterator(badger.IteratorOptions{Prefix: kv.SpaceKeyOf(kv.SpaceRollup, number)})
		defer it.Close()
		for it.Rewind(); it.Valid(); it.Next() {
			g.Put(w, it.Item().KeyCopy(nil), wrong.Encode())
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	var found []Finding
	if _, err := s.Upkeep().Check(context.Background(), true, func(f Finding) { found = append(found, f) }); err != nil {
		t.Fatal(err)
	}
	if len(found) != 1 || !found[0].Repaired || !strings.Contains(found[0].Problem, "7 exchanges for 0 USD") {
		t.Fatalf("found %+v", found)
	}
	wantNoFindings(t, s)
	if sum, _ := rolledUp(t, s, "acme"); sum.Cost.USD != 5 || sum.Requests != 1 {
		t.Errorf("repaired to %+v", sum)
	}
}

func TestMoneyIsWrittenWithoutRounding(t *testing.T) {
	for text, want := range map[string]record.USD{
		"0": 0, "1": record.Dollar, "12.5": 12_500_000_000, "0.000000001": 1, "-0.25": -record.Dollar / 4, "9000000.000000002": 9_000_000*record.Dollar + 2,
	} {
		if got, err := record.ParseUSD(text); err != nil || got != want || got.String() != text {
			t.Errorf("%s is read as %d and written %s (%v)", text, got, got, err)
		}
	}
	if got, err := record.ParseUSD("4.2e-05"); err != nil || got != 42_000 {
		t.Errorf("4.2e-05 is read as %d (%v)", got, err)
	}
	for _, text := range []string{"", ".", "x", "1.x", "--1", "NaN", "1e300", "99999999999999", "1.2.3", "+1"} {
		if got, err := record.ParseUSD(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

// BenchmarkRollUp is what the writer pays to count the end of an exchange in its hour, where exchanges before are counted.
func BenchmarkRollUp(b *testing.B) {
	s := openStore(b, Options{})
	mustAccount(b, s, "acme")
	account, _ := s.accounts.Find("acme")
	began := time.Now()
	info := &record.ExchangeInfo{
		KeyID: "key_0123456789abcdef", Project: "mneme", Provider: "anthropic", ModelAsked: "claude-opus-5-5", ModelSent: "claude-opus-5-5",
		Header: []record.HeaderField{{Name: "User-Agent", Value: "claude-cli/2.1"}}, Started: began, FirstByte: began.Add(120 * time.Millisecond), Outcome: record.OutcomeComplete,
		Usage: record.UsageInfo{InputUncached: 12, CacheRead: 151_000, CacheWrite: 800, Output: 1200}, Cost: &record.Cost{USD: record.Dollar / 10, Saved: record.Dollar / 2, Price: "claude-opus-5-5@2026-11-20"},
	}
	g := writing.NewGroup(sessions.Options{DB: s.db, Known: &s.planner.Known, Records: s.sessions, IDs: &s.ids, Log: s.log})
	b.ReportAllocs()
	for b.Loop() {
		g.RollUp(new(commit.Op), account, info)
	}
	g.Reset()
}
