package agent

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func homes(t *testing.T) Homes {
	t.Helper()
	return Homes{User: t.TempDir(), System: "linux", Lookup: func(string) (string, bool) { return "", false }}
}

var server = Server{Origin: "http://127.0.0.1:7788", Key: "mnm_key", Memory: true, Recall: "mneme recall --hook"}

func discard(Record) error { return nil }

// whatAgentsHave are files as people have them, with comments and odd spaces.
var whatAgentsHave = map[string]map[string]string{
	"claude": {
		".claude/settings.json": "{\n\t\"model\":  \"opus\", // mine\n\t\"env\": {\"ANTHROPIC_BASE_URL\": \"https://other.example\" },\n\t\"hooks\": {\"PreToolUse\": [ {\"hooks\": []} ]}}\n",
		".claude.json":          `{"numStartups":3,"mcpServers":{"other":{"command":"x"}}}`,
	},
	"codex": {".codex/config.toml": "# mine\nmodel = \"gpt-5.5\"\nmodel_provider = \"azure\"\n\n[model_providers.azure]\nname = 'a'"},
	"opencode": {
		".config/opencode/opencode.json": "{\n  \"provider\": {\"openai\": {\"models\": {\"x\": {}}}}\n}",
	},
	"cursor": {".cursor/mcp.json": "{ \"mcpServers\" : { } }\n\n"},
	"vscode": {".config/Code/User/mcp.json": "{\n}"},
}

func TestUndoGivesEveryFileItsBytesBack(t *testing.T) {
	for _, agent := range setups {
		name := agent.Name
		t.Run(name, func(t *testing.T) {
			h, record := applyToWhatTheyHave(t, name)
			for file := range whatAgentsHave[name] {
				if text := readIn(t, h, file); !strings.Contains(text, "http://127.0.0.1:7788") {
					t.Errorf("%s does not lead to the server:\n%s", file, text)
				}
				if info, err := os.Stat(filepath.Join(h.User, file)); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s holds a key, and others may read it: %v, %v", file, info.Mode(), err)
				}
			}
			undo(t, record)
			for file, text := range whatAgentsHave[name] {
				if got := readIn(t, h, file); got != text {
					t.Errorf("%s is not what it was: %q", file, got)
				}
				if info, err := os.Stat(filepath.Join(h.User, file)); err != nil || info.Mode().Perm() != 0o644 {
					t.Errorf("%s has another mode: %v, %v", file, info.Mode(), err)
				}
			}
		})
	}
}

