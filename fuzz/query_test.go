package fuzz_test

import (
	"context"
	"errors"
	"testing"

	"github.com/mnemeproxy/mneme/fuzz/mutant"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// FuzzQuery parses any query. The error of an invalid one has a position; any other searches an index without an error,
// and finds only the account's own turns.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{
		"lock timeout", `"lock time-out" +retry -deadlock`, "a AND (b OR c*) NOT d", `user:"exact words" assistant:x name:fooBar`,
		"tool:bash model:gpt*", "(((", `"`, "+", "-", "*", "a:", ":a", "AND", "tool:", "路径 搜索", "a_b-c.d/e", "\xff\x00 x",
	} {
		f.Add(seed)
	}
	const ours, theirs = 1, 2
	ix, err := lexical.Open(f.TempDir(), lexical.Options{Failed: func(error) {}})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(ix.Close)
	var documents []lexical.Document
	for id, text := range map[string]string{"a": "the lock timed out, retry with fooBar", "b": "路径搜索 in store/key.go", "c": "deadlock in a_b-c.d/e"} {
		for _, account := range []uint32{ours, theirs} {
			documents = append(documents, lexical.Document{
				Account: account, ID: id, Text: text, Names: text, Facets: []lexical.Facet{{Name: "tool", Value: "bash"}},
			})
		}
	}
	if err := ix.Apply(context.Background(), documents, nil, func() {}); err != nil {
		f.Fatal(err)
	}
	searcher, err := ix.Searcher(context.Background(), ours)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = searcher.Close() })
	said := lexical.Said{User: "the lock timed out", Assistant: "retry with fooBar"}

	f.Fuzz(mutant.Each(1000, func(t *testing.T, text string) {
		if len(text) > 4<<10 {
			return
		}
		query, err := lexical.Parse(text, []string{"tool", "model"})
		var wrong *lexical.SyntaxError
		switch {
		case errors.As(err, &wrong):
			if wrong.At < 0 || wrong.At > len(text) || wrong.Message == "" {
				t.Fatalf("the mistake in %q is said to be %q at byte %d", text, wrong.Message, wrong.At)
			}
			query = lexical.Plain(text)
		case err != nil:
			t.Fatal(err)
		}
		query.Matches(said)
		for _, span := range query.Highlights(said.User) {
			if span[0] < 0 || span[0] >= span[1] || span[1] > len(said.User) {
				t.Fatalf("%q highlights %v of %q", text, span, said.User)
			}
		}
		ranking, err := searcher.Rank(query, nil)
		if err != nil {
			t.Fatal(err)
		}
		for n := 0; ; n++ {
			hit, more := ranking.Next()
			if !more {
				break
			}
			id, err := searcher.ID(hit.Number)
			if err != nil || n == 3 || (id != "a" && id != "b" && id != "c") {
				t.Fatalf("%q finds %q as hit %d (%v)", text, id, n+1, err)
			}
		}
	}))
}
