package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/mnemeproxy/mneme/server/command"
)

// Compare is "mneme bench compare".
type Compare struct {
	Before string   `arg:"" help:"The earlier mneme binary, or the report.json of its run."`
	After  string   `arg:"" help:"The later one."`
	Lanes  []string `arg:"" optional:"" help:"Lanes to run with two binaries; none: the short set."`
	AtMost float64  `default:"1.1" help:"Fail if a figure has grown by more than this factor and noise does not explain it."`
	Rounds int      `default:"5" help:"Measured rounds per lane with two binaries."`
	Scale  float64  `default:"0.35" help:"Multiplies the requests of a round."`
	Out    string   `placeholder:"DIR" help:"Directory for the report of the run with two binaries."`
}

// Run prints each figure of the later mneme as a multiple of the earlier one's. Binaries run side by side and are
// compared round by round. The figures of each report are relative to its own byte pump, so the two need not be from
// the same machine.
func (c *Compare) Run(ctx context.Context, s *command.Env) error {
	changes, err := c.changes(ctx, s)
	if err != nil {
		return err
	}
	if len(changes) == 0 {
		return errors.New("the reports have no lane and target in common")
	}
	over, failed := writeChanges(s.Out, changes, c.AtMost)
	switch {
	case failed > 0:
		return fmt.Errorf("%d of %d figures are of lanes with failed answers, and are not compared; %d others are more than %g times what they were", failed, len(changes), over, c.AtMost)
	case over > 0:
		return fmt.Errorf("%d of %d figures are more than %g times what they were", over, len(changes), c.AtMost)
	}
	return nil
}

func (c *Compare) changes(ctx context.Context, s *command.Env) ([]change, error) {
	var reports int
	for _, file := range []string{c.Before, c.After} {
		is, err := isReport(file)
		if err != nil {
			return nil, err
		}
		if is {
			reports++
		}
	}
	switch reports {
	case 0:
		report, err := c.measure(ctx, s)
		if err != nil {
			return nil, err
		}
		return pairedChanges(report), nil
	case 2:
		before, err := readReport(c.Before)
		if err != nil {
			return nil, err
		}
		after, err := readReport(c.After)
		if err != nil {
			return nil, err
		}
		return reportedChanges(before, after), nil
	}
	return nil, errors.New("give two binaries or two reports, not one of each")
}

func isReport(file string) (bool, error) {
	f, err := os.Open(file)
	if err != nil {
		return false, err
	}
	defer f.Close()
	first := make([]byte, 1)
	_, err = io.ReadFull(f, first)
	return bytes.Equal(first, []byte("{")), err
}

// beforeMark and afterMark follow the name of a target in a run of two binaries.
const beforeMark, afterMark = "@before", "@after"

// measure runs the lanes with both binaries. In each round they run one directly after the other.
func (c *Compare) measure(ctx context.Context, s *command.Env) (*Report, error) {
	run := Run{Lanes: c.Lanes, Rounds: c.Rounds, Scale: c.Scale, Out: c.Out}
	chosen, err := run.chosen()
	if err != nil {
		return nil, err
	}
	fleet, err := startFleet(s.Version, nil, "")
	if err != nil {
		return nil, err
	}
	defer fleet.stop()
	for _, name := range []string{targetMneme, targetOff} {
		for _, one := range []struct{ mark, program string }{{beforeMark, c.Before}, {afterMark, c.After}} {
			t, err := fleet.startMneme(name, one.program)
			if err != nil {
				return nil, fmt.Errorf("%s of %s: %w", name, one.program, err)
			}
			t.Name += one.mark
			fleet.targets = append(fleet.targets, t)
		}
	}
	r := &runner{Run: &run, fleet: fleet, env: s}
	report, err := r.report(ctx, chosen)
	if err == nil && c.Out != "" {
		err = report.write(c.Out)
	}
	return report, err
}

