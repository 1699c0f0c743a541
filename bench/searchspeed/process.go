package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/bench/serving"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/search"
)

// process is the provider or mneme.
type process struct {
	command *exec.Cmd
	input   io.Closer
	address string // its URL
	client  *http.Client
}

func startProvider(ctx context.Context) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	return start(exec.CommandContext(ctx, self, asProvider))
}

// serviceKey opens mneme in a run. It is worth nothing elsewhere.
var serviceKey = strings.Repeat("speed-", 6)

func startMneme(ctx context.Context, program, dir, data, upstream, embedder string) (*process, error) {
	file := filepath.Join(dir, "mneme.yaml")
	config := fmt.Sprintf("providers: {openai: {base_url: %s/v1, api_key: bench}}\nsearch: {embedder: {%s}}\n", upstream, embedder)
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return nil, err
	}
	command := exec.CommandContext(ctx, program, "serve", "--config", file, "--data", data, "--listen", "127.0.0.1:0")
	command.Env = append(os.Environ(), "MNEME_API_KEY="+serviceKey)
	log, err := os.Create(filepath.Join(dir, "mneme.log"))
	if err != nil {
		return nil, err
	}
	defer log.Close()
	command.Stderr = log
	return start(command)
}

// start waits until the process says where it listens.
func start(command *exec.Cmd) (*process, error) {
	command.Cancel = func() error { return command.Process.Signal(os.Interrupt) }
	p := &process{command: command, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}}
	var err error
	if p.input, err = command.StdinPipe(); err != nil {
		return nil, err
	}
	if p.address, err = serving.Listening(command); err != nil {
		_ = p.input.Close()
		return nil, err
	}
	return p, nil
}

// stop ends the process and waits for it.
func (p *process) stop() {
	p.client.CloseIdleConnections()
	_ = p.input.Close()
	_ = p.command.Process.Signal(os.Interrupt)
	_ = p.command.Wait()
}

// cpu is the processor time that the process has used so far; 0 where the system does not say.
func (p *process) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.command.Process.Pid))
	if err != nil {
		return 0
	}
	// The name, in parentheses, may hold blanks; user and system time are the 12th and 13th field after it (proc(5)).
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	if len(fields) < 13 {
		return 0
	}
	const tick = time.Second / 100 // USER_HZ on every Linux
	user, _ := strconv.Atoi(fields[11])
	system, _ := strconv.Atoi(fields[12])
	return time.Duration(user+system) * tick
}

// do sends a request to mneme and decodes the answer, unless into is nil.
func (p *process) do(ctx context.Context, method, path, body string, into any) error {
	r, err := http.NewRequestWithContext(ctx, method, p.address+path, strings.NewReader(body))
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+serviceKey)
	r.Header.Set("Content-Type", "application/json")
	response, err := p.client.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s %s: HTTP %d: %s", method, path, response.StatusCode, bytes.TrimSpace(answer))
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(answer, into)
}

// lookEvery is how often it is looked how far the index is.
const lookEvery = 100 * time.Millisecond

// caughtUp waits until the index and the vectors are complete.
func (p *process) caughtUp(ctx context.Context) (*search.Status, error) {
	for {
		var s api.Stats
		if err := p.do(ctx, http.MethodGet, "/v1/memory/stats", "", &s); err != nil {
			return nil, err
		}
		if s.Index == nil {
			return nil, errors.New("mneme keeps no index")
		}
		v := s.Index.Vectors
		if s.Index.Lag == 0 && !s.Index.Building && s.Index.Documents > 0 && (v == nil || !v.Building && v.Lag == 0) {
			return s.Index, nil
		}
		if v != nil && v.Error != "" {
			return nil, errors.New(v.Error)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(lookEvery):
		}
	}
}

// atRest waits until mneme has hardly anything to do: sessions are summarized after the index is complete. It waits for
// nothing where the system does not say how much processor time a process uses.
func (p *process) atRest(ctx context.Context) error {
	const hardly = 50 * time.Millisecond // a second
	for {
		before := p.cpu()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Second):
		}
		if p.cpu()-before <= hardly {
			return nil
		}
	}
}

// warmUp is how many searches are not counted.
const warmUp = 50

// ask measures searches, one after the other.
func (p *process) ask(ctx context.Context, times int, mode string, query func() string) ([]time.Duration, error) {
	took := make([]time.Duration, 0, times)
	for n := range warmUp + times {
		body := fmt.Sprintf(`{"query":%q,"mode":%q}`, query(), mode)
		var answer search.Answer
		began := time.Now()
		if err := p.do(ctx, http.MethodPost, "/v1/memory/search", body, &answer); err != nil {
			return nil, err
		}
		if string(answer.ModeUsed) != mode {
			return nil, fmt.Errorf("asked for %s, mneme searched by %s: %q", mode, answer.ModeUsed, answer.Degraded)
		}
		if n >= warmUp {
			took = append(took, time.Since(began))
		}
	}
	return took, nil
}