func TestUndoLeavesNothingWhereNothingWas(t *testing.T) {
	for _, agent := range setups {
		name := agent.Name
		t.Run(name, func(t *testing.T) {
			h := homes(t)
			record := apply(t, name, h)
			undo(t, record)
			left, err := os.ReadDir(h.User)
			if err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

func TestUndoOfAFileThatWasChangedSinceTakesOutWhatSetupWrote(t *testing.T) {
	for _, agent := range setups {
		name := agent.Name
		t.Run(name, func(t *testing.T) {
			h, record := applyToWhatTheyHave(t, name)
			for file := range whatAgentsHave[name] {
				text := readIn(t, h, file)
				if strings.HasSuffix(file, ".toml") {
					text += "\n[theirs]\nadded = true\n"
				} else {
					text = strings.Replace(text, "{", `{"added": true, `, 1)
				}
				writeIn(t, h, file, text)
			}
			undo(t, record)
			for file := range whatAgentsHave[name] {
				text := readIn(t, h, file)
				if strings.Contains(text, "7788") || strings.Contains(text, "mnm_key") || !strings.Contains(text, "added") {
					t.Errorf("%s is\n%s", file, text)
				}
			}
			if name == "claude" && !strings.Contains(readIn(t, h, ".claude/settings.json"), "https://other.example") {
				t.Error("what setup has replaced is not back")
			}
			if name == "codex" && !strings.Contains(readIn(t, h, ".codex/config.toml"), `model_provider = "azure"`) {
				t.Error("what setup has replaced is not back")
			}
		})
	}
}

func TestAValueThatTheUserSetSinceStays(t *testing.T) {
	h := homes(t)
	record := apply(t, "claude", h)
	writeIn(t, h, ".claude/settings.json", `{"env":{"ANTHROPIC_BASE_URL":"https://theirs.example","ANTHROPIC_AUTH_TOKEN":"mnm_key"}}`)
	said, err := Undo(record)
	if err != nil || !strings.Contains(strings.Join(said, " "), "but for 1 values that others have set") {
		t.Errorf("%q, %v", said, err)
	}
	if got := readIn(t, h, ".claude/settings.json"); got != `{"env":{"ANTHROPIC_BASE_URL":"https://theirs.example"}}` {
		t.Errorf("%s", got)
	}
}

func TestSetupLeavesAFileAloneThatItCannotRead(t *testing.T) {
	h := homes(t)
	for name, broken := range map[string]map[string]string{
		"claude": {".claude/settings.json": `{"env": `},
		"cursor": {".cursor/mcp.json": `{"mcpServers": []}`},
		"vscode": {".config/Code/User/mcp.json": `[]`},
		"codex":  {".codex/config.toml": "[mcp_servers.mneme]\nurl = 'x'\n"},
	} {
		for file, text := range broken {
			writeIn(t, h, file, text)
			if _, err := Apply(name, h, server, discard); err == nil || !strings.Contains(err.Error(), "is left as it is") {
				t.Errorf("%s: %v", name, err)
			}
			if got := readIn(t, h, file); got != text {
				t.Errorf("%s was written: %q", file, got)
			}
		}
	}
}

func TestALinkedFileStaysALink(t *testing.T) {
	h := homes(t)
	writeIn(t, h, "dotfiles/mcp.json", "{}")
	if err := os.Mkdir(filepath.Join(h.User, ".cursor"), 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(h.User, ".cursor", "mcp.json")
	if err := os.Symlink(filepath.Join(h.User, "dotfiles", "mcp.json"), link); err != nil {
		t.Fatal(err)
	}
	apply(t, "cursor", h)
	if target, err := os.Readlink(link); err != nil || !strings.Contains(readIn(t, h, "dotfiles/mcp.json"), "7788") {
		t.Errorf("%q, %v", target, err)
	}
}

func apply(t *testing.T, name string, h Homes) Record {
	t.Helper()
	var kept []byte
	if _, err := Apply(name, h, server, func(r Record) (err error) {
		kept, err = json.Marshal(r)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	var record Record // as it is read back
	if err := json.Unmarshal(kept, &record); err != nil {
		t.Fatal(err)
	}
	return record
}

// applyToWhatTheyHave sets an agent up whose files are there already.
func applyToWhatTheyHave(t *testing.T, name string) (Homes, Record) {
	t.Helper()
	h := homes(t)
	for file, text := range whatAgentsHave[name] {
		writeIn(t, h, file, text)
	}
	return h, apply(t, name, h)
}

func undo(t *testing.T, r Record) {
	t.Helper()
	if _, err := Undo(r); err != nil {
		t.Fatal(err)
	}
}

func writeIn(t *testing.T, h Homes, file, text string) {
	t.Helper()
	file = filepath.Join(h.User, file)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func readIn(t *testing.T, h Homes, file string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(h.User, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestHooksOfOthersStayBesideOurs(t *testing.T) {
	h, record := applyToWhatTheyHave(t, "claude")
	const file = ".claude/settings.json"
	if text := readIn(t, h, file); !strings.Contains(text, `{"hooks":[]}`) && !strings.Contains(text, `{"hooks": []}`) || !strings.Contains(text, "SessionStart") || strings.Contains(text, "permissionDecision") {
		t.Errorf("set up: %s", text)
	}
	name := filepath.Join(h.User, file)
	text := strings.Replace(readIn(t, h, file), `"PreToolUse": [`, `"PreToolUse": [{"matcher":"Mine","hooks":[]},`, 1)
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	undo(t, record)
	if text := readIn(t, h, file); !strings.Contains(text, "Mine") || strings.Contains(text, "7788") || strings.Contains(text, "mneme") {
		t.Errorf("taken back: %s", text)
	}
}
