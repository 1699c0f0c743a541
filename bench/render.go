package bench

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"os"
	"path/filepath"
	"strings"
)

// write puts the report into a directory in all its forms.
func (r *Report) write(dir string) error {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	data, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	page, err := r.html()
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{"report.json": data, "report.md": []byte(r.markdown()), "report.html": page} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// setting describes the setting of a run in one line.
func (r *Report) setting() string {
	loop := "closed loop"
	switch {
	case r.Settings.Rate > 0:
		loop = fmt.Sprintf("open loop, %g requests/s", r.Settings.Rate)
	case r.Settings.Load > 0:
		loop = fmt.Sprintf("open loop at %g of mneme's closed-loop throughput", r.Settings.Load)
	}
	return fmt.Sprintf("mneme %s, %s, %s/%s, %d × %s, kernel %s, %s; %d rounds, %s, provider, target and load on one machine",
		r.Version, r.Go, r.Machine.OS, r.Machine.Arch, r.Machine.Cores, r.Machine.CPU, r.Machine.Kernel,
		r.Made.Format("2006-01-02"), r.Settings.Rounds, loop)
}

func (r *Report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "# mneme bench\n\n%s.\n", r.setting())
	for _, t := range r.Targets {
		if t.Version != "" {
			fmt.Fprintf(&b, "\n- %s: %s", t.Name, t.Version)
		}
	}
	b.WriteString("\n\nFigures in µs are the median of the rounds, with minimum and maximum; ratios are taken round by round.\n")
	for i := range r.Lanes {
		r.Lanes[i].markdown(&b)
	}
	return b.String()
}

func (l *LaneData) markdown(b *strings.Builder) {
	fmt.Fprintf(b, "\n## %s\n\n%s; %d connections.\n\n", l.Lane, l.About, l.Connections)
	b.WriteString("| target | CPU µs/request | CPU µs/event | × pump | total p50 / p99 | added p50 | first p50 | event p50 / p99 | allocs/request | peak MB | failed |\n")
	b.WriteString("|---|---|---|---|---|---|---|---|---|---|---|\n")
	var failures strings.Builder
	for i := range l.Results {
		row := l.row(&l.Results[i])
		fmt.Fprintf(b, "| %s |\n", strings.Join(row.cells(), " | "))
		if row.Failure != "" {
			fmt.Fprintf(&failures, "\nFirst failure of %s: `%s`\n", row.Target, strings.Join(strings.Fields(row.Failure), " "))
		}
	}
	b.WriteString(failures.String())
}

// A tableRow is a result for people; unknown figures are empty, as is the cost of refusals.
type tableRow struct {
	Target, PerRequest, PerEvent, Ratio, Total, Added, First, Event, Allocations, Memory, Failed string
	Failure                                                                                      string
	Cost, Floor                                                                                  float64 // medians, for the plot
}

func (t *tableRow) cells() []string {
	return []string{t.Target, t.PerRequest, t.PerEvent, t.Ratio, t.Total, t.Added, t.First, t.Event, t.Allocations, t.Memory, t.Failed}
}

func (l *LaneData) row(r *Result) tableRow {
	row := tableRow{Target: r.Target, Failed: fmt.Sprint(r.failures())}
	for i := range r.Rounds {
		if row.Failure == "" {
			row.Failure = r.Rounds[i].Example
		}
	}
	if r.answered() == 0 {
		return row
	}
	row.PerRequest = showSpread(r.spread(func(r *Round) float64 { return r.CPURequest }))
	if l.perEvent() {
		row.PerEvent = showSpread(r.spread(func(r *Round) float64 { return r.CPUEvent }))
	}
	row.Cost = r.spread(l.cost()).Median
	if pump := l.result(targetPump); pump != nil && row.Cost > 0 {
		row.Floor = pump.spread(l.cost()).Median
		row.Ratio = show(spreadOf(ratios(r, pump, l.cost(), l.cost())).Median)
	}
	total := func(r *Round) float64 { return r.Total.P50 }
	row.Total = show(r.spread(total).Median) + " / " + show(r.spread(func(r *Round) float64 { return r.Total.P99 }).Median)
	if direct := l.result(targetDirect); direct != nil && r.Target != targetDirect {
		row.Added = show(r.spread(total).Median - direct.spread(total).Median)
	}
	row.First = show(r.spread(func(r *Round) float64 { return r.First.P50 }).Median)
	if event := r.spread(func(r *Round) float64 { return r.Event.P50 }).Median; event > 0 {
		row.Event = show(event) + " / " + show(r.spread(func(r *Round) float64 { return r.Event.P99 }).Median)
	}
	if allocations := r.spread(func(r *Round) float64 { return r.Allocations }).Median; allocations > 0 {
		row.Allocations = show(allocations)
	}
	if memory := r.spread(func(r *Round) float64 { return float64(r.PeakMemory) }).Max; memory > 0 {
		row.Memory = show(memory / 1e6)
	}
	return row
}

func showSpread(s Spread) string {
	if s.Median == 0 {
		return ""
	}
	return fmt.Sprintf("%s (%s–%s)", show(s.Median), show(s.Min), show(s.Max))
}

