package engine_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/localhash"
	"github.com/mnemeproxy/mneme/store/storetest/fixture"
)

// formerMemory is a memory that an earlier program wrote: conversations, and then a burst of larger requests in which it
// was killed. Its content.jsonl is what that program then exported: hashes of what it had recorded.
type formerMemory struct {
	name   string
	points []int // progress at which its conversion is killed; -1: never
}

var formerMemories = []formerMemory{
	// By the program of that commit. Of 53 exchanges 3 were open and 8 had no turn, and words, vectors and sessions had
	// changes to read.
	{"commit-01d58f7", []int{-1, 0, 1, 2, 4, 8, 16}},
	// By commit 2e89617, the last one of that format. Of 48 exchanges 3 were open and had no turn, and small requests and
	// answers are stored as they came. Little has to be converted, so later points only wait.
	{"format-5", []int{-1, 0, 1, 2, 4}},
}

// convertDir is set in the process that converts a memory until it is killed.
const convertDir = "MNEME_TEST_CONVERT_DIR"

// formerExchange is a line of content.jsonl.
type formerExchange struct {
	ID, Session       string
	Outcome           store.Outcome
	Request, Response string // the first 16 bytes of their SHA-256
	Word              string // that the turn says
}

func unpackFormer(t *testing.T, name string) (dir string, want []formerExchange) {
	t.Helper()
	dir = t.TempDir()
	fixture.Unpack(t, filepath.Join("testdata", name, "store.tar.gz"), dir)
	for file, size := range map[string]int64{"000001.vlog": 256 << 20, "00001.mem": 32 << 20} { // as they were, with the zeros behind
		if err := os.Truncate(filepath.Join(dir, "badger", file), size); err != nil {
			t.Fatal(err)
		}
	}
	content, err := os.Open(filepath.Join("testdata", name, "content.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	defer content.Close()
	for lines := json.NewDecoder(content); lines.More(); {
		var x formerExchange
		if err := lines.Decode(&x); err != nil {
			t.Fatal(err)
		}
		want = append(want, x)
	}
	return dir, want
}

func openFormer(dir string) (*engine.Engine, error) {
	hasher, err := localhash.New(256)
	if err != nil {
		return nil, err
	}
	return engine.Open(store.Options{Dir: dir, MinFreeDisk: -1, Digest: digest.Exchange},
		&search.Options{Dir: filepath.Join(dir, "index"), Embedder: localhash.Embedder{Hasher: hasher}, WriteAfter: 20 * time.Millisecond})
}

// A memory of an earlier program is opened, converted and searched, and has lost nothing: not when it is killed on the way either,
// twice, wherever that is.
func TestAFormerMemoryKilledWhileItIsConvertedLosesNothing(t *testing.T) {
	killed := 0
	for _, memory := range formerMemories {
		points := memory.points
		if n, err := strconv.Atoi(os.Getenv("MNEME_TEST_CRASH_ROUNDS")); err == nil {
			points = slices.Collect(func(yield func(int) bool) {
				for point := -1; point < n-1 && yield(point); point++ {
				}
			})
		}
		for _, point := range points {
			t.Run(fmt.Sprint(memory.name, " killed at ", point), func(t *testing.T) {
				dir, want := unpackFormer(t, memory.name)
				if point >= 0 {
					for _, at := range []int{point, point / 2} {
						if convertUntil(t, dir, at) {
							killed++
						}
					}
				}
				hasAll(t, dir, want)
			})
		}
	}
	t.Logf("%d conversions were killed before they had come to their end", killed)
}

// convertUntil has another process convert a memory and kills it when it has told of so much progress, or is done.
func convertUntil(t *testing.T, dir string, progress int) (early bool) {
	t.Helper()
	victim := exec.Command(os.Args[0], "-test.run=^TestConversionVictim$")
	victim.Env = append(os.Environ(), convertDir+"="+dir)
	victim.Stderr = os.Stderr
	out, err := victim.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(2*time.Minute, func() { _ = victim.Process.Kill() })
	defer hung.Stop()
	early = true
	for lines := bufio.NewScanner(out); lines.Scan(); progress-- {
		if early = lines.Text() != "done"; progress <= 0 || !early {
			_ = victim.Process.Kill()
		}
	}
	if err := victim.Wait(); err == nil {
		t.Fatal("the process that converts ended by itself")
	}
	return early
}

// TestConversionVictim is no test of its own: it is the process that converts a memory, and tells of each progress.
func TestConversionVictim(t *testing.T) {
	dir := os.Getenv(convertDir)
	if dir == "" {
		t.Skip("runs in a process of its own")
	}
	fmt.Println("opening")
	e, err := openFormer(dir)
	if err != nil {
		t.Fatal(err)
	}
	for last := ""; ; time.Sleep(100 * time.Microsecond) {
		now := e.Feed().Stats()
		if told := fmt.Sprint(now); told != last {
			last = told
			fmt.Println(told)
		}
		left := slices.ContainsFunc(now, func(s store.StageStats) bool { return s.Lag > 0 || s.Unconfirmed > 0 })
		if len(now) == 4 && !left {
			fmt.Println("done")
			select {}
		}
	}
}

// hasAll holds a memory to what was in it: every exchange as it was recorded, its turn, what it is found by, and its vector.
func hasAll(t *testing.T, dir string, want []formerExchange) {
	t.Helper()
	e, err := openFormer(dir)
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
		if got := (formerExchange{x.ID, x.Session, x.Outcome, sum(x.RawRequest), sum(x.RawResponse), w.Word}); got != w {
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
	page, err := e.Store.Archive().Exchanges(account, store.ExchangeQuery{Limit: 1000})
	if err != nil || len(page.Data) != len(want) {
		t.Errorf("%d exchanges, want %d (%v)", len(page.Data), len(want), err)
	}
	report, err := e.Store.Upkeep().Check(t.Context(), false, func(f store.Finding) { t.Errorf("a check finds %+v", f) })
	if err != nil || report.Findings > 0 {
		t.Errorf("%d findings, %v", report.Findings, err)
	}
}
