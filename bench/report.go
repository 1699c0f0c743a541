package bench

import (
	"bytes"
	"encoding/json"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
)

// A Report is the result of a run, stored as a JSON file.
type Report struct {
	Made     time.Time  `json:"made"`
	Version  string     `json:"version"` // of mneme
	Go       string     `json:"go"`
	Machine  Machine    `json:"machine"`
	Settings Settings   `json:"settings"`
	Targets  []Named    `json:"targets"`
	Lanes    []LaneData `json:"lanes"`
}

// Machine is the machine of a run.
type Machine struct {
	OS     string `json:"os"`
	Arch   string `json:"arch"`
	CPU    string `json:"cpu"`
	Cores  int    `json:"cores"`
	Kernel string `json:"kernel,omitempty"`
}

// Settings are the settings of a run.
type Settings struct {
	Rounds int     `json:"rounds"`
	Scale  float64 `json:"scale"`          // of the requests per round
	Rate   float64 `json:"rate,omitempty"` // requests per second in open loop; 0: closed loop
	Load   float64 `json:"load,omitempty"` // open loop at this share of the mneme's closed-loop throughput
}

// Named is a target with its version, if it reports one.
type Named struct {
	Name    string `json:"name"`
	Version string `json:"version,omitempty"`
}

// LaneData is the outcome of one lane.
type LaneData struct {
	Lane        string   `json:"lane"`
	About       string   `json:"about"`
	Events      int      `json:"events,omitempty"` // deltas in an answer; 0: complete answers
	Connections int      `json:"connections"`
	Crossed     bool     `json:"crossed,omitempty"`
	Results     []Result `json:"results"`
}

// Result is one target's rounds in one lane. The i-th rounds of all targets of a lane were run next to each other.
type Result struct {
	Target string  `json:"target"`
	Rounds []Round `json:"rounds"`
}

// Round is the outcome of one round of one target. Times are in microseconds.
type Round struct {
	Requests    int     `json:"requests"` // complete and correct
	Errors      int     `json:"errors"`
	Truncated   int     `json:"truncated"`
	Wrong       int     `json:"wrong"`
	Example     string  `json:"example,omitempty"` // the first failure
	Seconds     float64 `json:"seconds"`
	CPURequest  float64 `json:"cpu_us_per_request,omitempty"`
	CPUEvent    float64 `json:"cpu_us_per_event,omitempty"`
	Allocations float64 `json:"allocations_per_request,omitempty"`
	Bytes       float64 `json:"allocated_bytes_per_request,omitempty"`
	PeakMemory  int64   `json:"peak_memory_bytes,omitempty"`
	Total       Latency `json:"total"`
	First       Latency `json:"first_event"`
	Event       Latency `json:"event"` // from the provider's write to the client's read
}

// newRound returns a round with just the outcomes.
func newRound(got *tally) *Round {
	return &Round{
		Requests: got.requests, Errors: got.errors, Truncated: got.truncated, Wrong: got.wrong, Example: got.example,
		Seconds: got.elapsed.Seconds(),
		Total:   latencyOf(got.total), First: latencyOf(got.first), Event: latencyOf(got.event),
	}
}

// Latency is a histogram in four figures, in microseconds.
type Latency struct {
	P50 float64 `json:"p50"`
	P90 float64 `json:"p90"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func latencyOf(h *hdr.Histogram) Latency {
	if h.TotalCount() == 0 {
		return Latency{}
	}
	at := func(q float64) float64 { return float64(h.ValueAtQuantile(q)) / float64(time.Microsecond) }
	return Latency{P50: at(50), P90: at(90), P99: at(99), Max: float64(h.Max()) / float64(time.Microsecond)}
}

// failures returns the number of answers that were incomplete or wrong.
func (r *Round) failures() int { return r.Errors + r.Truncated + r.Wrong }

// Spread is the minimum, median and maximum of a figure over the rounds.
type Spread struct{ Min, Median, Max float64 }

func spreadOf(values []float64) Spread {
	if len(values) == 0 {
		return Spread{}
	}
	values = slices.Sorted(slices.Values(values))
	middle := values[len(values)/2]
	if len(values)%2 == 0 {
		middle = (values[len(values)/2-1] + middle) / 2
	}
	return Spread{values[0], middle, values[len(values)-1]}
}

func (r *Result) over(figure func(*Round) float64) []float64 {
	values := make([]float64, len(r.Rounds))
	for i := range r.Rounds {
		values[i] = figure(&r.Rounds[i])
	}
	return values
}

func (r *Result) spread(figure func(*Round) float64) Spread { return spreadOf(r.over(figure)) }

func (r *Result) failures() (n int) {
	for i := range r.Rounds {
		n += r.Rounds[i].failures()
	}
	return n
}

// answered returns the number of complete, correct answers.
func (r *Result) answered() (n int) {
	for i := range r.Rounds {
		n += r.Rounds[i].Requests
	}
	return n
}

func (l *LaneData) result(name string) *Result {
	for i := range l.Results {
		if l.Results[i].Target == name {
			return &l.Results[i]
		}
	}
	return nil
}

func (r *Report) lane(name string) *LaneData {
	for i := range r.Lanes {
		if r.Lanes[i].Lane == name {
			return &r.Lanes[i]
		}
	}
	return nil
}

// cost returns the main figure of a lane: CPU time per event of a stream, else per request.
func (l *LaneData) cost() func(*Round) float64 {
	if l.perEvent() {
		return func(r *Round) float64 { return r.CPUEvent }
	}
	return func(r *Round) float64 { return r.CPURequest }
}

func (l *LaneData) perEvent() bool { return l.Events > 0 }

// ratios divides the rounds of one result by those of another that ran next to them.
func ratios(of, against *Result, figure, other func(*Round) float64) []float64 {
	var values []float64
	for i := range min(len(of.Rounds), len(against.Rounds)) {
		if below := other(&against.Rounds[i]); below > 0 {
			values = append(values, figure(&of.Rounds[i])/below)
		}
	}
	return values
}

func thisMachine() Machine {
	m := Machine{OS: runtime.GOOS, Arch: runtime.GOARCH, Cores: runtime.NumCPU(), CPU: "unknown"}
	info, _ := os.ReadFile("/proc/cpuinfo")
	if _, rest, found := bytes.Cut(info, []byte("model name")); found {
		line, _, _ := bytes.Cut(rest, []byte("\n"))
		m.CPU = strings.Trim(string(line), "\t :")
	}
	kernel, _ := os.ReadFile("/proc/sys/kernel/osrelease")
	m.Kernel = strings.TrimSpace(string(kernel))
	return m
}

func goVersion() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.GoVersion
	}
	return runtime.Version()
}

func readReport(file string) (*Report, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var r Report
	return &r, json.Unmarshal(data, &r)
}
