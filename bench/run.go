package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/mnemeproxy/mneme/server/command"
)

// Run is "mneme bench run".
type Run struct {
	Lanes    []string `arg:"" optional:"" help:"Lanes to run; none: the short set. 'all' runs all but the slow ones. See mneme bench lanes."`
	Targets  []string `default:"direct,pump,reverseproxy,nginx,haproxy,mneme,mneme-off" help:"Targets to compare: direct, pump, reverseproxy, nginx, haproxy, mneme, mneme-power, mneme-off. nginx and haproxy take part where they are installed."`
	URL      []string `name:"url" placeholder:"NAME=URL[,PID]" sep:"none" help:"Another gateway in front of --provider; with a process id, its CPU time and memory are measured too."`
	Provider bool     `help:"Only start the simulated provider, print where, and wait: to set up other gateways."`
	Key      string   `help:"Bearer token for other gateways."`
	Header   []string `placeholder:"'NAME: VALUE'" sep:"none" help:"Header for other gateways; may be given several times."`
	Rounds   int      `default:"3" help:"Measured rounds per lane and target, after a warm-up."`
	Scale    float64  `default:"1" help:"Multiplies the requests of a round."`
	Rate     float64  `help:"Open loop: requests per second and lane."`
	Load     float64  `help:"Open loop at this share of mneme's closed-loop rate, such as 0.5."`
	Out      string   `default:"bench-report" help:"Directory for report.json, report.md and report.html."`
	Profile  string   `placeholder:"DIR" help:"Directory for a CPU profile of each target and lane, of the last round."`
	Trace    string   `placeholder:"DIR" help:"Directory for an execution trace of each target and lane, of the last round; go tool trace reads it."`
	Seconds  int      `name:"profile-seconds" default:"2" help:"Length of a profile or trace. A round lasts at least as long."`
	Upstream string   `placeholder:"HOST:PORT" help:"Use the provider that another run started with --provider."`
}

// A runner is a run in progress.
type runner struct {
	*Run
	fleet *fleet
	env   *command.Env
	bar   *progressbar.ProgressBar
	seed  int
}

// Run measures and writes the report.
func (c *Run) Run(ctx context.Context, s *command.Env) error {
	if c.Rounds < 1 || c.Scale <= 0 {
		return errors.New("--rounds and --scale must be above 0")
	}
	chosen, err := c.chosen()
	if err != nil {
		return err
	}
	gateways, err := c.gateways()
	if err != nil {
		return err
	}
	names := c.Targets
	if c.Provider {
		names = nil
	}
	fleet, err := startFleet(s.Version, names, c.Upstream)
	if err != nil {
		return err
	}
	defer fleet.stop()
	if c.Provider {
		if err := writeDirections(s.Out, fleet.upstream); err != nil {
			return err
		}
		<-ctx.Done()
		return nil
	}
	fleet.targets = append(fleet.targets, gateways...)
	r := &runner{Run: c, fleet: fleet, env: s}
	report, err := r.report(ctx, chosen)
	if err != nil {
		return err
	}
	if err := report.write(c.Out); err != nil {
		return err
	}
	fmt.Fprint(s.Out, report.markdown())
	fmt.Fprintf(s.Err, "report: %s\n", filepath.Join(c.Out, "report.html"))
	return nil
}

func (c *Run) chosen() (chosen []lane, err error) {
	names := c.Lanes
	if len(names) == 0 {
		names = shortSet
	}
	if slices.Equal(names, []string{"all"}) {
		return slices.DeleteFunc(slices.Clone(lanes), func(l lane) bool { return l.slow }), nil
	}
	for _, name := range names {
		l, ok := findLane(name)
		if !ok {
			return nil, fmt.Errorf("there is no lane %q; see mneme bench lanes", name)
		}
		chosen = append(chosen, l)
	}
	return chosen, nil
}

