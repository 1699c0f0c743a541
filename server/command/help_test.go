package command

import (
	"bytes"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
)

func TestTheHelpOfANounHasTheFlagsOfItsDefaultCommand(t *testing.T) {
	var out bytes.Buffer
	var commands struct {
		Centre Centre `cmd:""`
		Audit  Audit  `cmd:""`
	}
	help := func(args ...string) string {
		t.Helper()
		out.Reset()
		parser, err := kong.New(&commands, kong.Name("mneme"), kong.Writers(&out, &out), kong.Exit(func(int) {}), kong.Help(helpWithDefault))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = parser.Parse(args) // goes on after the help, because nothing exits
		return out.String()
	}
	if text := help("centre", "--help"); !strings.Contains(text, "--worker") || !strings.Contains(text, "adopt") {
		t.Error(text)
	}
	if text := help("audit", "--help"); strings.Contains(text, "Without a command") {
		t.Error(text)
	}
}

func TestAnAddressWithoutAKeyIsNamedWhereThereIsNoData(t *testing.T) {
	t.Setenv(envURL, "https://mneme.example.com")
	t.Setenv(envKey, "")
	t.Setenv("XDG_CONFIG_HOME", t.TempDir())
	none := noDataError("/nowhere")
	err := Target{}.missingKey(none)
	if err == nil || !strings.Contains(err.Error(), "no key for https://mneme.example.com") || !strings.Contains(err.Error(), "mneme login https://mneme.example.com") {
		t.Error(err)
	}
	t.Setenv(envURL, "")
	if err := (Target{}).missingKey(none); err == nil || !strings.Contains(err.Error(), "/nowhere") {
		t.Error(err)
	}
}
