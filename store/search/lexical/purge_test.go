package lexical

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"
)

// wordsOnDisk returns the terms of an account that stand in files of the index, whether or not a document has them still.
func wordsOnDisk(ix *Index, account uint32) (found []string) {
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	for _, s := range ix.segments {
		if d := s.section(account); d != nil {
			found = append(found, d.terms(fieldText, "", "", math.MaxInt)...)
		}
	}
	return found
}

func segmentFiles(t *testing.T, dir string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*"+segmentExtension))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// What was taken out is in no file after a purge: neither in the dictionary nor in a segment of before. What stays is
// found as before, and the index that is closed without a purge knows at the next opening that it needs one.
func TestAPurgeLeavesNothingOfWhatWasTakenOut(t *testing.T) {
	dir := t.TempDir()
	ix := openIndex(t, dir)
	defer func() { ix.Close() }()
	for n := range 3 {
		documents := []Document{
			{Account: 1, ID: fmt.Sprint("kept", n), Text: "harmless prose"},
			{Account: 1, ID: fmt.Sprint("gone", n), Text: "secret marmalade"},
			{Account: 9, ID: fmt.Sprint("other", n), Text: "secret of another account"},
		}
		for i := range 20 { // a segment of which half is gone is written again at once
			documents = append(documents, Document{Account: 1, ID: fmt.Sprint("more", n, i), Text: "more prose"})
		}
		applyToDisk(t, ix, documents)
	}
	mustHave := func(want bool) {
		t.Helper()
		if removed := ix.Removed(); removed != want {
			t.Fatalf("the index says %v of whether something was taken out; want %v", removed, want)
		}
	}
	mustHave(false)
	apply(t, ix, nil, Key{1, "never there"})
	mustHave(false)
	applyToDisk(t, ix, nil, Key{1, "gone0"}, Key{1, "gone1"}, Key{1, "gone2"})
	mustHave(true)
	if !slices.Contains(wordsOnDisk(ix, 1), "marmalad") {
		t.Fatal("the word of a document that is taken out has left its file by itself: the test shows nothing")
	}
	ix.Close()
	ix = openIndex(t, dir)
	mustHave(true)
	for round := range 2 {
		if err := ix.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		mustHave(false)
		if got := wordsOnDisk(ix, 1); slices.Contains(got, "marmalad") || !slices.Contains(got, "prose") {
			t.Errorf("after the purge the files have the words %q", got)
		}
		if got := wordsOnDisk(ix, 9); !slices.Contains(got, "secret") {
			t.Errorf("of the other account in the shard they have %q", got)
		}
		if got := ids(find(t, ix, 1, parse(t, "prose"))); len(got) == 0 {
			t.Error("what stays is not found any more")
		}
		listed := make([]string, 0, len(ix.segments))
		for _, s := range ix.segments {
			listed = append(listed, s.path)
		}
		slices.Sort(listed)
		if files := segmentFiles(t, dir); !slices.Equal(files, listed) {
			t.Fatalf("there are the files %q, of which %q are the index's", files, listed)
		}
		apply(t, ix, nil, Key{1, fmt.Sprint("kept", round)})
		mustHave(true)
	}
}

// A purge runs beside changes: what they take out meanwhile is left for the next one, and nothing is lost.
func TestAPurgeRunsBesideChanges(t *testing.T) {
	ix := openIndex(t, t.TempDir())
	defer func() { ix.Close() }()
	for n := range 20 {
		apply(t, ix, []Document{{Account: 1, ID: fmt.Sprint("a", n), Text: "alpha"}, {Account: 1, ID: fmt.Sprint("b", n), Text: "beta"}})
	}
	changed := make(chan struct{})
	go func() {
		defer close(changed)
		for n := range 20 {
			if err := ix.Apply(t.Context(), []Document{{Account: 1, ID: fmt.Sprint("c", n), Text: "gamma"}}, []Key{{1, fmt.Sprint("b", n)}}, func() {}); err != nil {
				t.Error(err)
			}
		}
	}()
	for running := true; running; {
		select {
		case <-changed:
			running = false
		default:
		}
		if err := ix.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	for word, want := range map[string]int{"alpha": 20, "beta": 0, "gamma": 20} {
		if got := len(find(t, ix, 1, parse(t, word))); got != want {
			t.Errorf("%s finds %d documents, want %d", word, got, want)
		}
	}
	if got := wordsOnDisk(ix, 1); slices.Contains(got, "beta") {
		t.Errorf("after the last purge the files have %q", got)
	}
	totals, err := ix.Totals(1)
	if err != nil || totals.Documents != 40 {
		t.Errorf("the account has %d documents, %v; want 40", totals.Documents, err)
	}
}

// A purge ends with its context, also while it waits for its turn to merge.
func TestAPurgeEndsWithItsContext(t *testing.T) {
	ix := openIndex(t, t.TempDir())
	defer func() { ix.Close() }()
	applyToDisk(t, ix, []Document{{Account: 1, ID: "kept", Text: "prose"}, {Account: 1, ID: "also", Text: "prose"}, {Account: 1, ID: "gone", Text: "marmalade"}})
	applyToDisk(t, ix, nil, Key{1, "gone"})
	_ = ix.merges.Acquire(t.Context(), 1) // as by a merge that is long
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- ix.Purge(ctx) }()
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ends with %v", err)
		}
	case <-time.After(time.Minute): // only a failure takes that long
		t.Error("it does not end")
	}
	ix.merges.Release(1)
}