// A change is one figure of one target in one lane, before and after.
type change struct {
	lane, target, figure string
	before, after        Spread
	ratios               []float64 // of after to before
	failed               int       // incomplete or wrong answers after
}

// compared are the figures of a comparison, with their units in the table.
var compared = []struct{ figure, unit string }{
	{"cpu_per_request", "CPU µs/request"},
	{"allocations", "allocations/request"},
	{"bytes", "bytes allocated/request"},
}

// pairedChanges returns the changes in a run of two binaries, round by round.
func pairedChanges(report *Report) (all []change) {
	for i := range report.Lanes {
		l := &report.Lanes[i]
		for _, name := range []string{targetMneme, targetOff} {
			before, after := l.result(name+beforeMark), l.result(name+afterMark)
			if before == nil || after == nil {
				continue
			}
			for _, c := range compared {
				figure := figures[c.figure]
				all = appendChange(all, change{
					lane: l.Lane, target: name, figure: c.unit, failed: after.failures(),
					before: before.spread(figure), after: after.spread(figure), ratios: ratios(after, before, figure, figure),
				})
			}
		}
	}
	return all
}

// reportedChanges returns the changes between two runs. Their rounds do not correspond, so each later round is compared
// with each earlier one. CPU times are multiples of the byte pump's.
func reportedChanges(before, after *Report) (all []change) {
	for i := range after.Lanes {
		later := &after.Lanes[i]
		earlier := before.lane(later.Lane)
		if earlier == nil {
			continue
		}
		for j := range later.Results {
			now := &later.Results[j]
			then := earlier.result(now.Target)
			if then == nil || now.Target == targetPump {
				continue
			}
			c := change{lane: later.Lane, target: now.Target, figure: "CPU, × pump", failed: now.failures()}
			all = appendChange(all, c.of(earlier.inPumps(then), later.inPumps(now)))
			for _, figure := range compared[1:] {
				c.figure = figure.unit
				all = appendChange(all, c.of(then.over(figures[figure.figure]), now.over(figures[figure.figure])))
			}
		}
	}
	return all
}

func (c change) of(before, after []float64) change {
	c.before, c.after = spreadOf(before), spreadOf(after)
	for _, x := range before {
		for _, y := range after {
			if x > 0 {
				c.ratios = append(c.ratios, y/x)
			}
		}
	}
	return c
}

// appendChange skips figures that were not measured before or after.
func appendChange(all []change, c change) []change {
	if len(c.ratios) == 0 || c.before.Median == 0 || c.after.Median == 0 {
		return all
	}
	return append(all, c)
}

// inPumps returns the costs of a target's rounds as multiples of the byte pump's.
func (l *LaneData) inPumps(r *Result) []float64 {
	pump := l.result(targetPump)
	if pump == nil {
		return nil
	}
	return ratios(r, pump, l.cost(), l.cost())
}

// over reports whether a figure grew beyond the bound by more than the noise. Figures with failed answers do not count.
func (c *change) over(atMost float64) bool {
	return c.failed == 0 && spreadOf(c.ratios).Median-noiseOf(c.ratios) > atMost
}

// writeChanges prints the table and returns the number of figures over the limit, and of those with failed answers.
func writeChanges(out io.Writer, changes []change, atMost float64) (over, failed int) {
	var b strings.Builder
	b.WriteString("Medians (minimum–maximum). The ratio is after / before; 1 is no change.\n\n")
	b.WriteString("| lane | target | figure | before | after | ratio | |\n|---|---|---|---|---|---|---|\n")
	for i := range changes {
		c := &changes[i]
		verdict := ""
		if c.over(atMost) {
			over++
			verdict = "**over**"
		}
		if c.failed > 0 {
			failed++
			verdict = fmt.Sprintf("**%d answers failed**", c.failed)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s | %s |\n",
			c.lane, c.target, c.figure, showSpread(c.before), showSpread(c.after), showSpread(spreadOf(c.ratios)), verdict)
	}
	_, _ = io.WriteString(out, b.String())
	return over, failed
}
