package history_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/history"
	"github.com/mnemeproxy/mneme/store/record"
)

// agents puts programs that say a version into PATH.
func agents(t *testing.T, versions map[string]string) {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("the programs are shell scripts")
	}
	dir := t.TempDir()
	for name, version := range versions {
		script := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = import ] && exec cp \"$2\" \"$IMPORTED\"\necho '%s'\n", version)
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+"/bin"+string(os.PathListSeparator)+"/usr/bin")
}

func handoff() *history.Handoff {
	part := func(kind, text string) record.Part { return record.Part{Kind: kind, Text: text} }
	return &history.Handoff{
		Title: "The lock", Project: "/home/ann/shop", Model: "claude-opus-4-8", Began: time.Date(2026, 11, 20, 8, 0, 0, 0, time.UTC),
		Messages: []record.Message{
			{Role: "user", Parts: []record.Part{part("text", "# AGENTS.md instructions\n\nBe brief."), part("text", "Mend the lock.\u2028</script>")}},
			{Role: "system", Parts: []record.Part{part("text", "# Environment")}},
			{Role: "assistant", Parts: []record.Part{part("reasoning", "hm"), part("text", "I look."), {Kind: "call", CallID: "call/1", Name: "Bash", Arguments: `{"command":"cat lock.go"}`}, {Kind: "call", CallID: "2", Name: "apply_patch", Text: "*** Begin"}, {Kind: "call", CallID: "3", Name: "Edit", Arguments: `{"file_path":"a.go","old_string":"x","new_string":"y"}`}, {Kind: "call", CallID: "4", Name: "shell", Arguments: `{"command":["bash","-lc","go test"]}`}}},
			{Role: "tool", Parts: []record.Part{{Kind: "result", CallID: "call/1", Text: "package lock"}}},
			{Role: "assistant", Parts: []record.Part{part("text", "We decided to wait for it.")}},
		},
	}
}

// What a program is given, import reads: each of the words, calls and results once.
func TestAConversationThatIsHandedOverIsReadBackWhole(t *testing.T) {
	agents(t, map[string]string{"claude": "2.1.197 (Claude Code)", "codex": "codex-cli 0.169.0", "opencode": "1.18.33"})
	for name, tools := range map[string][]string{
		"claude-code": {`"Bash"`, `"command":"cat lock.go"`, `"file_path":"a.go"`, `"command":"go test"`},
		"codex":       {`"exec_command"`, `\"cmd\":\"cat lock.go\"`, `\"cmd\":\"go test\"`},
		"opencode":    {`"bash"`, `\"command\":\"cat lock.go\"`, `\"filePath\":\"a.go\"`, `\"newString\":\"y\"`},
	} {
		t.Run(name, func(t *testing.T) {
			imported := filepath.Join(t.TempDir(), "session.json")
			t.Setenv("IMPORTED", imported)
			home := t.TempDir()
			s := &history.Search{Home: home, Lookup: func(string) (string, bool) { return "", false }, Temp: t.TempDir()}
			handed, err := history.HandTo(t.Context(), name, s, handoff())
			if err != nil {
				t.Fatal(err)
			}
			if name == "opencode" {
				s.Path = imported
			}
			found, err := history.Look(t.Context(), name, s)
			if err != nil || len(found.Problems) > 0 || len(found.Unknown) > 0 || len(found.Cut) > 0 {
				t.Fatalf("%v %+v", err, found)
			}
			sessions := found.Sessions()
			if len(sessions) != 1 || sessions[0].Native != handed.Session || sessions[0].Project != "/home/ann/shop" {
				t.Fatalf("%+v, handed over as %+v", sessions, handed)
			}
			text := ""
			err = found.Give(t.Context(), nil, nil, func(e record.Exported) error {
				if e.Exchange != nil {
					text += string(e.Exchange.RawRequest) + string(e.Exchange.RawResponse)
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range append(tools, "Mend the lock.", "</script>", "I look.", "cat lock.go", "package lock", "*** Begin", "There is no result on record.", "We decided to wait for it.", "call_1") {
				if !strings.Contains(text, want) {
					t.Errorf("it has no %q:\n%s", want, text)
				}
			}
			for _, want := range []string{"AGENTS.md", "# Environment", "hm"} {
				if strings.Contains(text, `"`+want) {
					t.Errorf("it has %q:\n%s", want, text)
				}
			}
			if strings.Count(text, "We decided") != 1 {
				t.Errorf("it says something twice:\n%s", text)
			}
		})
	}
}

func TestNothingIsWrittenForAnAgentThatIsMissingOrUnknown(t *testing.T) {
	agents(t, map[string]string{"claude": "3.0.0 (Claude Code)", "codex": "who knows"})
	for _, name := range history.Receivers() {
		home := t.TempDir()
		_, err := history.HandTo(t.Context(), name, &history.Search{Home: home, Lookup: func(string) (string, bool) { return "", false }, Temp: t.TempDir()}, handoff())
		if err == nil || !strings.Contains(err.Error(), "nothing was written") {
			t.Errorf("%s: %v", name, err)
		}
		_ = filepath.WalkDir(home, func(path string, entry fs.DirEntry, err error) error {
			if err == nil && !entry.IsDir() {
				t.Errorf("%s: %s was written", name, path)
			}
			return err
		})
	}
}
