package search

import (
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/record"
)

func TestTheSameCommandHasOneFormWhereverItRuns(t *testing.T) {
	for command, want := range map[string]string{
		"go test ./store": "go test ./store",
		"cd /src/shop && go  test ./store 2>&1 | tail -20": "go test ./store",
		`cd "/src/my shop"; make lint | head -n 5`:         "make lint",
		"make a && make b": "make a && make b",
		"cat x | grep y":   "cat x | grep y",

		"make" + strings.Repeat("|cat", 200_000): "make", // read once, however many filters there are
	} {
		if got := SameCommand(command); got != want {
			t.Errorf("%q: %q, want %q", command, got, want)
		}
	}
}

func TestTheCallsOfEachAgentNameTheirFilesAndCommands(t *testing.T) {
	for _, test := range []struct {
		part    record.Part
		files   []string
		edits   bool
		command string
	}{
		{record.Part{Name: "Edit", Arguments: `{"file_path":"/src/a.go","old_string":"x"}`}, []string{"/src/a.go"}, true, ""},
		{record.Part{Name: "Read", Arguments: `{"file_path":"/src/./a.go"}`}, []string{"/src/a.go"}, false, ""},
		{record.Part{Name: "edit", Arguments: `{"filePath":"b.go"}`}, []string{"b.go"}, true, ""},
		{record.Part{Name: "apply_patch", Text: "*** Begin Patch\n*** Update File: c.go\n*** Add File: d.go\n"}, []string{"c.go", "d.go"}, true, ""},
		{record.Part{Name: "shell", Arguments: `{"command":["bash","-lc","make lint"]}`}, nil, false, "make lint"},
		{record.Part{Name: "exec_command", Arguments: `{"cmd":"ls"}`}, nil, false, "ls"},
		{record.Part{Name: "str_replace_based_edit_tool", Arguments: `{"command":"view","path":"/src/e.go"}`}, []string{"/src/e.go"}, false, ""},
		{record.Part{Name: "str_replace_based_edit_tool", Arguments: `{"command":"str_replace","path":"/src/e.go"}`}, []string{"/src/e.go"}, true, ""},
		{record.Part{Name: "Bash", Arguments: `{"command":7}`}, nil, false, ""},
		{record.Part{Name: "Bash", Arguments: `no JSON`}, nil, false, ""},
	} {
		test.part.Kind = "call"
		files, edits := Files(&test.part)
		if command := Command(&test.part); !slices.Equal(files, test.files) || edits != test.edits || command != test.command {
			t.Errorf("%+v: %q %t %q", test.part, files, edits, command)
		}
	}
}

func TestAFailureIsKnownByItsExitCodeItsFlagOrItsWords(t *testing.T) {
	for _, test := range []struct {
		part   record.Part
		line   string
		failed bool
	}{
		{record.Part{Text: "Exit code 2\nmake: *** [build] Error 2", Failed: true}, "make: *** [build] Error 2", true},
		{record.Part{Text: "<tool_use_error>String to replace not found</tool_use_error>", Failed: true}, "String to replace not found", true},
		{record.Part{Text: "Exit code: 1\nWall time: 1 s\nOutput:\n--- FAIL: TestLock"}, "--- FAIL: TestLock", true},
		{record.Part{Text: "Process exited with code 0\nerror: only quoted"}, "", false},
		{record.Part{Text: `{"output":"","metadata":{"exit_code":3}}`}, "exit code 3", true},
		{record.Part{Text: "Exit code 1", Failed: true}, "exit code 1", true},
		{record.Part{Text: "fatal: not a repository"}, "fatal: not a repository", true},
		{record.Part{Text: "ok", Failed: true}, "ok", true},
		{record.Part{Text: "ok"}, "", false},
	} {
		test.part.Kind = "result"
		if line, failed := Failure(&test.part); line != test.line || failed != test.failed {
			t.Errorf("%+v: %q %t", test.part, line, failed)
		}
	}
}
