package search

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/record"
)

func (m *memory) wantFound(account, query string, want ...string) {
	m.t.Helper()
	if got := m.found(account, query); !slices.Equal(got, append([]string{}, want...)) {
		m.t.Errorf("%s: %s finds %v, want %v", account, query, got, want)
	}
}

func TestEachOfSeveralAnswersIsFound(t *testing.T) {
	m := openMemory(t, t.TempDir())
	asked := m.capture("acme", script{
		Messages: []record.Message{text("user", "name the release")},
		Answer:   []record.Message{text("assistant", "ALPHA1"), text("assistant", "BETA2")},
	})
	m.wantFound("acme", "ALPHA1", asked)
	m.wantFound("acme", "BETA2", asked)
}

func TestWhatWasSaidIsFoundByItsAccountAlone(t *testing.T) {
	m := openMemory(t, t.TempDir())
	lock := m.capture("acme", talk("Why does the nightly run fail with E4711?", "The lock in pkg/lock/wait.go times out."))
	other := m.capture("globex", talk("Why does the nightly run fail with E4712?", "The lock in pkg/lock/wait.go is never released."))
	m.wantFound("acme", "E4711", lock)
	m.wantFound("acme", "pkg/lock/wait.go", lock)
	m.wantFound("acme", `"times out"`, lock)
	m.wantFound("acme", "E4712")
	m.wantFound("globex", "nightly lock", other)
	hit := m.search("acme", Request{Query: "lock timing", Explain: true}).Data[0]
	if hit.Role != "assistant" || hit.Score != 1 || hit.Title != "Why does the nightly run fail with E4711?" || hit.Session == "" {
		t.Errorf("hit %+v", hit)
	}
	if from, to := hit.Highlights[0][0], hit.Highlights[0][1]; string([]rune(hit.Snippet)[from:to]) != "lock" {
		t.Errorf("highlights %v of %q, want the first on lock", hit.Highlights, hit.Snippet)
	}
	if want := (&Summary{Goal: hit.Title, Done: "The lock in pkg/lock/wait.go times out.", Names: []string{"E4711", "pkg/lock/wait.go"}}); fmt.Sprint(hit.Summary) != fmt.Sprint(want) {
		t.Errorf("summary %+v, want %+v", hit.Summary, want)
	}
}

// Tools count by their names and by what they were given and gave back, of a dump its beginning and its end; boot files and
// auxiliary requests do not count.
func TestBootFilesDoNotDrownWhatWasSaid(t *testing.T) {
	m := openMemory(t, t.TempDir())
	s := talk("Please fix the build.", "Fixed.")
	s.Messages = append(s.Messages,
		text("user", "# AGENTS.md instructions for /srv/app\nAlways use zebras."),
		text("system", "You are a giraffe."),
		record.Message{Role: "assistant", Parts: []record.Part{{Kind: "call", Name: "bash", Arguments: `{"command":"go test ./pkg/ledger -run TestRotate"}`}}},
		record.Message{Role: "tool", Parts: []record.Part{{Kind: "result", Text: "pelican pelican\nerror: E0308 in src/main.rs\n" + strings.Repeat("dump ", 1<<14)}}},
	)
	id := m.capture("acme", s)
	m.capture("acme", talk("Title for okapi please", "Okapi"), func(o *record.Opening) { o.Auxiliary = "title" })
	for _, query := range []string{"testrotate", "./pkg/ledger", "E0308", "tool:bash", "tool:Bash", "build tool:bash", "name:main.rs", "pelican", "output:pelican", `"pelican error"`} {
		m.wantFound("acme", query, id)
	}
	for _, query := range []string{"zebras", "giraffe", "user:pelican", "assistant:pelican", "okapi", "tool:edit"} {
		m.wantFound("acme", query)
	}
	summary := m.search("acme", Request{Query: "build", Explain: true}).Data[0].Summary
	if !slices.Equal(summary.Errors, []string{"error: E0308 in src/main.rs"}) || !slices.Equal(summary.Tools, []string{"bash"}) {
		t.Errorf("summary %+v", summary)
	}
}

