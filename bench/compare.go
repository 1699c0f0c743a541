package bench

import (
	"context"
	"fmt"
	"strings"

	"github.com/mnemeproxy/mneme/server/command"
)

// Compare is "mneme bench compare".
type Compare struct {
	Old string `arg:"" help:"report.json of the earlier run."`
	New string `arg:"" help:"report.json of the later run."`
}

// Run prints what became cheaper and what more expensive. Each run is measured by its own byte pump, so the two need not be
// from the same machine.
func (c *Compare) Run(_ context.Context, s *command.Surroundings) error {
	earlier, err := readReport(c.Old)
	if err != nil {
		return err
	}
	later, err := readReport(c.New)
	if err != nil {
		return err
	}
	_, err = fmt.Fprint(s.Out, compare(earlier, later))
	return err
}

func compare(earlier, later *Report) string {
	var b strings.Builder
	b.WriteString("CPU time as a multiple of the byte pump's in the same run: median (minimum–maximum).\n\n")
	b.WriteString("| lane | target | old | new | change |\n|---|---|---|---|---|\n")
	for i := range later.Lanes {
		now := &later.Lanes[i]
		before := earlier.lane(now.Lane)
		if before == nil {
			continue
		}
		for j := range now.Results {
			name := now.Results[j].Target
			x, y := before.relative(name), now.relative(name)
			if x.Median == 0 || y.Median == 0 || name == targetPump {
				continue
			}
			change := fmt.Sprintf("%+.1f %%", 100*(y.Median/x.Median-1))
			if y.Min <= x.Max && x.Min <= y.Max {
				change += " (within the noise)"
			}
			fmt.Fprintf(&b, "| %s | %s | %s | %s | %s |\n", now.Lane, name, showSpread(x), showSpread(y), change)
		}
	}
	return b.String()
}

// relative is a target's cost in byte pumps.
func (l *LaneData) relative(name string) Spread {
	of, pump := l.result(name), l.result(targetPump)
	if of == nil || pump == nil {
		return Spread{}
	}
	return spreadOf(ratios(of, pump, l.cost(), l.cost()))
}
