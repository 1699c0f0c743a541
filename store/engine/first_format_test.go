package engine_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/localhash"
	"github.com/mnemeproxy/mneme/store/storetest/fixture"
)

// recordedExchange is a line of content.jsonl.
type recordedExchange struct {
	ID, Session       string
	Outcome           record.Outcome
	Request, Response string // the first 16 bytes of their SHA-256
	Word              string // that the turn says
}

// The store in testdata/format-8 is of the first format. The program of commit 78826023 recorded 24 exchanges in it and was killed;
// content.jsonl is what that program then exported.
func TestAStoreOfTheFirstFormatLosesNothing(t *testing.T) {
	dir := t.TempDir()
	fixture.Unpack(t, filepath.Join("testdata", "format-8", "store.tar.gz"), dir)
	for file, size := range map[string]int64{"000001.vlog": 256 << 20, "00001.mem": 7 << 20} { // as they were, with the zeros behind
		if err := os.Truncate(filepath.Join(dir, "badger", file), size); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.Open(filepath.Join("testdata", "format-8", "content.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	var want []recordedExchange
	for lines := json.NewDecoder(content); lines.More(); {
		var x recordedExchange
		if err := lines.Decode(&x); err != nil {
			t.Fatal(err)
		}
		want = append(want, x)
	}
	for range 2 {
		hasAll(t, dir, want)
	}
}

// hasAll checks that a memory has every exchange as it was recorded, its turn, the words that find it, and its vector.
func hasAll(t *testing.T, dir string, want []recordedExchange) {
	t.Helper()
	hasher, err := localhash.New(256)
	if err != nil {
		t.Fatal(err)
	}
	e, err := engine.Open(store.Options{Dir: dir, MinFreeDisk: -1, Digest: digest.Exchange},
		&search.Options{Dir: filepath.Join(dir, "index"), Embedder: localhash.Embedder{Hasher: hasher}, WriteAfter: 20 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}()
	const account = "default"
	if err := e.Index().WaitVectors(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	sum := func(b []byte) string { s := sha256.Sum256(b); return hex.EncodeToString(s[:16]) }
	for _, w := range want {
		x, err := e.Store.Archive().Exchange(account, w.ID)
		if err != nil {
			t.Errorf("%s: %v", w.ID, err)
			continue
		}
		if got := (recordedExchange{x.ID, x.Session, x.Outcome, sum(x.RawRequest), sum(x.RawResponse), w.Word}); got != w {
			t.Errorf("the store has %+v, want %+v", got, w)
		}
		if entry, err := e.Feed().TurnAt(1, w.ID); err != nil || entry.Turn == nil || entry.Turn.Error != "" {
			t.Errorf("%s has the turn %+v, %v", w.ID, entry.Turn, err)
		}
		answer, err := e.Index().Search(t.Context(), account, &search.Request{Query: w.Word, Limit: 20, Mode: search.Lexical})
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for i := range answer.Data {
			if answer.Data[i].Exchange == w.ID {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%s is found %d times by %q", w.ID, found, w.Word)
		}
	}
	page, err := e.Store.Archive().Exchanges(account, record.ExchangeQuery{Limit: 1000})
	if err != nil || len(page.Data) != len(want) {
		t.Errorf("%d exchanges, want %d (%v)", len(page.Data), len(want), err)
	}
	report, err := e.Store.Upkeep().Check(t.Context(), false, func(f store.Finding) { t.Errorf("a check finds %+v", f) })
	if err != nil || report.Findings > 0 {
		t.Errorf("%d findings, %v", report.Findings, err)
	}
}