func (r *runner) report(ctx context.Context, chosen []lane) (*Report, error) {
	report := &Report{
		Made: time.Now().UTC().Truncate(time.Second), Version: r.fleet.version, Go: goVersion(), Machine: thisMachine(),
		Settings: Settings{Rounds: r.Rounds, Scale: r.Scale, Rate: r.Rate, Load: r.Load},
	}
	for _, t := range r.fleet.targets {
		report.Targets = append(report.Targets, Named{t.Name, t.Version})
	}
	steps := 0
	for i := range chosen {
		for _, t := range r.fleet.targets {
			if chosen[i].runsOn(t) {
				steps += r.Rounds + 1
			}
		}
	}
	r.bar = progressbar.NewOptions(steps,
		progressbar.OptionSetWriter(r.env.Err), progressbar.OptionShowCount(), progressbar.OptionSetWidth(20),
		progressbar.OptionClearOnFinish(), progressbar.OptionThrottle(200*time.Millisecond),
		progressbar.OptionSetPredictTime(true), progressbar.OptionSetVisibility(r.env.ShowsProgress()))
	for i := range chosen {
		if i > 0 {
			if err := r.fleet.renew(); err != nil {
				return nil, err
			}
		}
		data, err := r.lane(ctx, &chosen[i])
		if err != nil {
			return nil, fmt.Errorf("lane %s: %w", chosen[i].Name, err)
		}
		report.Lanes = append(report.Lanes, *data)
	}
	return report, r.bar.Finish()
}

// lane runs one lane: a warm-up of every target, then the rounds, in which the targets take turns. Every other round
// takes them in the opposite order, so that none always follows the same neighbor.
func (r *runner) lane(ctx context.Context, l *lane) (*LaneData, error) {
	data := &LaneData{Lane: l.Name, About: l.About, Events: l.eventsHeard(), Connections: l.connections, Crossed: l.crossed}
	want, err := r.reference(ctx, l)
	if err != nil {
		return nil, err
	}
	targets := slices.DeleteFunc(slices.Clone(r.fleet.targets), func(t *target) bool { return !l.runsOn(t) })
	for _, t := range targets {
		data.Results = append(data.Results, Result{Target: t.Name})
	}
	rate := r.Rate
	for n := -1; n < r.Rounds; n++ {
		for i := range targets {
			if n%2 != 0 {
				i = len(targets) - 1 - i
			}
			t := targets[i]
			r.bar.Describe(fmt.Sprintf("%-26s %-12s", l.Name, t.Name))
			round, err := r.round(ctx, l, t, want, n < 0, rate)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", t.Name, err)
			}
			_ = r.bar.Add(1)
			if n >= 0 {
				data.Results[i].Rounds = append(data.Results[i].Rounds, *round)
			}
			if n < 0 && r.Load > 0 && t.Name == targetMneme {
				rate = r.Load * float64(round.Requests) / round.Seconds
			}
		}
	}
	return data, nil
}

// reference gets an answer of the lane from the provider itself.
func (r *runner) reference(ctx context.Context, l *lane) (*saying, error) {
	one := *l
	one.gap = 0
	if l.leaveAfter > 0 || l.search {
		return nil, nil //nolint:nilnil // clients disconnect before its end, or the provider is not used
	}
	c := newConnection(r.fleet.upstream, &one, newRequest(l, r.fleet.upstream, bearer(serviceKey)), nil)
	defer c.close()
	if _, err := c.do(ctx, 0, 0, func(time.Duration) {}); err != nil {
		return nil, fmt.Errorf("the simulated provider: %w", err)
	}
	return &c.said, nil
}

// warmUpShare is the share of a round's requests that is sent before the first round.
const warmUpShare = 0.3

func (r *runner) round(ctx context.Context, l *lane, t *target, want *saying, warmUp bool, rate float64) (round *Round, err error) {
	r.seed++
	w := load{lane: l, address: t.address, want: want, seed: r.seed, rate: rate, requests: l.perRound(r.Scale), request: newRequest(l, t.address, t.header)}
	if warmUp {
		w.requests = max(int(float64(w.requests)*warmUpShare), l.connections)
		if r.Load > 0 {
			w.requests = l.perRound(r.Scale) // measures the rate that Load is a share of
		}
	}
	connections, err := dial(ctx, &w)
	if err != nil {
		return nil, err
	}
	defer func() {
		for _, c := range connections {
			c.close()
		}
	}()
	if !warmUp && t.pprof != "" {
		defer r.profile(ctx, l, t, r.Profile, "profile", ".pprof")()
		defer r.profile(ctx, l, t, r.Trace, "trace", ".trace")()
	}
	if l.beside > 0 {
		stop, err := r.captureBeside(ctx, l.beside, t)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, stop()) }()
	}
	run := func() tally { return w.run(ctx, connections) }
	if warmUp {
		got := run()
		return newRound(&got), ctx.Err()
	}
	return measure(ctx, t, run)
}

