package bench

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/mnemeproxy/mneme/server/command"
)

// A budget limits one figure of mneme relative to another figure of the same run.
type budget struct {
	Lane    string  `yaml:"lane"`
	Figure  string  `yaml:"figure"`  // cpu_per_event, cpu_per_request, allocations or bytes (allocated per request)
	Target  string  `yaml:"target"`  // whose figure; "" for mneme
	Against string  `yaml:"against"` // target to divide by; "" for absolute figures
	Of      string  `yaml:"of"`      // lane of against; "" for the same
	AtMost  float64 `yaml:"at_most"`
}

//go:embed budgets.yaml
var budgetText []byte

// Check is "mneme bench check".
type Check struct {
	Report  string `arg:"" default:"bench-report/report.json" help:"report.json of a run."`
	Budgets string `placeholder:"FILE" help:"Budgets to check instead of the built-in ones."`
}

// Run fails if a budget is exceeded by more than the noise of the run.
func (c *Check) Run(_ context.Context, s *command.Env) error {
	report, err := readReport(c.Report)
	if err != nil {
		return err
	}
	text := budgetText
	if c.Budgets != "" {
		if text, err = os.ReadFile(c.Budgets); err != nil {
			return err
		}
	}
	budgets, err := parseBudgets(text)
	if err != nil {
		return err
	}
	broken := 0
	for i := range budgets {
		verdict, ok := budgets[i].check(report)
		fmt.Fprintln(s.Out, verdict)
		if !ok {
			broken++
		}
	}
	if broken > 0 {
		return fmt.Errorf("%d of %d budgets are exceeded", broken, len(budgets))
	}
	return nil
}

func parseBudgets(text []byte) ([]budget, error) {
	var budgets []budget
	decoder := yaml.NewDecoder(strings.NewReader(string(text)))
	decoder.KnownFields(true)
	if err := decoder.Decode(&budgets); err != nil {
		return nil, fmt.Errorf("budgets: %w", err)
	}
	for i := range budgets {
		b := &budgets[i]
		if b.Target == "" {
			b.Target = targetMneme
		}
		if b.Of == "" {
			b.Of = b.Lane
		}
		if figures[b.Figure] == nil || b.AtMost <= 0 {
			return nil, fmt.Errorf("budget %d (%s): figure must be cpu_per_event, cpu_per_request, allocations or bytes, and at_most must be above 0", i+1, b.Lane)
		}
		for _, name := range []string{b.Lane, b.Of} {
			if _, ok := findLane(name); !ok {
				return nil, fmt.Errorf("budget %d: there is no lane %q", i+1, name)
			}
		}
		if b.Against == "" && strings.HasPrefix(b.Figure, "cpu_") {
			return nil, errors.New("a budget of CPU time needs a target to compare with: times differ from machine to machine")
		}
	}
	return budgets, nil
}

var figures = map[string]func(*Round) float64{
	"cpu_per_event":   func(r *Round) float64 { return r.CPUEvent },
	"cpu_per_request": func(r *Round) float64 { return r.CPURequest },
	"allocations":     func(r *Round) float64 { return r.Allocations },
	"bytes":           func(r *Round) float64 { return r.Bytes },
}

// check compares a budget with the report. Budgets of lanes that were not run are kept. The noise of a run is half the
// distance between the quartiles of its rounds.
func (b *budget) check(report *Report) (verdict string, kept bool) {
	name := fmt.Sprintf("%s %s %s", b.Lane, b.Target, b.Figure)
	if b.Against != "" {
		name += " / " + b.Against
	}
	if b.Of != b.Lane {
		name += " in " + b.Of
	}
	values, failed := b.values(report)
	switch {
	case failed > 0:
		return fmt.Sprintf("broken   %s: %d answers were incomplete or wrong", name, failed), false
	case len(values) == 0:
		return fmt.Sprintf("not run  %s", name), true
	}
	median, noise := spreadOf(values).Median, noiseOf(values)
	kept = median-noise <= b.AtMost
	word := "kept    "
	if !kept {
		word = "broken  "
	}
	return fmt.Sprintf("%s %s: %s ± %s, at most %s", word, name, show(median), show(noise), show(b.AtMost)), kept
}

func (b *budget) values(report *Report) (values []float64, failed int) {
	lane, otherLane := report.lane(b.Lane), report.lane(b.Of)
	if lane == nil || otherLane == nil {
		return nil, 0
	}
	of := lane.result(b.Target)
	if of == nil {
		return nil, 0
	}
	if b.Against == "" {
		return of.over(figures[b.Figure]), of.failures()
	}
	against := otherLane.result(b.Against)
	if against == nil {
		return nil, of.failures()
	}
	return ratios(of, against, figures[b.Figure], figures[b.Figure]), of.failures()
}

func noiseOf(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return (sorted[len(sorted)*3/4] - sorted[len(sorted)/4]) / 2
}
