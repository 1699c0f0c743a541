package project_test

import (
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/project"
)

func TestTheDirectoryThatAnAgentStatesIsTheProject(t *testing.T) {
	for name, c := range map[string]struct{ body, want string }{
		"Claude Code, in its instructions": {`{"model":"m","system":[{"type":"text","text":"You are an agent.\n - Primary working directory: /home/a/shop\n - Is a git repository: true"}],"messages":[{"role":"user","content":"hi"}]}`, "/home/a/shop"},
		"Claude Code, behind the question": {`{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"system","content":[{"type":"text","text":"# Environment\n - Primary working directory: /home/a/shop/\n"}]}]}`, "/home/a/shop"},
		"Claude Code, in a reminder":       {`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"<system-reminder>\n# Environment\n - Primary working directory: /srv/api\n</system-reminder>"},{"type":"text","text":"hi"}]}]}`, "/srv/api"},
		"Codex":                            {`{"model":"m","instructions":"You are","input":[{"role":"user","content":[{"type":"input_text","text":"<environment_context>\n  <cwd>/src/engine</cwd>\n</environment_context>"}]}]}`, "/src/engine"},
		"opencode":                         {`{"model":"m","messages":[{"role":"system","content":"<env>\n  Working directory: /src/web\n</env>"},{"role":"user","content":"hi"}]}`, "/src/web"},
		"Windows":                          {`{"model":"m","system":"Working directory: C:\\src\\app\nPlatform: win32","messages":[]}`, `C:\src\app`},
		"a person speaks of a directory":   {`{"model":"m","messages":[{"role":"user","content":"my working directory: /tmp/x is full"}]}`, ""},
		"no directory at all":              {`{"model":"m","system":"working directory: none","messages":[{"role":"user","content":"hi"}]}`, ""},
		"the root says nothing":            {`{"model":"m","system":"working directory: /","messages":[]}`, ""},
		"a line without an end":            {`{"model":"m","system":"working directory: /` + strings.Repeat("a", 4000) + `","messages":[]}`, ""},
	} {
		var e codec.Envelope
		if err := e.Read([]byte(c.body)); err != nil {
			t.Fatal(name, err)
		}
		if got := project.Of([]byte(c.body), &e); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
