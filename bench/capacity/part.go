package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/mnemeproxy/mneme/store/engine"
)

// Parts that run in separate processes, so that neither the memory nor the time of another store counts.
const (
	partOpen    = "open"
	partCapture = "capture"
)

// process returns a process that runs a part of the plan in the same store.
func (p *plan) process(ctx context.Context, part string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, os.Args[0], "-part", part, "-dir", p.dir, "-shape", p.shape, "-remember", p.remember)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	return cmd
}

// open opens the store, and prints how long that and reading take, and the memory before and after.
func (p *plan) open() error {
	opts, index, err := p.options()
	if err != nil {
		return err
	}
	before := now()
	st, err := engine.Open(opts, index)
	if err != nil {
		return err
	}
	opening := now().since(before)
	fmt.Printf("         in %v, %v CPU; %s, %s\n", opening.wall.Round(100_000), opening.cpu.Round(100_000), resident(), liveHeap())
	err = read(st)
	fmt.Printf("         after reading: %s, %s\n", resident(), liveHeap())
	return errors.Join(err, st.Close())
}

// A process is killed after it has captured untilKilled exchanges. It ends by itself after mostUnkilled, in case the
// parent is gone.
const (
	untilKilled  = 1000
	mostUnkilled = 100 * untilKilled
)

// captureUntilKilled opens the store, prints a line when untilKilled exchanges are on record, and continues until it is
// killed.
func captureUntilKilled(ctx context.Context, s *shape, p *plan) error {
	opts, index, err := p.options()
	if err != nil {
		return err
	}
	st, err := engine.Open(opts, index)
	if err != nil {
		return err
	}
	w := newWriter(s, p.writers, corpus(s.corpus()))
	for i := 1; i <= mostUnkilled && err == nil; i++ {
		if err = capture(ctx, st, w, fmt.Sprintf("chat until killed %d", i/s.perSession())); i == untilKilled {
			fmt.Println("capturing")
		}
	}
	return errors.Join(err, st.Close())
}

// leaveKilled starts a process that captures into the store, and kills it meanwhile.
func (p *plan) leaveKilled(ctx context.Context) error {
	cmd := p.process(ctx, partCapture)
	cmd.Stdout = nil
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = bufio.NewReader(out).ReadString('\n')
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	if err != nil {
		return fmt.Errorf("the process ended before it was killed: %w", err)
	}
	return nil
}
