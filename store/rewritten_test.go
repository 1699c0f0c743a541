package store

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/record"
)

// What was erased leaves the disk when the store is compacted, however little there is in it.
func TestWhatWasErasedLeavesTheDiskOfASmallStore(t *testing.T) {
	opts := Options{Dir: filepath.Join(t.TempDir(), "store"), Digest: digestTest}
	secret := make([]byte, 20<<10)
	random := rand.New(rand.NewPCG(3, 4))
	for i := range secret {
		secret[i] = byte(32 + random.IntN(95))
	}
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	mustAccount(t, s, "acme")
	stays := capture(t, s, "acme", "a question that stays", "an answer that stays")
	goes := capture(t, s, "acme", "a question", string(secret))
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	logs := valueLogs(t, opts.Dir)
	s = openStore(t, opts)
	erase(t, s, "acme", record.Selection{Exchanges: []string{goes}})
	if err := s.Upkeep().Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	if left := valueLogs(t, opts.Dir); len(logs) != 1 || slices.Contains(left, logs[0]) {
		t.Errorf("the value logs were %v, and are %v", logs, left)
	}
	if x, err := s.Archive().Exchange("acme", stays); err != nil || string(x.RawResponse) != "an answer that stays" {
		t.Errorf("an exchange that was not erased: %v", err)
	}
	mustBeSound(t, s)
}

// A store that was killed after values had moved to other logs is recovered: entries that lead to the removed logs do not
// remove the values that were moved.
func TestValuesThatWereMovedBeforeAKillAreRecovered(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	opts := Options{Dir: dir, Digest: digestTest, valueLogSize: 1 << 20}
	said := make(map[string]string)
	random := rand.New(rand.NewPCG(1, 2))
	for round := range tablesBeforeMerge + 1 { // each round writes a table
		s, err := Open(opts)
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			mustAccount(t, s, "acme")
		}
		for n := range 8 {
			answer := make([]byte, 20<<10)
			for i := range answer {
				answer[i] = byte(32 + random.IntN(95))
			}
			request := fmt.Sprintf("request %d of round %d", n, round)
			id := capture(t, s, "acme", request, string(answer))
			said[id] = request + string(answer)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	s, err := Open(opts)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range slices.Sorted(maps.Keys(said)) {
		if random.IntN(2) == 0 {
			erase(t, s, "acme", record.Selection{Exchanges: []string{id}})
			delete(said, id)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openStore(t, opts)
	before, _ := filepath.Glob(filepath.Join(dir, files.DatabaseDir, "*.vlog"))
	if err := s.Upkeep().Compact(t.Context()); err != nil {
		t.Fatal(err)
	}
	after, _ := filepath.Glob(filepath.Join(dir, files.DatabaseDir, "*.vlog"))
	if len(after) == 0 || after[0] == before[0] {
		t.Fatalf("no value log was rewritten: %v, %v", before, after)
	}
	killed := filepath.Join(t.TempDir(), "killed")
	copyStore(t, dir, killed)

	to := filepath.Join(t.TempDir(), "recovered")
	report, err := Recover(t.Context(), Options{Dir: to, Digest: digestTest}, killed)
	if err != nil || report.Lost > 0 || len(report.Damage)+len(report.Findings) > 0 {
		t.Fatalf("recovering reports %d lost values, %d damages and %d findings, %v", report.Lost, len(report.Damage), len(report.Findings), err)
	}
	recovered := openStore(t, Options{Dir: to, Digest: digestTest})
	for id, want := range said {
		x, err := recovered.Archive().Exchange("acme", id)
		if err != nil || string(x.RawRequest)+string(x.RawResponse) != want {
			t.Errorf("%s is not recovered: %v", id, err)
		}
	}
}
