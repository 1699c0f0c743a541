// Command capacity measures the write throughput of a store, its cost, and the behavior of a large store: it fills a
// store with exchanges, many at a time, lists and shows them, and reopens it, also as a killed process leaves it.
//
//	go run ./bench/capacity [-shape small] [-exchanges 100000] [-remember index]
//
// Costs are CPU time and allocations of the whole process until everything is digested and searchable, including the
// generation of the load's texts (about 2 µs per exchange). One process measures one shape, so its memory is that
// shape's. It needs Linux, because memory is read from /proc.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/pprof"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/digest"
	"github.com/mnemeproxy/mneme/store/engine"
	"github.com/mnemeproxy/mneme/store/search"
)

// account is the one that a server creates at its first start, so that a kept store can be served.
const account = "default"

func main() {
	shape := flag.String("shape", "small", "what the exchanges are like: "+shapeNames())
	exchanges := flag.Int("exchanges", 100_000, "how many")
	remember := flag.String("remember", "index", "what is done after the answers: record (nothing), turns, or index")
	writers := flag.Int("writers", 32, "exchanges at a time")
	dir := flag.String("dir", "", "directory of the store, which is kept with its contents (default: a temporary one)")
	profile := flag.String("cpuprofile", "", "write a CPU profile of the filling to this file")
	heap := flag.String("memprofile", "", "write a profile of the heap in use after the filling to this file")
	keys := flag.Bool("keys", false, "list what is written under each kind of key")
	part := flag.String("part", "", "internal, for child processes: open (the store in dir), or capture (into it, until killed)")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, &plan{shape: *shape, exchanges: *exchanges, remember: *remember, writers: *writers, dir: *dir, profile: *profile, heap: *heap, keys: *keys, part: *part})
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "capacity:", err)
		os.Exit(1)
	}
}

// plan is what to measure.
type plan struct {
	shape, remember, dir string
	profile, heap        string // files
	exchanges, writers   int
	keys                 bool
	part                 string
}

func run(ctx context.Context, p *plan) (err error) {
	shape, ok := shapes[p.shape]
	if !ok {
		return fmt.Errorf("no shape %q (known: %s)", p.shape, shapeNames())
	}
	switch p.part {
	case partOpen:
		return p.open()
	case partCapture:
		return captureUntilKilled(ctx, &shape, p)
	}
	if p.dir == "" {
		if p.dir, err = os.MkdirTemp("", "capacity"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(p.dir)) }()
	}
	opts, index, err := p.options()
	if err != nil {
		return err
	}
	kept := diskUse(p.dir)
	memory := watchMemory()
	defer memory.stop()

	st, err := engine.Open(opts, index)
	if err != nil {
		return err
	}
	if _, err := st.Accounts().Create(account); err != nil && codec.AsError(err, "").Kind != codec.KindConflict {
		return errors.Join(err, st.Close())
	}
	before := now()
	var by tenths
	err = p.profiled(func() error { return fill(ctx, st, &shape, p, &by) })
	spent := now().since(before)
	if err = errors.Join(err, writeHeap(p.heap)); err != nil {
		return errors.Join(err, st.Close())
	}
	fmt.Printf("%-8s %d exchanges, %d at a time, remember %s: %s\n", p.shape, p.exchanges, p.writers, p.remember,
		spent.per(p.exchanges, shape.bytes()))
	fmt.Printf("         while filling: %s; CPU each, by tenths: %s\n", memory.peak(), by.since(before.cpu, p.exchanges))
	if err := read(st); err != nil {
		return errors.Join(err, st.Close())
	}
	if err := st.Close(); err != nil {
		return err
	}
	fmt.Printf("         on disk: %.0f bytes per exchange of %d\n", float64(diskUse(p.dir)-kept)/float64(p.exchanges), shape.bytes())
	if p.keys {
		if err := listKeys(p.dir, p.exchanges); err != nil {
			return err
		}
	}

	fmt.Println("         opened again:")
	if err := p.process(ctx, partOpen).Run(); err != nil {
		return err
	}
	if err := p.leaveKilled(ctx); err != nil {
		return err
	}
	fmt.Println("         opened after a kill:")
	return p.process(ctx, partOpen).Run()
}

func (p *plan) options() (opts store.Options, index *search.Options, err error) {
	opts = store.Options{Dir: p.dir, Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	switch p.remember {
	case "index":
		index = &search.Options{Dir: filepath.Join(p.dir, "search"), Log: opts.Log}
		fallthrough
	case "turns":
		opts.Digest = digest.Exchange
		fallthrough
	case "record":
		return opts, index, nil
	}
	return opts, nil, fmt.Errorf("remember %q is not one of record, turns, index", p.remember)
}

// profiled runs a function under the CPU profiler if there is a file for the profile.
func (p *plan) profiled(f func() error) error {
	if p.profile == "" {
		return f()
	}
	file, err := os.Create(p.profile)
	if err != nil {
		return err
	}
	if err := pprof.StartCPUProfile(file); err != nil {
		return err
	}
	err = f()
	pprof.StopCPUProfile()
	return errors.Join(err, file.Close())
}

func writeHeap(path string) error {
	if path == "" {
		return nil
	}
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(pprof.WriteHeapProfile(file), file.Close())
}
