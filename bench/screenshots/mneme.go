package main

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

// mneme is the program, serving.
type mneme struct {
	program, data string
	url, key      string
	command       *exec.Cmd
}

func startMneme(ctx context.Context, program, data, upstream string) (*mneme, error) {
	if err := os.MkdirAll(data, 0o700); err != nil {
		return nil, err
	}
	file := filepath.Join(data, "..", "mneme.yaml")
	config := fmt.Sprintf("providers:\n  openai: {base_url: %[1]s/v1, api_key: none}\n  anthropic: {base_url: %[1]s, api_key: none}\n", upstream)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	m := &mneme{program: program, data: data}
	m.command = exec.CommandContext(ctx, program, "serve", "--config", file, "--data", data, "--listen", "127.0.0.1:0")
	m.command.Cancel = func() error { return m.command.Process.Signal(os.Interrupt) }
	out, err := m.command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.command.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	address, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !found {
		m.stop()
		return nil, fmt.Errorf("%s printed %q instead of its address", program, line)
	}
	m.url = address
	if _, err := m.run(ctx, "key", "create", "--account", "default", "--name", "ci"); err != nil {
		return nil, err
	}
	m.key, err = m.run(ctx, "key", "create", "--account", "default", "--name", "laptop of alice")
	return m, err
}

// run gives what a command prints.
func (m *mneme) run(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, m.program, append(args, "--data", m.data)...).Output()
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		err = fmt.Errorf("mneme %s: %w: %s", args[0], err, exit.Stderr)
	}
	return strings.TrimSpace(string(out)), err
}

func (m *mneme) stop() {
	_ = m.command.Process.Signal(os.Interrupt)
	_ = m.command.Wait()
}
