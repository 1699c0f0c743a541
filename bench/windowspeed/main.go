// Command windowspeed measures the page at /ui in Chromium: the first paint, opening the list of a large account,
// scrolling through a long session, and a tail of many events. The figures in docs/window.md come from it.
//
//	make window-speed
//	make window-speed ARGS="-exchanges 100000"
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/mnemeproxy/mneme/bench/provider"
)

// plan is what to measure.
type plan struct {
	program   string
	dir       string
	exchanges int
	turns     int
	rate      int
	lasting   time.Duration
}

func main() {
	var p plan
	flag.StringVar(&p.program, "mneme", "bin/mneme", "the program")
	flag.StringVar(&p.dir, "dir", "", "where to work; \"\": a temporary directory, which is removed")
	flag.IntVar(&p.exchanges, "exchanges", 1_000_000, "exchanges in the account")
	flag.IntVar(&p.turns, "turns", 10_000, "turns of the long session")
	flag.IntVar(&p.rate, "rate", 250, "exchanges a second in the tail, each of two events or more")
	flag.DurationVar(&p.lasting, "lasting", 10*time.Second, "how long the tail is watched")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := p.run(ctx, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "windowspeed:", err)
		os.Exit(1)
	}
}

func (p *plan) run(ctx context.Context, out io.Writer) (err error) {
	if p.dir == "" {
		if p.dir, err = os.MkdirTemp("", "mneme-window-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(p.dir)) }()
	}
	data := filepath.Join(p.dir, "data")
	began := time.Now()
	long, err := p.fill(ctx, data)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%d exchanges, and a session of %d turns, in %v\n", p.exchanges, p.turns, time.Since(began).Round(time.Second))
	up, err := provider.Start(provider.Options{Keep: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, up.Close()) }()
	m, err := startMneme(ctx, p.program, p.dir, data, up.URL())
	if err != nil {
		return err
	}
	defer m.Stop()
	b, err := openBrowser(ctx)
	if err != nil {
		return err
	}
	defer b.close()
	return p.measure(ctx, out, m, b, long)
}