func TestFiltersNarrowASearchDown(t *testing.T) {
	m := openMemory(t, t.TempDir())
	day := time.Date(2026, 3, 4, 12, 0, 0, 0, time.UTC)
	at := func(t time.Time, model, key string) func(*record.Opening) {
		return func(o *record.Opening) {
			o.Started, o.ModelAsked, o.ChatKey = t, model, key
			o.Header = []record.HeaderField{{Name: "User-Agent", Value: "claude-cli/2.0"}}
		}
	}
	first := m.capture("acme", talk("lock one", "one"), at(day, "claude-opus-4-8", "a"))
	second := m.capture("acme", talk("lock two", "two"), at(day.Add(time.Hour), "gpt-5", "a"))
	third := m.capture("acme", talk("lock three", "three"), at(day.Add(48*time.Hour), "gpt-5", "b"))
	session := m.search("acme", Request{Query: "one"}).Data[0].Session
	_, err := m.store.Archive().DescribeSession("acme", session, record.Description{Tags: []string{"urgent"}})
	m.ok(err)
	stamp := func(t time.Time) string { return t.Format(time.RFC3339) }
	for _, test := range []struct {
		name   string
		filter Filter
		want   []string
	}{
		{"none", Filter{}, []string{first, second, third}},
		{"equal", Filter{Field: "model", Op: "eq", Value: "gpt-5"}, []string{second, third}},
		{"prefix", Filter{Field: "model", Op: "prefix", Value: "claude"}, []string{first}},
		{"in", Filter{Field: "model", Op: "in", Values: []string{"claude-opus-4-8", "none"}}, []string{first}},
		{"client", Filter{Field: "client", Op: "eq", Value: "claude-cli"}, []string{first, second, third}},
		{"from an hour on", Filter{Field: "time", Op: "gte", Value: stamp(day.Add(time.Hour))}, []string{second, third}},
		{"after it", Filter{Field: "time", Op: "gt", Value: stamp(day.Add(time.Hour))}, []string{third}},
		{"before", Filter{Field: "time", Op: "lt", Value: stamp(day.Add(time.Minute))}, []string{first}},
		{"not", Filter{Not: &Filter{Field: "model", Op: "eq", Value: "gpt-5"}}, []string{first}},
		{"not before", Filter{Not: &Filter{Field: "time", Op: "lt", Value: stamp(day.Add(time.Minute))}}, []string{second, third}},
		{"and", Filter{And: []Filter{{Field: "model", Op: "eq", Value: "gpt-5"}, {Field: "session", Op: "eq", Value: session}}}, []string{second}},
		{"or", Filter{Or: []Filter{{Field: "model", Op: "prefix", Value: "claude"}, {Field: "time", Op: "gt", Value: stamp(day.Add(time.Hour))}}}, []string{first, third}},
		{"tag", Filter{Field: "tag", Op: "eq", Value: "urgent"}, []string{first, second}},
		{"without tag", Filter{Not: &Filter{Field: "tag", Op: "eq", Value: "urgent"}}, []string{third}},
		{"nothing", Filter{Field: "model", Op: "eq", Value: ""}, nil},
	} {
		got := exchangesOf(m.search("acme", Request{Query: "lock", Filter: test.filter}))
		slices.Sort(got)
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: found %v, want %v", test.name, got, test.want)
		}
	}
	if got := m.search("acme", Request{Query: "lock", GroupBy: "session"}); len(got.Data) != 2 {
		t.Errorf("grouped by session there are %d hits, want 2", len(got.Data))
	}
}

