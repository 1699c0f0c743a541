package search

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
)

// Environment of the helper process, and how many rounds a run has.
const (
	envCrashDir    = "MNEME_TEST_CRASH_DIR"
	envCrashRounds = "MNEME_TEST_CRASH_ROUNDS"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(envCrashDir); dir != "" {
		captureUntilKilled(dir)
		return
	}
	goleak.VerifyTestMain(m, pollers...)
}

// captureUntilKilled captures from several goroutines and prints the id and the word of each exchange that is
// acknowledged, and of each erasure that is done.
func captureUntilKilled(dir string) {
	st, _, err := openBoth(dir, Options{Embedder: newSpeaker("speaker/1", 32)})
	if err != nil {
		panic(err)
	}
	if _, err := st.Accounts().Create("acme"); err != nil && !isKind(err, codec.KindConflict) {
		panic(err)
	}
	round := time.Now().UnixNano()
	var mu sync.Mutex
	for g := range 4 {
		go func() {
			for n := 0; ; n++ {
				word := fmt.Sprintf("w%dx%dx%d", round, g, n)
				id, err := captureScript(st, "acme", talk("remember "+word, "noted "+word))
				if err != nil {
					panic(err)
				}
				mu.Lock()
				fmt.Println("kept", id, word)
				mu.Unlock()
				if n%10 == 9 {
					eraseAndTell(st, id, &mu)
				}
			}
		}()
	}
	select {}
}

func eraseAndTell(st *store.Store, id string, mu *sync.Mutex) {
	mu.Lock()
	fmt.Println("erasing", id)
	mu.Unlock()
	if _, err := st.Archive().Erase(context.Background(), "acme", record.Selection{Exchanges: []string{id}}, false); err != nil {
		panic(err)
	}
}

// Killed at any moment between capture, digest, batch and confirmation, the index afterwards finds every exchange that
// was acknowledged exactly once, and none that was erased.
func TestKilledAnywhereTheIndexLosesAndDoublesNothing(t *testing.T) {
	if testing.Short() {
		t.Skip("rounds of a killed process, one after the other")
	}
	rounds := 3
	if n, err := strconv.Atoi(os.Getenv(envCrashRounds)); err == nil {
		rounds = n
	}
	dir := t.TempDir()
	kept, erasing := make(map[string]string), make(map[string]bool)
	for range rounds {
		runAndKill(t, dir, kept, erasing)
		checkAfterCrash(t, dir, kept, erasing)
	}
	if len(kept) == 0 {
		t.Fatal("nothing was captured")
	}
}

func runAndKill(t *testing.T, dir string, kept map[string]string, erasing map[string]bool) {
	t.Helper()
	helper := exec.Command(os.Args[0])
	helper.Env = append(os.Environ(), envCrashDir+"="+dir)
	helper.Stderr = os.Stderr
	out, err := helper.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := helper.Start(); err != nil {
		t.Fatal(err)
	}
	stopAfter := 20 + rand.IntN(300)
	killed := false
	for lines := bufio.NewScanner(out); lines.Scan(); {
		switch word := strings.Fields(lines.Text()); word[0] {
		case "kept":
			kept[word[1]] = word[2]
		case "erasing":
			erasing[word[1]] = true
		}
		if stopAfter--; stopAfter == 0 {
			killed = true
			_ = helper.Process.Kill()
		}
	}
	if err := helper.Wait(); err == nil || !killed {
		t.Fatalf("the helper ended by itself: %v", err)
	}
}

func checkAfterCrash(t *testing.T, dir string, kept map[string]string, erasing map[string]bool) {
	t.Helper()
	m := openMemoryWith(t, dir, Options{Embedder: newSpeaker("speaker/1", 32)})
	for id, word := range kept {
		_, before := m.store.Archive().Exchange("acme", id)
		got := exchangesOf(m.search("acme", Request{Query: word, Mode: Lexical}))
		_, after := m.store.Archive().Exchange("acme", id) // an erasure that had begun may go on behind
		switch {
		case len(got) > 1 || len(got) == 1 && got[0] != id:
			t.Fatalf("%s finds %v, want %s once", word, got, id)
		case len(got) == 1 && before != nil:
			t.Fatalf("%s finds %v, which is erased", word, got)
		case len(got) == 0 && after == nil:
			t.Fatalf("%s finds nothing, want %s", word, id)
		case after != nil && !erasing[id]:
			t.Fatalf("%s is not in the store: %v", id, after)
		}
	}
	m.until("no more documents than exchanges", func() bool { // an erasure that had begun may go on behind
		status, err := m.index.Status(t.Context(), "acme")
		m.ok(err)
		turns, err := m.store.Archive().Usage(t.Context(), "acme")
		m.ok(err)
		return status.Documents <= uint64(turns.Exchanges)
	})
	checkVectors(m, kept)
	m.close()
}

// checkVectors compares the vectors with the turns: each has one, and there are no others.
func checkVectors(m *memory, kept map[string]string) {
	m.t.Helper()
	m.untilComplete()
	number, err := m.store.Accounts().Number("acme")
	m.ok(err)
	vectors := make(map[string]bool)
	m.ok(m.store.Vectors().Each(m.t.Context(), number, 1, func(id [16]byte, _ []byte) { vectors[record.ExchangeID(id)] = true }))
	for id := range vectors {
		if _, err := m.store.Feed().TurnAt(number, id); isNotFound(err) {
			if value, _ := m.store.Vectors().At(number, 1, id); value != nil { // an erasure that had begun may go on behind
				m.t.Fatalf("%s is erased and has a vector", id)
			}
		}
	}
	for id := range kept {
		if entry, err := m.store.Feed().TurnAt(number, id); err == nil && entry.Turn != nil && !vectors[id] {
			m.t.Fatalf("%s has no vector", id)
		}
	}
}
