package bench

import (
	"strings"
	"testing"
	"time"
)

// reportOf is a run in which mneme cost so many byte pumps in lane chat, round by round.
func reportOf(pumps ...float64) *Report {
	pump, mneme := Result{Target: targetPump}, Result{Target: targetMneme}
	for i, n := range pumps {
		cost := float64(10 + i) // a machine that is not always as fast
		pump.Rounds = append(pump.Rounds, Round{Requests: 100, CPURequest: cost})
		mneme.Rounds = append(mneme.Rounds, Round{Requests: 100, CPURequest: n * cost, Allocations: 50})
	}
	return &Report{Made: time.Unix(1795168000, 0), Lanes: []LaneData{{Lane: "chat", About: "short chat answer", Connections: 1, Results: []Result{pump, mneme}}}}
}

func TestBudgetsAreBrokenByMoreThanTheNoiseOnly(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		report *Report
		budget string
		kept   bool
		says   string
	}{
		"under":           {reportOf(1.5, 1.6, 1.4), `{lane: chat, figure: cpu_per_request, against: pump, at_most: 2}`, true, "kept"},
		"over":            {reportOf(2.5, 2.6, 2.4), `{lane: chat, figure: cpu_per_request, against: pump, at_most: 2}`, false, "broken"},
		"within noise":    {reportOf(1.2, 2.1, 2.4), `{lane: chat, figure: cpu_per_request, against: pump, at_most: 2}`, true, "kept"},
		"allocations":     {reportOf(1, 1, 1), `{lane: chat, figure: allocations, at_most: 40}`, false, "broken"},
		"another lane":    {reportOf(1, 1, 1), `{lane: agent, figure: cpu_per_request, against: pump, at_most: 2}`, true, "not run"},
		"no such target":  {reportOf(1, 1, 1), `{lane: chat, figure: cpu_per_request, against: nginx, at_most: 2}`, true, "not run"},
		"answers missing": {failing(), `{lane: chat, figure: cpu_per_request, against: pump, at_most: 2}`, false, "incomplete or wrong"},
	} {
		budgets, err := parseBudgets([]byte("- " + test.budget))
		if err != nil {
			t.Fatal(name, err)
		}
		verdict, kept := budgets[0].check(test.report)
		if kept != test.kept || !strings.Contains(verdict, test.says) {
			t.Errorf("%s: %q, kept: %v", name, verdict, kept)
		}
	}
}

func failing() *Report {
	r := reportOf(1, 1, 1)
	r.Lanes[0].Results[1].Rounds[2].Truncated = 1
	return r
}

func TestBudgetsThatComeWithMnemeCanBeRead(t *testing.T) {
	t.Parallel()
	budgets, err := parseBudgets(budgetText)
	if err != nil || len(budgets) == 0 {
		t.Errorf("%d budgets, %v", len(budgets), err)
	}
	for _, wrong := range []string{
		`- {lane: chat, figure: cpu_per_request, at_most: 2}`,
		`- {lane: nowhere, figure: cpu_per_request, against: pump, at_most: 2}`,
		`- {lane: chat, figure: wall_time, against: pump, at_most: 2}`,
		`- {lane: chat, figure: cpu_per_request, against: pump}`,
		`- {lane: chat, figure: cpu_per_request, against: pump, at_most: 2, at_least: 1}`,
	} {
		if _, err := parseBudgets([]byte(wrong)); err == nil {
			t.Errorf("taken: %s", wrong)
		}
	}
}

func TestTheTableForTheReadmeNamesItsOrigin(t *testing.T) {
	t.Parallel()
	r := reportOf(1.5, 1.5, 1.5)
	r.Version, r.Go, r.Machine, r.Settings = "v1.2.3", "go1.26", Machine{OS: "linux", Arch: "amd64", CPU: "Some CPU", Cores: 2}, Settings{Rounds: 3}
	got := r.readme()
	for _, part := range []string{"| short chat answer | request | – | 11.0 | – | – | **16.5** | – |", "v1.2.3", "go1.26", "2 × Some CPU", "2026-11-20", "3 rounds", "closed loop", "capture on"} {
		if !strings.Contains(got, part) {
			t.Errorf("%q is missing in\n%s", part, got)
		}
	}
}

func TestLanesHaveNamesOfTheirOwn(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for i := range lanes {
		if seen[lanes[i].Name] {
			t.Errorf("two lanes are called %s", lanes[i].Name)
		}
		seen[lanes[i].Name] = true
	}
	for _, name := range shortSet {
		if !seen[name] {
			t.Errorf("the short set names %s, which is no lane", name)
		}
	}
}
