package history

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/mnemeproxy/mneme/store/record"
)

// The columns of toolNames and memberNames.
const (
	inClaudeCode = iota
	inCodex
	inOpencode
)

// toolNames are the names of the same tool. The first row with a name counts.
var toolNames = [][3]string{
	{"Bash", "exec_command", "bash"},
	{"Bash", "shell", "bash"},
	{"Bash", "shell_command", "bash"},
	{"Read", "read_file", "read"},
	{"Write", "write_file", "write"},
	{"Edit", "edit_file", "edit"},
	{"Grep", "grep_files", "grep"},
	{"Glob", "find_files", "glob"},
	{"TodoWrite", "update_plan", "todowrite"},
	{"WebFetch", "web_fetch", "webfetch"},
	{"Task", "spawn_agent", "task"},
	{"Agent", "spawn_agent", "task"},
}

// memberNames are the names of the same argument of these tools.
var memberNames = [][3]string{
	{"command", "cmd", "command"},
	{"file_path", "file_path", "filePath"},
	{"old_string", "old_string", "oldString"},
	{"new_string", "new_string", "newString"},
	{"replace_all", "replace_all", "replaceAll"},
	{"glob", "glob", "include"},
}

// nameIn returns the name that a program has for a name of any, and whether the list has it.
func nameIn(list [][3]string, name string, program int) (string, bool) {
	for _, names := range list {
		if slices.Contains(names[:], name) {
			return names[program], true
		}
	}
	return name, false
}

// toolName returns the name that a program has for a tool of another one, or that name itself.
func toolName(name string, program int) string {
	name, _ = nameIn(toolNames, name, program)
	return name
}

// argumentsFor returns the arguments of a call as a JSON object, under the names that a program has for them.
func argumentsFor(p *record.Part, program int) []byte {
	trimmed := bytes.TrimSpace([]byte(p.Arguments))
	var members map[string]json.RawMessage
	if len(trimmed) == 0 || trimmed[0] != '{' || json.Unmarshal(trimmed, &members) != nil {
		whole := p.Text
		if whole == "" {
			whole = p.Arguments
		}
		return object("input", text(whole))
	}
	if _, known := nameIn(toolNames, p.Name, program); !known {
		return trimmed
	}
	named := make(map[string]json.RawMessage, len(members))
	for name, value := range members {
		name, _ = nameIn(memberNames, name, program)
		named[name] = commandLine(name, value)
	}
	written, err := json.Marshal(named)
	if err != nil {
		return trimmed
	}
	return written
}

// commandLine returns a command as one line: Codex may write the words for the operating system.
func commandLine(name string, value json.RawMessage) json.RawMessage {
	var words []string
	if name != "command" && name != "cmd" || json.Unmarshal(value, &words) != nil {
		return value
	}
	if len(words) == 3 && (words[1] == "-lc" || words[1] == "-c") {
		return text(words[2])
	}
	return text(strings.Join(words, " "))
}
