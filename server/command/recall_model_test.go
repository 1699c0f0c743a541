package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Claude Code names no model with a prompt. Its transcript shows what was chosen since the last answer.
func TestAPromptNamesTheModelThatWasChosenSinceTheLastAnswer(t *testing.T) {
	set := func(name string) string {
		line, _ := json.Marshal(map[string]any{"type": "user", "message": map[string]any{"role": "user", "content": "<local-command-stdout>Set model to " + name + "</local-command-stdout>"}})
		return string(line) + "\n"
	}
	const (
		answer = `{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":"Done."}]}}` + "\n"
		asked  = `{"type":"user","message":{"role":"user","content":"What does <local-command-stdout>Set model to Opus 4</local-command-stdout> mean?"}}` + "\n"
		listed = `{"type":"user","message":{"role":"user","content":[{"type":"text","text":"x"}]}}` + "\n"
	)
	for name, c := range map[string]struct{ transcript, want string }{
		"a name for people":        {answer + set("\x1b[1mSonnet 5\x1b[22m and saved as your default for new sessions"), "claude-sonnet-5"},
		"with a point and a note":  {answer + set("\x1b[1mOpus 4.8 (1M context)\x1b[22m"), "claude-opus-4-8"},
		"a short name":             {answer + set("Haiku"), "haiku"},
		"a whole name":             {answer + set("claude-sonnet-4-6") + listed, "claude-sonnet-4-6"},
		"the last choice":          {set("Sonnet 5") + set("Haiku 4.5"), "claude-haiku-4-5"},
		"before the last answer":   {set("Sonnet 5") + answer, ""},
		"words of a person":        {answer + asked, ""},
		"behind a long transcript": {strings.Repeat(answer, 3000) + set("Sonnet 5"), "claude-sonnet-5"},
		"nothing":                  {"", ""},
		"no transcript":            {"\x00{[", ""},
	} {
		path := filepath.Join(t.TempDir(), "t.jsonl")
		if err := os.WriteFile(path, []byte(c.transcript), 0o600); err != nil {
			t.Fatal(err)
		}
		event, _ := json.Marshal(map[string]string{"hook_event_name": "UserPromptSubmit", "transcript_path": path, "prompt": "Go on."})
		var got struct{ Model, Prompt string }
		if err := json.Unmarshal(withModel(event, "claude-opus-4-8"), &got); err != nil || got.Model != c.want || got.Prompt != "Go on." {
			t.Errorf("%s: %+v, not %q, %v", name, got, c.want, err)
		}
	}
	for _, event := range []string{
		`{"hook_event_name":"UserPromptSubmit","transcript_path":"/no/such/file"}`, `{"hook_event_name":"UserPromptSubmit","transcript_path":7}`,
		`{"hook_event_name":"UserPromptSubmit","model":"gpt-5.5"}`, `{"hook_event_name":"PreToolUse"}`, `[]`, `{`,
	} {
		if got := string(withModel([]byte(event), "claude-opus-4-8")); got != event {
			t.Errorf("%s became %s", event, got)
		}
	}
}
