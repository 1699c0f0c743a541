package bench

import (
	"context"
	"fmt"

	"github.com/mnemeproxy/mneme/server/command"
)

// Command is "mneme bench".
type Command struct {
	Run     Run     `cmd:"" default:"withargs" help:"Run lanes against targets and write a report."`
	Lanes   Lanes   `cmd:"" help:"List the lanes."`
	Compare Compare `cmd:"" help:"Compare two binaries side by side, or two reports; fail if a figure grew."`
	Check   Check   `cmd:"" help:"Check a report against the budgets."`
	Readme  Readme  `cmd:"" help:"Print a report as the table of docs/benchmarks.md."`
	Target  Target  `cmd:"" hidden:""`
}

// Lanes is "mneme bench lanes".
type Lanes struct{}

// Run lists the lanes and marks the short set.
func (*Lanes) Run(_ context.Context, s *command.Env) error {
	inShortSet := map[string]bool{}
	for _, name := range shortSet {
		inShortSet[name] = true
	}
	for i := range lanes {
		mark := " "
		if inShortSet[lanes[i].Name] {
			mark = "*"
		}
		fmt.Fprintf(s.Out, "%s %-27s %s\n", mark, lanes[i].Name, lanes[i].About)
	}
	fmt.Fprintln(s.Out, "\n* the short set, run when no lane is named")
	return nil
}

// Readme is "mneme bench readme".
type Readme struct {
	Report string `arg:"" default:"bench-report/report.json" help:"report.json of a run."`
}

// Run prints the table.
func (c *Readme) Run(_ context.Context, s *command.Env) error {
	report, err := readReport(c.Report)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(s.Out, report.readme())
	return err
}
