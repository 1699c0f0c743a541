package search

import (
	"slices"
	"strings"
	"testing"
)

func TestTheSameFailureHasTheSameSignature(t *testing.T) {
	for name, pair := range map[string][2]string{
		"numbers":     {"ERROR: duplicate key value violates unique constraint, detail 41", "ERROR:  duplicate key value violates unique constraint, detail 7"},
		"directories": {"/home/a/x/main.go:12:4: error: undefined name frob", "/tmp/build/main.go:99:1: error: undefined name frob"},
		"addresses":   {"panic: runtime error: invalid memory address 0xc000012 in worker", "panic: runtime error: invalid memory address 0xdeadbeef in worker"},
		"times":       {"2026-11-02T10:00:01Z fatal: lost connection to the queue", "2026-11-19T22:41:59Z fatal: lost connection to the queue"},
	} {
		first, second := Signatures("ok\n"+pair[0]+"\nmore"), Signatures(pair[1])
		if len(first) != 1 || !slices.Equal(first, second) {
			t.Errorf("%s: %v and %v", name, first, second)
		}
	}
	for name, pair := range map[string][2]string{
		"codes": {"error[E0382]: use of moved value here", "error[E0499]: use of moved value here"},
		"names": {"error: undefined name frob in package", "error: undefined name grub in package"},
	} {
		if slices.Equal(Signatures(pair[0]), Signatures(pair[1])) {
			t.Errorf("%s are not told apart: %v", name, pair)
		}
	}
	if found := Signatures("all tests pass\n0 errors\n"); len(found) > 0 {
		t.Errorf("a success has the signatures %v", found)
	}
}

// A build that goes on after its failure prints more than is searched by words.
func TestAFailureInTheMiddleOfALongOutputIsKnown(t *testing.T) {
	m := openMemory(t, t.TempDir())
	noise := strings.Repeat("step: compiled one more package\n", 300)
	failed := m.capture("acme", ran("Build it.", "make", noise+"ERROR: duplicate key value violates unique constraint, detail 41\n"+noise, "I will look into it."))
	signature := Signatures("ERROR: duplicate key value violates unique constraint, detail 99")
	answer := m.search("acme", Request{Newest: true, Filter: Filter{Field: facetFailure, Op: "in", Values: signature}})
	if got := exchangesOf(answer); !slices.Equal(got, []string{failed}) {
		t.Errorf("the failure finds %v, want %s", got, failed)
	}
}
