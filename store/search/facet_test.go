package search

import (
	"slices"
	"strings"
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
		"build project:SHOP":           {said},
		"build project:home":           {},
		"ran:make":                     {failed},
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

func TestFilesThatCallsNameAreFacets(t *testing.T) {
	m := openMemory(t, t.TempDir())
	call := func(tool, file string) script {
		return script{Messages: []record.Message{
			text("user", "go on"),
			{Role: "assistant", Parts: []record.Part{{Kind: "call", Name: tool, CallID: "1", Arguments: `{"file_path":"` + file + `"}`}}},
			{Role: "tool", Parts: []record.Part{{Kind: "result", CallID: "1", Text: "done"}}},
		}}
	}
	in := func(o *record.Opening) { o.Project = "/home/a/shop" }
	edited := m.capture("acme", call("Edit", "/home/a/shop/store/lock.go"), in)
	read := m.capture("acme", call("Read", "/home/a/shop/api/lock.go"), in)
	for query, want := range map[string][]string{
		"file:lock.go":                    {edited, read},
		"file:store/lock.go":              {edited},
		`file:"/home/a/shop/api/lock.go"`: {read},
		"edited:lock.go":                  {edited},
		"file:other.go":                   {},

		"file:lock.go project:shop -file:store/lock.go": {read},
	} {
		got := m.found("acme", query)
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) {
			t.Errorf("%s finds %v, want %v", query, got, want)
		}
	}
}

func TestASearchForErrorsShowsTheirLine(t *testing.T) {
	m := openMemory(t, t.TempDir())
	m.capture("acme", script{Messages: []record.Message{
		text("user", "run the build"),
		{Role: "assistant", Parts: []record.Part{{Kind: "call", Name: "Bash", CallID: "1", Arguments: `{"command":"make","description":"build it"}`}}},
		{Role: "tool", Parts: []record.Part{{Kind: "result", CallID: "1", Text: "Exit code 2\nld: cannot find -lz", Failed: true}}},
	}})
	if got := m.search("acme", Request{Query: "kind:error"}).Data; len(got) != 1 || got[0].Snippet != "ld: cannot find -lz" || got[0].Role != "tool" {
		t.Errorf("%+v", got)
	}
	if got := m.search("acme", Request{Query: "output:make"}).Data; len(got) != 1 || strings.Contains(got[0].Snippet, "command") {
		t.Errorf("%+v", got)
	}
}
