package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

func TestAListLongerThanAPageIsWholeAndInOrder(t *testing.T) {
	t.Setenv("MNEME_CONFIG", "")
	dir := t.TempDir()
	const recorded = exchangePage + 2
	ids := recordExchanges(t, dir, recorded)

	for _, tt := range []struct{ limit, want int }{
		{0, recorded}, {1, 1}, {exchangePage, exchangePage}, {exchangePage + 1, exchangePage + 1}, {recorded, recorded}, {9999, recorded},
	} {
		t.Run(fmt.Sprintf("limit %d", tt.limit), func(t *testing.T) {
			var out, errs bytes.Buffer
			list := ExchangeList{Target: Target{StoreFlags: StoreFlags{Data: dir}}, Limit: tt.limit, JSON: true}
			if err := list.Run(t.Context(), &Env{Out: &out, Err: &errs}); err != nil {
				t.Fatal(err)
			}
			var listed []record.ExchangeInfo
			if err := json.Unmarshal(out.Bytes(), &listed); err != nil {
				t.Fatal(err)
			}
			if len(listed) != tt.want {
				t.Fatalf("want %d, got %d", tt.want, len(listed))
			}
			for i, x := range listed {
				if newest := ids[recorded-1-i]; x.ID != newest {
					t.Fatalf("place %d: want %s, got %s", i, newest, x.ID)
				}
			}
		})
	}
}

func TestAListShowsADamagedExchangeAsSuch(t *testing.T) {
	t.Setenv("MNEME_CONFIG", "")
	dir := t.TempDir()
	ids := recordExchanges(t, dir, 3)
	damageExchange(t, dir, ids[1])
	var out, errs bytes.Buffer
	list := ExchangeList{Target: Target{StoreFlags: StoreFlags{Data: dir}}}
	if err := list.Run(t.Context(), &Env{Out: &out, Err: &errs}); err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(out.String()) {
		if strings.Contains(line, ids[1]) != strings.Contains(line, "damaged") {
			t.Errorf("the list says %s", line)
		}
	}
	if n := strings.Count(out.String(), "exch_"); n != len(ids) || !strings.Contains(errs.String(), "mneme check") {
		t.Errorf("%d are listed, with %q", n, errs.String())
	}
	out.Reset()
	list.JSON = true
	if err := list.Run(t.Context(), &Env{Out: &out, Err: &errs}); err != nil {
		t.Fatal(err)
	}
	var listed []record.ExchangeInfo
	if err := json.Unmarshal(out.Bytes(), &listed); err != nil || len(listed) != len(ids) {
		t.Fatalf("%s: %v", out.String(), err)
	}
	if x := listed[1]; x.ID != ids[1] || x.Outcome != record.OutcomeDamaged || x.Error == nil {
		t.Errorf("for programs it is %+v", x)
	}
}

// damageExchange makes the record of an exchange unreadable, while the store is closed; see FORMAT.md for where it is.
func damageExchange(t *testing.T, dir, exchange string) {
	t.Helper()
	id, ok := record.ParseExchangeID(exchange)
	if !ok {
		t.Fatalf("%s is no exchange", exchange)
	}
	_ = os.Remove(filepath.Join(dir, "stop.json")) // which says what the files were like
	db, err := badger.Open(badger.DefaultOptions(filepath.Join(dir, "badger")).WithLogger(nil))
	if err != nil {
		t.Fatal(err)
	}
	key := append([]byte{'x', 0, 0, 0, 1}, id[:]...)
	if err := db.Update(func(tx *badger.Txn) error {
		if _, err := tx.Get(key); err != nil {
			return err
		}
		return tx.Set(key, []byte("damaged"))
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

// recordExchanges puts n exchanges of the default account on record in dir and gives their ids, oldest first.
func recordExchanges(t *testing.T, dir string, n int) (ids []string) {
	t.Helper()
	st, err := store.Open(store.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if err := admin.EnsureAccount(st.Accounts()); err != nil {
		t.Fatal(err)
	}
	for range n {
		c, err := st.Begin(t.Context(), &record.Opening{Account: admin.DefaultAccount, Surface: codec.Chat, Body: []byte("{}")})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Finish(&record.Closing{Outcome: record.OutcomeComplete}); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, c.ID())
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestAnExchangeShowsItsAttempts(t *testing.T) {
	var out bytes.Buffer
	x := api.Exchange{ExchangeInfo: record.ExchangeInfo{Session: "sess_1", ModelAsked: "gpt-5.5", ModelSent: "claude-opus-4-8", Provider: "anthropic", Attempts: []record.Attempt{
		{Provider: "openai", Endpoint: "api.openai.com:443", Key: 2, Model: "gpt-5.5", Status: 429, Failure: "rate_limited", Took: 120},
		{Provider: "openai", Endpoint: "10.0.0.1:8000", Model: "gpt-5.5", Failure: "unreachable", Took: 3},
		{Provider: "anthropic", Endpoint: "api.anthropic.com:443", Key: 1, Model: "claude-opus-4-8", Status: 200, Took: 900},
	}}}
	if err := describe(&out, &x); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"session    sess_1",
		"attempt 1  gpt-5.5 at openai (api.openai.com:443, key 2): rate limited, HTTP 429, after 120 ms",
		"attempt 2  gpt-5.5 at openai (10.0.0.1:8000): unreachable, after 3 ms",
		"attempt 3  claude-opus-4-8 at anthropic (api.anthropic.com:443, key 1): answered, HTTP 200, after 900 ms",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is missing in:\n%s", want, out.String())
		}
	}
}

func TestEstimatedTokensAreShownAsSuch(t *testing.T) {
	for want, usage := range map[string]record.UsageInfo{
		"-":              {},
		"12 in, 3 out":   {InputUncached: 10, CacheRead: 2, Output: 3},
		"~12 in, ~3 out": {InputUncached: 12, Output: 3, Estimated: true},
	} {
		if got := tokenCounts(usage); got != want {
			t.Errorf("%+v is shown as %q, want %q", usage, got, want)
		}
	}
}
