// Package serving runs mneme for the programs that measure it or take screenshots of it.
package serving

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Mneme is the program, serving at URL until it is stopped.
type Mneme struct {
	URL string

	program, data string
	command       *exec.Cmd
}

// Start serves data on a port of its own, with a configuration that it writes into dir. The program ends with ctx.
func Start(ctx context.Context, program, dir, data, config string) (*Mneme, error) {
	file := filepath.Join(dir, "mneme.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	m := &Mneme{program: program, data: data}
	m.command = exec.CommandContext(ctx, program, "serve", "--config", file, "--data", data, "--listen", "127.0.0.1:0")
	m.command.Cancel = func() error { return m.command.Process.Signal(os.Interrupt) }
	var err error
	m.URL, err = Listening(m.command)
	return m, err
}

// Listening starts a program and gives the URL at which its first line says that it listens. Without one the program is
// ended.
func Listening(command *exec.Cmd) (url string, err error) {
	out, err := command.StdoutPipe()
	if err != nil {
		return "", err
	}
	if err := command.Start(); err != nil {
		return "", err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	url, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !found {
		stop(command)
		return "", fmt.Errorf("%s printed %q instead of its address", command.Path, line)
	}
	return url, nil
}

// Run returns the output of another command of the program on the same data, without the last line break.
func (m *Mneme) Run(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, m.program, append(args, "--data", m.data)...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("mneme %s: %w: %s", args[0], err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

// Stop ends the program and waits for it.
func (m *Mneme) Stop() { stop(m.command) }

func stop(command *exec.Cmd) {
	_ = command.Process.Signal(os.Interrupt)
	_ = command.Wait()
}
