package search

import (
	"slices"
	"testing"

	"github.com/mnemeproxy/mneme/store/record"
)

func TestProjectsAndKindsAreFacets(t *testing.T) {
	m := openMemory(t, t.TempDir())
	in := func(project string) func(*record.Opening) {
		return func(o *record.Opening) { o.Project, o.ChatKey = project, project }
	}
	said := m.capture("acme", talk("why does the build stop", "the linker is missing"), in("/home/a/Shop"))
	failed := m.capture("acme", script{Messages: []record.Message{
		text("user", "run the build"),
		{Role: "assistant", Parts: []record.Part{{Kind: "call", Name: "Bash", CallID: "1", Arguments: `{"command":"make"}`}}},
		{Role: "tool", Parts: []record.Part{{Kind: "result", CallID: "1", Text: "ld: error: build stopped"}}},
	}}, in("/home/a/api"))
	for query, want := range map[string][]string{
		`build project:"/home/a/shop"`: {said},
		`build project:"/home/a/api"`:  {failed},
		"build kind:error":             {failed},
		"build kind:tool":              {failed},
		`build project:"/home/b"`:      {},
	} {
		if got := m.found("acme", query); !slices.Equal(got, want) {
			t.Errorf("%s finds %v, want %v", query, got, want)
		}
	}
	b, err := ReadBeginning(m.store.Archive(), "acme", m.search("acme", Request{Query: "linker"}).Data[0].Session)
	m.ok(err)
	if b.Project != "/home/a/Shop" || b.Asked != "why does the build stop" {
		t.Errorf("the session began with %+v", b)
	}
}
