package search

import (
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

func TestEachLineOfAFailureIsListedOnce(t *testing.T) {
	var s Summary
	s.failures(&record.Message{Parts: []record.Part{{Kind: "result", Text: "error: x is lost\nerror: x is lost too\nerror: y is lost"}}})
	if want := []string{"error: x is lost", "error: x is lost too", "error: y is lost"}; !slices.Equal(s.Errors, want) {
		t.Errorf("%q, want %q", s.Errors, want)
	}
}

func TestTheFirstSentenceIsBehindTheCode(t *testing.T) {
	for text, want := range map[string]string{
		"```go\nx := 1\n```\nThis sets x. It does no more.": "This sets x.",
		"```ls``` lists files. All of them.":                "```ls``` lists files.",
		"It works! Really.":                                 "It works!",
		"Version 1.2 is out":                                "Version 1.2 is out",
	} {
		if got := FirstSentence(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestAHintNamesOnlyWhatDoesNotExist(t *testing.T) {
	facets := map[string][]lexical.FacetValue{"client": {{Value: "codex", Count: 3}}}
	for query, want := range map[string]string{
		"file:lock.go edited:lock.go session:sess_1 user:why": "",
		"client:codex":             "",
		"client:aider":             "no client:aider among the most frequent: client:codex",
		"nosuch:thing":             "nosuch: is not a field",
		"https://example.com a::b": "",
	} {
		hints := Hints(&Request{Query: query}, facets)
		if got := strings.Join(hints, "\n"); (want == "") != (got == "") || !strings.HasPrefix(got, want) {
			t.Errorf("%s: %q, want %q", query, got, want)
		}
	}
}
