package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// mneme is the program, serving.
type mneme struct {
	url, link, key string
	process        *exec.Cmd
}

func startMneme(ctx context.Context, program, dir, data, upstream string) (*mneme, error) {
	file := filepath.Join(dir, "mneme.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, "providers: {openai: {base_url: %s/v1, api_key: none}}\n", upstream), 0o600); err != nil {
		return nil, err
	}
	m := &mneme{process: exec.CommandContext(ctx, program, "serve", "--config", file, "--data", data, "--listen", "127.0.0.1:0")}
	out, err := m.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := m.process.Start(); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	address, found := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !found {
		m.stop()
		return nil, fmt.Errorf("%s printed %q instead of its address", program, line)
	}
	m.url = address
	for _, ask := range []struct {
		to   *string
		args []string
	}{
		{&m.key, []string{"key", "create", "--account", account, "--data", data}},
		{&m.link, []string{"ui", "--print", "--data", data}},
	} {
		said, err := exec.CommandContext(ctx, program, ask.args...).Output()
		if err != nil {
			m.stop()
			return nil, fmt.Errorf("mneme %s: %w", ask.args[0], err)
		}
		*ask.to = strings.TrimSpace(string(said))
	}
	return m, nil
}

func (m *mneme) stop() {
	_ = m.process.Process.Signal(os.Interrupt)
	_ = m.process.Wait()
}