// captureBeside sends short chat requests to the target at a rate per second until stop is called; stop returns an
// error if any of them failed.
func (r *runner) captureBeside(ctx context.Context, rate float64, t *target) (stop func() error, err error) {
	r.seed++
	l, _ := findLane("chat")
	w := load{lane: &l, address: t.address, seed: r.seed, rate: rate, requests: math.MaxInt, request: newRequest(&l, t.address, t.header)}
	connections, err := dial(ctx, &w)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan tally, 1)
	go func() {
		done <- w.run(ctx, connections)
		for _, c := range connections {
			c.close()
		}
	}()
	return func() error {
		cancel()
		got := <-done
		if failed := got.errors + got.truncated + got.wrong; failed > 0 {
			return fmt.Errorf("%d of the concurrent requests failed: %s", failed, got.example)
		}
		return nil
	}, nil
}

// dial opens the connections beforehand, so that their cost is not part of a round; what the target's pool allocates
// for them is part of the warm-up.
func dial(ctx context.Context, w *load) ([]*connection, error) {
	connections := make([]*connection, w.lane.connections)
	var dialer net.Dialer
	for i := range connections {
		c := newConnection(w.address, w.lane, w.request, w.want)
		var err error
		if c.conn, err = dialer.DialContext(ctx, "tcp", w.address); err != nil {
			for _, open := range connections[:i] {
				open.close()
			}
			return nil, err
		}
		c.in.Reset(c.conn)
		connections[i] = c
	}
	return connections, nil
}

// measure runs a load and reads its cost.
func measure(ctx context.Context, t *target, run func() tally) (*Round, error) {
	var before time.Duration
	objects, bytes, countsAllocations := t.allocated(ctx)
	var peak *memoryWatch
	if t.process != nil {
		var err error
		if before, err = t.process.settle(ctx); err != nil {
			return nil, err
		}
		peak = watchMemory(t.process)
	}
	got := run()
	round := newRound(&got)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if t.process == nil {
		return round, nil
	}
	round.PeakMemory = peak.stop()
	after, err := t.process.settle(ctx)
	if err != nil {
		return nil, err
	}
	used := float64((after - before).Nanoseconds()) / 1e3
	sent := got.requests + round.failures()
	round.CPURequest = used / float64(max(sent, 1))
	if got.events > 0 {
		round.CPUEvent = used / float64(got.events)
	}
	if countsAllocations {
		if nowObjects, nowBytes, ok := t.allocated(ctx); ok {
			round.Allocations = float64(nowObjects-objects) / float64(max(sent, 1))
			round.Bytes = float64(nowBytes-bytes) / float64(max(sent, 1))
		}
	}
	return round, nil
}

// profile writes a profile of the following seconds to dir, if there is one; wait returns when it is written.
func (r *runner) profile(ctx context.Context, l *lane, t *target, dir, kind, suffix string) (wait func()) {
	if dir == "" {
		return func() {}
	}
	file := filepath.Join(dir, l.Name+"-"+t.Name+suffix)
	done := make(chan struct{})
	go func() {
		defer close(done)
		err := os.MkdirAll(dir, 0o750)
		if err == nil {
			err = t.profile(ctx, kind, r.Seconds, file)
		}
		if err != nil {
			fmt.Fprintln(r.env.Err, "profile:", err)
		}
	}()
	return func() { <-done }
}

// A memoryWatch finds the peak of a process's memory.
type memoryWatch struct {
	cancel context.CancelFunc
	peak   chan int64
}

const memoryInterval = 100 * time.Millisecond

func watchMemory(p *process) *memoryWatch {
	ctx, cancel := context.WithCancel(context.Background())
	w := &memoryWatch{cancel: cancel, peak: make(chan int64, 1)}
	go func() {
		peak := p.memory()
		for pause(ctx, memoryInterval) {
			peak = max(peak, p.memory())
		}
		w.peak <- max(peak, p.memory())
	}()
	return w
}

func (w *memoryWatch) stop() int64 {
	w.cancel()
	return <-w.peak
}