func TestPagesBudgetsAndDuplicates(t *testing.T) {
	m := openMemory(t, t.TempDir())
	for i := range 7 {
		m.capture("acme", talk(fmt.Sprintf("lock number %d", i), "ok"))
	}
	same := []string{m.capture("acme", talk("lease", "the same")), m.capture("acme", talk("lease", "the same"))}
	var all []string
	for offset := 0; ; offset += 3 {
		page := m.search("acme", Request{Query: "lock", Limit: 3, Offset: offset})
		all = append(all, exchangesOf(page)...)
		if !page.HasMore {
			break
		}
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 7 {
		t.Errorf("the pages hold %v, want each of 7 once", all)
	}
	folded := m.search("acme", Request{Query: "lease"})
	if got := append(exchangesOf(folded), folded.Data[0].Duplicates...); len(folded.Data) != 1 || len(got) != 2 || !slices.Contains(got, same[0]) || !slices.Contains(got, same[1]) {
		t.Errorf("two that say the same come as %+v", folded.Data)
	}
	few := m.search("acme", Request{Query: "lock", MaxTokens: 8})
	if len(few.Data) == 0 || len(few.Data) == 7 || !few.HasMore {
		t.Errorf("a budget of 8 tokens gives %d hits", len(few.Data))
	}
}

func TestRecencyMovesEqualsApart(t *testing.T) {
	m := openMemory(t, t.TempDir())
	now := time.Now()
	ago := func(days int) func(*record.Opening) {
		return func(o *record.Opening) { o.Started = now.Add(-time.Duration(days) * 24 * time.Hour) }
	}
	old := m.capture("acme", talk("the port is 8001 port", "noted one"), ago(300))
	young := m.capture("acme", talk("the port is 9001 now", "noted two"), ago(1))
	m.wantFound("acme", "port", old, young)
	got := exchangesOf(m.search("acme", Request{Query: "port", Ranking: Ranking{RecencyWeight: 0.5}}))
	if !slices.Equal(got, []string{young, old}) {
		t.Errorf("with recency: %v, want the younger first", got)
	}
}

func TestTheErasedIsNeverFound(t *testing.T) {
	m := openMemory(t, t.TempDir())
	gone := m.capture("acme", talk("the passphrase is xylophone", "noted"))
	kept := m.capture("acme", talk("the weather is fine", "noted, too"))
	m.wantFound("acme", "xylophone", gone)
	m.erase("acme", gone)
	m.wantFound("acme", "xylophone")
	m.reopen(func() {})
	m.wantFound("acme", "xylophone OR xylo*")
	m.wantFound("acme", "weather", kept)
	m.ok(m.index.Rebuild(t.Context()))
	m.wantFound("acme", "passphrase OR weather", kept)
}

// An index that is lost, half lost, broken or of another version is rebuilt from what was captured.
func TestALostIndexIsBuiltAgain(t *testing.T) {
	m := openMemory(t, t.TempDir())
	id := m.capture("acme", talk("where is the lock", "in pkg/lock"))
	m.wantFound("acme", "lock", id)
	index := filepath.Join(m.dir, "index")
	for name, damage := range map[string]func(){
		"removed":    func() { m.ok(os.RemoveAll(index)) },
		"unfinished": func() { m.ok(os.Remove(filepath.Join(m.index.lexicalDir(), completeMark))) },
		"in part":    func() { m.ok(os.Remove(filepath.Join(m.index.lexicalDir(), "segments"))) },
		"broken": func() {
			m.ok(os.WriteFile(filepath.Join(m.index.lexicalDir(), "segments"), []byte("no list"), 0o600))
		},
		"older": func() { m.ok(os.Rename(m.index.lexicalDir(), filepath.Join(index, "lexical-0"))) },
	} {
		m.reopen(damage)
		if got := m.found("acme", "lock"); !slices.Equal(got, []string{id}) {
			t.Errorf("index %s: found %v, want %s", name, got, id)
		}
		if former, _ := filepath.Glob(filepath.Join(index, "lexical-0")); former != nil {
			t.Errorf("index %s: the former one is still there", name)
		}
	}
}

// While the index is rebuilt, searches are answered and exchanges are captured; at the end everything is there.
func TestAnIndexIsBuiltAnewWhileItServes(t *testing.T) {
	m := openMemory(t, t.TempDir())
	const before, meanwhile = 300, 100
	for i := range before {
		m.capture("acme", talk(fmt.Sprintf("lock number %d", i), "ok"))
	}
	m.wantFound("acme", "nothing")
	var working sync.WaitGroup
	working.Go(func() {
		for i := range meanwhile {
			if _, err := captureScript(m.store, "acme", talk(fmt.Sprintf("lease number %d", i), "ok")); err != nil {
				t.Error(err)
			}
		}
	})
	working.Go(func() {
		for range 200 {
			if _, err := m.index.Search(t.Context(), "acme", &Request{Query: "lock"}); err != nil {
				t.Error(err)
			}
		}
	})
	m.ok(m.index.Rebuild(t.Context()))
	working.Wait()
	m.wantFound("acme", "nothing")
	status, err := m.index.Status(t.Context(), "acme")
	m.ok(err)
	if status.Documents != before+meanwhile || status.Lag != 0 || status.Bytes == 0 {
		t.Errorf("afterwards: %+v, want %d documents", status, before+meanwhile)
	}
}

func TestSearchesThatCannotBeAreRefused(t *testing.T) {
	m := openMemory(t, t.TempDir())
	for name, r := range map[string]Request{
		"query":            {Query: `"open`},
		"limit":            {Query: "x", Limit: 101},
		"offset":           {Query: "x", Offset: -1},
		"mode":             {Query: "x", Mode: "telepathy"},
		"syntax":           {Query: "x", Syntax: "sql"},
		"group_by":         {Query: "x", GroupBy: "mood"},
		"max_tokens":       {Query: "x", MaxTokens: -1},
		"filters.field":    {Query: "x", Filter: Filter{Field: "color", Op: "eq"}},
		"filters.not.op":   {Query: "x", Filter: Filter{Not: &Filter{Field: "model", Op: "like"}}},
		"filters.or.value": {Query: "x", Filter: Filter{Or: []Filter{{Field: "time", Op: "gte", Value: "yesterday"}}}},
		"filters":          {Query: "x", Filter: Filter{Field: "model", Op: "eq", Not: &Filter{}}},
		"filters.and":      {Query: "x", Filter: Filter{And: []Filter{{Op: "eq", Value: "gpt-5"}}}},
		"filters.or":       {Query: "x", Filter: Filter{Or: []Filter{{Or: []Filter{}}}}},
		"filters.values":   {Query: "x", Filter: Filter{Field: "model", Op: "eq", Values: []string{"gpt-5"}}},
		"filters.value":    {Query: "x", Filter: Filter{Field: "model", Op: "in", Value: "gpt-5"}},
	} {
		_, err := m.ask("acme", r)
		if e := (*codec.Error)(nil); !errors.As(err, &e) || e.Kind != codec.KindInvalidRequest || e.Param != name {
			t.Errorf("%s: error %+v", name, err)
		}
	}
	if _, err := m.ask("acme", Request{Query: "the"}); !isKind(err, codec.KindInvalidRequest) {
		t.Errorf("a query of nothing but empty words gives %v", err)
	}
	if _, err := m.ask("acme", Request{Query: `the "open`, Syntax: Plain}); err != nil {
		t.Errorf("plain syntax refuses a sign: %v", err)
	}
	_, err := m.index.Search(t.Context(), "nobody", &Request{Query: "x"})
	if err == nil {
		t.Error("an account that is none is searched")
	}
}
