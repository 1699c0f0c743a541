package service

import (
	"context"
	"encoding/xml"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// tools notes what is run of the system's tools.
type tools struct {
	ran     []string
	failing string // a word of those that fail
}

func (t *tools) run(_ context.Context, name string, args ...string) (string, error) {
	line := name + " " + strings.Join(args, " ")
	t.ran = append(t.ran, line)
	if t.failing != "" && strings.Contains(line, t.failing) {
		return "", errors.New("it failed")
	}
	return "", nil
}

var program = Program{
	Executable: "/opt/my programs/mneme", Args: []string{"serve", "--data", `/home/a/100% "mine"`},
	Environment: []string{"OPENAI_API_KEY=sk-$<&>"}, Log: "/home/a/server.log",
}

func TestTheUnitIsStartedWithItsWordsWhole(t *testing.T) {
	var tools tools
	home := t.TempDir()
	k := find(t.Context(), "linux", tools.run, home, 1000, nil)
	if err := k.Up(t.Context(), program); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(home, ".config", "systemd", "user", "mneme.service")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`ExecStart="/opt/my programs/mneme" "serve" "--data" "/home/a/100%% \"mine\""`, `Environment="OPENAI_API_KEY=sk-$$<&>"`, "Restart=on-failure",
	} {
		if !strings.Contains(string(text), line+"\n") {
			t.Errorf("no line %s in\n%s", line, text)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("others read the unit: %v, %v", info.Mode(), err)
	}
	if managed, err := k.Down(t.Context()); !managed || err != nil {
		t.Errorf("%v, %v", managed, err)
	}
	want := "systemctl --user show-environment|systemctl --user daemon-reload|systemctl --user enable mneme.service|systemctl --user restart mneme.service|" +
		"systemctl --user disable --now mneme.service|systemctl --user daemon-reload"
	if got := strings.Join(tools.ran, "|"); got != want {
		t.Errorf("ran %s", got)
	}
	if managed, err := k.Down(t.Context()); managed || err != nil {
		t.Errorf("taken down twice: %v, %v", managed, err)
	}
}

func TestTheAgentIsAPropertyListThatCanBeRead(t *testing.T) {
	var tools tools
	home := t.TempDir()
	k := find(t.Context(), "darwin", tools.run, home, 501, nil)
	if err := k.Up(t.Context(), program); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(home, "Library", "LaunchAgents", "dev.mneme.server.plist"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Dict struct {
			Strings []string `xml:"array>string"`
		} `xml:"dict"`
	}
	if err := xml.Unmarshal(text, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Dict.Strings) != 4 || list.Dict.Strings[3] != program.Args[2] || !strings.Contains(string(text), "<string>sk-$&lt;&amp;&gt;</string>") {
		t.Errorf("%q\n%s", list.Dict.Strings, text)
	}
	if managed, err := k.Down(t.Context()); !managed || err != nil {
		t.Errorf("%v, %v", managed, err)
	}
	if got := tools.ran[len(tools.ran)-1]; got != "launchctl bootout gui/501/dev.mneme.server" {
		t.Errorf("ran %s", got)
	}
}

func TestTheTaskOfWindowsComesBackAtLogon(t *testing.T) {
	var tools tools
	k := find(t.Context(), "windows", tools.run, "", -1, nil)
	if err := k.Up(t.Context(), program); err != nil {
		t.Fatal(err)
	}
	if want := `schtasks /Create /F /SC ONLOGON /TN mneme /TR "/opt/my programs/mneme" "serve" "--data" "/home/a/100% \"mine\""`; tools.ran[0] != want {
		t.Errorf("ran %s", tools.ran[0])
	}
	if managed, err := k.Down(t.Context()); !managed || err != nil {
		t.Errorf("%v, %v", managed, err)
	}
	tools.failing = "/Query"
	if managed, err := k.Down(t.Context()); managed || err != nil {
		t.Errorf("a task that is not there: %v, %v", managed, err)
	}
}

func TestWithoutAServiceManagerItIsAPlainProcess(t *testing.T) {
	tools := tools{failing: "show-environment"}
	started := false
	k := find(t.Context(), "linux", tools.run, t.TempDir(), 0, func(Program) error {
		started = true
		return nil
	})
	if err := k.Up(t.Context(), program); err != nil || !started {
		t.Errorf("%v, %v", started, err)
	}
	if managed, err := k.Down(t.Context()); managed || err != nil {
		t.Errorf("%v, %v", managed, err)
	}
}
