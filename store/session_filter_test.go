package store

import (
	"fmt"
	"slices"
	"testing"

	"github.com/mnemeproxy/mneme/store/internal/commit"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/writing"
	"github.com/mnemeproxy/mneme/store/record"
)

func TestSessionsAreFoundByClientProjectAndOutcome(t *testing.T) {
	c := newConversation(t)
	ask := func(chat, agent, project string, outcome record.Outcome) string {
		o := say("hello")
		o.ChatKey, o.Project = chat, project
		if agent != "" {
			o.Header = []record.HeaderField{{Name: "User-Agent", Value: agent}}
		}
		_, session := c.exchange(o, outcome, "hi")
		return session
	}
	claude := ask("a", "claude-cli/2.1", "/src/a", record.OutcomeComplete)
	ask("a", "curl/8", "/src/b", record.OutcomeComplete) // the first ones count
	codex := ask("b", "codex_exec/1", "/src/a", record.OutcomeUpstreamError)
	nameless := ask("c", "", "", record.OutcomeComplete)
	o := say("hello")
	o.ChatKey, o.ModelAsked = "d", "House/Large"
	large := c.session(o, "hi")
	err := c.s.writer.Update(t.Context(), func(g *writing.Group, w *commit.Op) error { // as earlier versions wrote it
		id, _ := kv.ParseSessionID(codex)
		r, ref := g.Sessions.Session(kv.SessionRef{Account: 1, ID: id})
		r.Client, r.Project = "", ""
		g.Sessions.PutSession(w, ref, r)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, story := range map[string]struct {
		query record.SessionQuery
		want  []string
	}{
		"client":     {record.SessionQuery{Client: "claude-code"}, []string{claude}},
		"project":    {record.SessionQuery{Project: "/src/a"}, []string{codex, claude}},
		"both":       {record.SessionQuery{Project: "/src/a", Client: "codex"}, []string{codex}},
		"complete":   {record.SessionQuery{State: record.Complete}, []string{large, nameless, claude}},
		"incomplete": {record.SessionQuery{State: record.Incomplete}, []string{codex}},
		"model":      {record.SessionQuery{Model: "house/large"}, []string{large}},
		"nobody's":   {record.SessionQuery{Client: "curl"}, nil},
	} {
		if got := listSessions(t, c.s, story.query); !slices.Equal(got, story.want) {
			t.Errorf("%s: %q, want %q", what, got, story.want)
		}
	}
}

func TestAFilterThatFewSessionsMatchTakesSeveralShortPages(t *testing.T) {
	c := newConversation(t)
	first := ""
	for i := range mostLooked/lookOfExchanges + 20 { // none of them names its client, but for the first
		o := say("hello")
		o.ChatKey = fmt.Sprint(i)
		if i == 0 {
			o.Header = []record.HeaderField{{Name: "User-Agent", Value: "curl/8"}}
		}
		if id := c.session(o, "hi"); i == 0 {
			first = id
		}
	}
	short, err := c.s.Archive().Sessions("acme", record.SessionQuery{Client: "curl"})
	if err != nil {
		t.Fatal(err)
	}
	if len(short.Data) > 0 || !short.HasMore || short.Reached == "" {
		t.Fatalf("the first page has %d sessions, more %t, reached %q", len(short.Data), short.HasMore, short.Reached)
	}
	rest, err := c.s.Archive().Sessions("acme", record.SessionQuery{Client: "curl", After: short.Reached})
	if err != nil {
		t.Fatal(err)
	}
	if len(rest.Data) != 1 || rest.Data[0].ID != first || rest.HasMore {
		t.Errorf("behind it are %d sessions, more %t", len(rest.Data), rest.HasMore)
	}
	backwards, err := c.s.Archive().Sessions("acme", record.SessionQuery{Client: "nobody", Before: first})
	if err != nil {
		t.Fatal(err)
	}
	if backwards.Reached == "" {
		t.Error("the way back looks at all of them")
	}
}
