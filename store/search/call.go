package search

import (
	"encoding/hex"
	"encoding/json"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/record"
)

const (
	maxFiles = 16  // of one call
	maxPath  = 512 // bytes; longer ones are not paths
)

// arguments are those that tools which run commands, or read and change files, have in common.
type arguments struct {
	Command      json.RawMessage `json:"command"` // of an editor what it does with the file
	Cmd          string          `json:"cmd"`
	FilePath     string          `json:"file_path"`
	Path         string          `json:"path"`
	CamelCase    string          `json:"filePath"`
	NotebookPath string          `json:"notebook_path"`
	Input        string          `json:"input"`
}

// argumentsOf reads the arguments of a call; empty if they are none of these.
func argumentsOf(p *record.Part) (a arguments) {
	_ = json.Unmarshal([]byte(p.Arguments), &a)
	return a
}

// Command returns the command that a call runs in a shell; "" if it runs none.
func Command(p *record.Part) string {
	arguments := argumentsOf(p)
	return arguments.shell()
}

// shell returns the command that is run in a shell.
func (a *arguments) shell() string {
	if a.Path != "" { // the command of an editor
		return ""
	}
	var words []string
	var text string
	switch {
	case json.Unmarshal(a.Command, &text) == nil:
	case json.Unmarshal(a.Command, &words) == nil:
		if len(words) == 3 && (words[1] == "-c" || words[1] == "-lc") { // bash -lc
			words = words[2:]
		}
		text = strings.Join(words, " ")
	default:
		text = a.Cmd
	}
	return strings.TrimSpace(text)
}

// Parts of a command that do not identify it: the directory where it runs, and the filters of its output.
var (
	firstDirectory = regexp.MustCompile(`^(?:cd|pushd) +(?:'[^']*'|"[^"]*"|[^\s;&|]+) *(?:&&|;) *`)
	lastFilters    = regexp.MustCompile(`(?: *(?:2>&1|\| *(?:tail|head|cat|less|tee)\b[^|;&]*))+$`)
)

// SameCommand returns what is the same in all runs of a command: without the directory that it first changes to, and without
// the filters of its output at the end.
func SameCommand(command string) string {
	command = firstDirectory.ReplaceAllString(strings.Join(strings.Fields(command), " "), "")
	return lastFilters.ReplaceAllString(command, "")
}

// ranValue is the value of the facet of a command that ran.
func ranValue(command string) string {
	sum := blake3.Sum256([]byte(SameCommand(command)))
	return hex.EncodeToString(sum[:8])
}

// Files returns the files that a call reads, edits or writes, and whether it changes them.
func Files(p *record.Part) (files []string, edits bool) {
	if p.Kind != "call" {
		return nil, false
	}
	arguments := argumentsOf(p)
	return arguments.files(p)
}

func (a *arguments) files(p *record.Part) (files []string, edits bool) {
	for _, file := range []string{a.FilePath, a.CamelCase, a.NotebookPath, a.Path} {
		if file != "" && len(file) < maxPath {
			files = append(files, path.Clean(file))
			break
		}
	}
	edits = editsFiles(p.Name) && !(a.Path != "" && string(a.Command) == `"view"`)
	for _, patch := range []string{a.Input, p.Text, a.shell()} { // of Codex
		if !strings.Contains(patch, patchMark) {
			continue
		}
		edits = true
		for line := range strings.Lines(patch) {
			for _, mark := range [...]string{"*** Update File: ", "*** Add File: ", "*** Delete File: "} {
				if file, ok := strings.CutPrefix(strings.TrimSpace(line), mark); ok && len(file) < maxPath && len(files) < maxFiles {
					files = append(files, path.Clean(file))
				}
			}
		}
	}
	return files, edits
}

const patchMark = "*** Begin Patch"

// editsFiles reports whether a tool of that name changes the files it is given.
func editsFiles(tool string) bool {
	tool = strings.ToLower(tool)
	return slices.ContainsFunc([]string{"edit", "write", "patch", "replace"}, func(word string) bool { return strings.Contains(tool, word) })
}

// exitCodes are the forms in which agents note how a command ended, in the first lines of its result.
var exitCodes = regexp.MustCompile(`(?m)^(?:Exit code:?|Process exited with code|exit status|\[exit code) ?(-?\d+)|"exit_code": ?(-?\d+)`)

// ExitCode returns the exit code that is noted in a tool's result; known is false if none is.
func ExitCode(text string) (code int, known bool) {
	head := cut(text, maxFailureLine)
	found := exitCodes.FindStringSubmatch(head)
	if found == nil {
		return 0, false
	}
	code, err := strconv.Atoi(found[1] + found[2])
	return code, err == nil
}

// Failure reports whether a tool's result is a failure, and the line that says so; of a failure without one its first line. A
// result that notes exit code 0 is none, whatever it says.
func Failure(p *record.Part) (line string, failed bool) {
	if p.Kind != "result" {
		return "", false
	}
	code, known := ExitCode(p.Text)
	if known && code == 0 && !p.Failed {
		return "", false
	}
	line = FailureLine(cut(p.Text, maxExamined))
	if failed = p.Failed || code != 0 || line != ""; !failed || line != "" {
		return line, failed
	}
	for text := range strings.Lines(cut(p.Text, maxResult)) {
		text = strings.TrimSpace(resultTags.ReplaceAllString(text, ""))
		if text != "" && !exitCodes.MatchString(text) {
			return cut(text, maxFailureLine), true
		}
	}
	if known {
		return "exit code " + strconv.Itoa(code), true
	}
	return "", true
}

// resultTags are what Claude Code puts around the failures of its own tools.
var resultTags = regexp.MustCompile(`</?tool_use_error>`)
