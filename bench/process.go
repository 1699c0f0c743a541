package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// A process is the process of a target with all its children, as accounted in /proc.
type process struct {
	pid   int
	stop  func() // nil: not started by us
	first string // its first line of output
}

// errNoBooks reports that a run needs Linux.
var errNoBooks = errors.New("CPU time and memory of a process are read from /proc, which exists only on Linux")

// startProcess starts a program and waits for its first line of output. The program ends with its standard input, so
// that none is left if the run is killed. Its standard error goes to log.
func startProcess(log io.Writer, env []string, program string, args ...string) (*process, error) {
	cmd := exec.Command(program, args...) //nolint:noctx // the own binary; ended by stop
	cmd.Env = append(os.Environ(), env...)
	cmd.Stderr = log
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	stop := func() {
		_ = in.Close()
		timer := time.AfterFunc(stopTimeout, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		_ = cmd.Wait()
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		stop()
		return nil, fmt.Errorf("%s %s did not start", filepath.Base(program), strings.Join(args, " "))
	}
	return &process{pid: cmd.Process.Pid, stop: stop, first: strings.TrimSpace(line)}, nil
}

// stopTimeout is how long a target may take to end.
const stopTimeout = 10 * time.Second

// untilStdinEnds is the counterpart of startProcess.
func untilStdinEnds(ctx context.Context) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		cancel()
	}()
	return ctx
}

// family returns the process and its descendants.
func (p *process) family() []int {
	all := []int{p.pid}
	for i := 0; i < len(all); i++ {
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", all[i]))
		for _, task := range tasks {
			line, _ := os.ReadFile(task)
			for _, child := range strings.Fields(string(line)) {
				if pid, err := strconv.Atoi(child); err == nil {
					all = append(all, pid)
				}
			}
		}
	}
	return all
}

// cpu returns the processor time used so far: exact to the nanosecond if the kernel keeps scheduler statistics, else to
// a clock tick.
func (p *process) cpu() (time.Duration, error) {
	var sum time.Duration
	found := false
	for _, pid := range p.family() {
		if used, ok := scheduled(pid); ok {
			sum += used
			found = true
		} else if used, err := ticked(pid); err == nil {
			sum += used
			found = true
		}
	}
	if !found {
		return 0, errNoBooks
	}
	return sum, nil
}

func scheduled(pid int) (sum time.Duration, ok bool) {
	tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	for _, task := range tasks {
		line, err := os.ReadFile(task)
		if err != nil {
			continue // the thread has ended
		}
		first, _, _ := bytes.Cut(line, []byte(" "))
		n, err := strconv.ParseInt(string(first), 10, 64)
		if err != nil {
			return 0, false
		}
		sum += time.Duration(n)
	}
	return sum, sum > 0
}

// clockTick is the unit of /proc on every Linux that Go supports.
const clockTick = 10 * time.Millisecond

func ticked(pid int) (time.Duration, error) {
	line, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, err
	}
	// Fields 14 and 15, counted after the name, which may hold spaces (proc(5)).
	fields := strings.Fields(string(line[bytes.LastIndexByte(line, ')')+1:]))
	if len(fields) < 13 {
		return 0, errNoBooks
	}
	user, err := strconv.ParseInt(fields[11], 10, 64)
	if err != nil {
		return 0, err
	}
	system, err := strconv.ParseInt(fields[12], 10, 64)
	return time.Duration(user+system) * clockTick, err
}

// memory returns the resident set in bytes, with shared pages counted once per process.
func (p *process) memory() (sum int64) {
	for _, pid := range p.family() {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		_, rest, found := bytes.Cut(status, []byte("VmRSS:"))
		if !found {
			continue
		}
		kilobytes, _ := strconv.ParseInt(string(bytes.Fields(rest)[0]), 10, 64)
		sum += kilobytes << 10
	}
	return sum
}

// settle waits until the process has finished the background work of a round, and returns its CPU time then.
func (p *process) settle(ctx context.Context) (time.Duration, error) {
	last, err := p.cpu()
	for range settleChecks {
		if err != nil || !pause(ctx, settleInterval) {
			return last, err
		}
		var used time.Duration
		used, err = p.cpu()
		if used-last < settleInterval/quietShare {
			return used, err
		}
		last = used
	}
	return last, err
}

// A process is quiet if it uses less than a fiftieth of a processor; the wait is at most two seconds.
const (
	settleInterval = 50 * time.Millisecond
	settleChecks   = 40
	quietShare     = 50
)
