package bench

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/server/command"
)

func TestComparisonOfReportsFailsOverItsBoundByMoreThanTheNoise(t *testing.T) {
	t.Parallel()
	allocating := reportOf(1, 1, 1)
	for i := range allocating.Lanes[0].Results[1].Rounds {
		allocating.Lanes[0].Results[1].Rounds[i].Allocations *= 2
	}
	for name, test := range map[string]struct {
		before, after *Report
		over, failed  int
		says          string
	}{
		"half the cost":         {reportOf(2, 2.1, 2.2), reportOf(1, 1.05, 1.1), 0, 0, "| 0.50 ("},
		"the same":              {reportOf(2, 2.1, 2.2), reportOf(2.1, 2.15, 2.3), 0, 0, "| 1.05 ("},
		"more, within noise":    {reportOf(1, 2, 3), reportOf(1.5, 2.5, 3.5), 0, 0, ""},
		"twice the CPU time":    {reportOf(1, 1.05, 1.1), reportOf(2, 2.1, 2.2), 1, 0, "**over**"},
		"twice the allocations": {reportOf(1, 1, 1), allocating, 1, 0, "| allocations/request | 50.0 (50.0–50.0) | 100 (100–100) | 2.00 (2.00–2.00) | **over** |"},
		"answers are missing":   {reportOf(1, 1, 1), failing(), 0, 2, "**1 answers failed**"},
		"a failure and itself":  {failing(), failing(), 0, 2, "**1 answers failed**"},
	} {
		var out strings.Builder
		over, failed := writeChanges(&out, reportedChanges(test.before, test.after), 1.1)
		if over != test.over || failed != test.failed || !strings.Contains(out.String(), test.says) {
			t.Errorf("%s: %d figures are over, %d failed:\n%s", name, over, failed, out.String())
		}
	}
}

func TestComparisonRefusesWhatCannotBeCompared(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if err := reportOf(1, 1).write(dir); err != nil {
		t.Fatal(err)
	}
	elsewhere := reportOf(1, 1)
	elsewhere.Lanes[0].Lane = "agent"
	if err := elsewhere.write(filepath.Join(dir, "elsewhere")); err != nil {
		t.Fatal(err)
	}
	report := filepath.Join(dir, "report.json")
	for name, test := range map[string]struct{ before, after, says string }{
		"a report and a binary": {report, os.Args[0], "two binaries or two reports"},
		"nothing in common":     {report, filepath.Join(dir, "elsewhere", "report.json"), "no lane and target in common"},
		"no such file":          {report, filepath.Join(dir, "none.json"), "no such file"},
	} {
		c := Compare{Before: test.before, After: test.after, AtMost: 1.1}
		if err := c.Run(t.Context(), &command.Env{Out: io.Discard, Err: io.Discard}); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Two binaries, here the same one twice, take turns with capture on and off, and every figure is there.
func TestTwoBinariesAreMeasuredSideBySide(t *testing.T) {
	t.Parallel()
	var out, people bytes.Buffer
	c := Compare{Before: os.Args[0], After: os.Args[0], Lanes: []string{"chat", "search"}, AtMost: 1e-9, Rounds: 2, Scale: 1e-9, Out: t.TempDir()}
	err := c.Run(t.Context(), &command.Env{Out: &out, Err: &people, Version: "v0.0.0-test"})
	if err == nil || !strings.Contains(err.Error(), "of 9 figures are more than 1e-09 times what they were") {
		t.Errorf("%v\n%s%s", err, out.String(), people.String())
	}
	for _, row := range []string{
		"| chat | mneme | CPU", "| chat | mneme | allocations", "| chat | mneme | bytes",
		"| chat | mneme-off | CPU", "| chat | mneme-off | allocations", "| chat | mneme-off | bytes",
		"| search | mneme | CPU", "| search | mneme | allocations", "| search | mneme | bytes",
	} {
		if !strings.Contains(out.String(), row) {
			t.Errorf("no row %q in\n%s", row, out.String())
		}
	}
	report, err := readReport(filepath.Join(c.Out, "report.json"))
	if err != nil || len(report.Lanes) != 2 || len(report.Lanes[0].Results[0].Rounds) != 2 {
		t.Errorf("%v, %+v", err, report)
	}
}