// show writes three significant digits.
func show(v float64) string {
	switch magnitude := max(v, -v); {
	case magnitude >= 100:
		return fmt.Sprintf("%.0f", v)
	case magnitude >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

// readme returns the short table of docs/benchmarks.md.
func (r *Report) readme() string {
	var b strings.Builder
	names := []string{targetNginx, targetPump, targetReverse, targetOff, targetMneme}
	b.WriteString("| work | CPU µs per |")
	for _, name := range names {
		fmt.Fprintf(&b, " %s |", readmeNames[name])
	}
	load := "machine saturated"
	if r.Settings.Load > 0 || r.Settings.Rate > 0 {
		load = "open loop"
	}
	fmt.Fprintf(&b, " added p50 / p99, ms, %s |\n|---|---|", load)
	b.WriteString(strings.Repeat("---|", len(names)+1) + "\n")
	for i := range r.Lanes {
		l := &r.Lanes[i]
		unit := "request"
		if l.perEvent() {
			unit = "event"
		}
		fmt.Fprintf(&b, "| %s | %s |", l.About, unit)
		for _, name := range names {
			cell := "–"
			if result := l.result(name); result != nil {
				cell = show(result.spread(l.cost()).Median)
			}
			if name == targetMneme {
				cell = "**" + cell + "**"
			}
			fmt.Fprintf(&b, " %s |", cell)
		}
		fmt.Fprintf(&b, " %s |\n", l.addedLatency())
	}
	fmt.Fprintf(&b, "\n%s. Median CPU time of the target's process, including everything it does after the answer; floors only pass bytes, "+
		"and mneme translates where two formats are named. Every answer was checked to be complete and correct. Made by `make bench`.\n", r.setting())
	return b.String()
}

var readmeNames = map[string]string{
	targetNginx: "nginx", targetPump: "byte pump in Go", targetReverse: "ReverseProxy", targetOff: "mneme, capture off", targetMneme: "**mneme, capture on**",
}

// addedLatency returns what mneme adds to the median and the 99th percentile of the route without a proxy.
func (l *LaneData) addedLatency() string {
	direct, mneme := l.result(targetDirect), l.result(targetMneme)
	if direct == nil || mneme == nil {
		return "–"
	}
	added := func(figure func(*Round) float64) string {
		return show((mneme.spread(figure).Median - direct.spread(figure).Median) / 1e3)
	}
	if l.perEvent() {
		return added(func(r *Round) float64 { return r.First.P50 }) + " / " + added(func(r *Round) float64 { return r.First.P99 })
	}
	return added(func(r *Round) float64 { return r.Total.P50 }) + " / " + added(func(r *Round) float64 { return r.Total.P99 })
}

//go:embed report.html.tmpl
var pageText string

var page = template.Must(template.New("report").Parse(pageText))

// html returns the report as one file without references to others.
func (r *Report) html() ([]byte, error) {
	type laneView struct {
		*LaneData
		Unit string
		Rows []tableRow
		Bars []bar
	}
	view := struct {
		Setting string
		Targets []Named
		Lanes   []laneView
	}{Setting: r.setting(), Targets: r.Targets}
	for i := range r.Lanes {
		l := laneView{LaneData: &r.Lanes[i], Unit: "request"}
		if l.perEvent() {
			l.Unit = "event"
		}
		for j := range l.Results {
			l.Rows = append(l.Rows, l.row(&l.Results[j]))
		}
		l.Bars = l.bars()
		view.Lanes = append(view.Lanes, l)
	}
	var b strings.Builder
	err := page.Execute(&b, view)
	return []byte(b.String()), err
}

// A bar is one target's cost in a lane's plot: the bar to the median, a line from the minimum to the maximum. Lengths
// are in the plot's units.
type bar struct {
	Target           string
	Label            string
	Y, Text, Width   int
	Least, Most, Mid int
	Ours             bool
}

const (
	plotLeft  = 120 // start of the bars
	plotWidth = 480 // of the longest bar
	barStep   = 26  // from one bar to the next
)

func (l *LaneData) bars() []bar {
	most := 0.0
	for i := range l.Results {
		most = max(most, l.Results[i].spread(l.cost()).Max)
	}
	var bars []bar
	for i := range l.Results {
		s := l.Results[i].spread(l.cost())
		if s.Median == 0 || l.Results[i].answered() == 0 {
			continue
		}
		at := func(v float64) int { return int(v / most * plotWidth) }
		y := len(bars) * barStep
		bars = append(bars, bar{
			Target: l.Results[i].Target, Label: show(s.Median), Y: y, Text: y + 14, Mid: y + 9,
			Width: at(s.Median), Least: plotLeft + at(s.Min), Most: plotLeft + at(s.Max),
			Ours: strings.HasPrefix(l.Results[i].Target, targetMneme),
		})
	}
	return bars
}

// PlotHeight returns the height of a lane's plot.
func (l *LaneData) PlotHeight() int { return len(l.bars()) * barStep }
