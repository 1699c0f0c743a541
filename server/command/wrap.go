package command

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/agent"
	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store"
)

// Wrap is "mneme wrap AGENT -- ARG...".
type Wrap struct {
	Target   `embed:""`
	Account  string   `default:"default" placeholder:"NAME" help:"Account to make a first key for if it has none (default: ${default})."`
	Memory   bool     `help:"Offer the memory to the agent as tools (claude, codex, opencode)."`
	Recall   bool     `help:"Set hooks that recall earlier sessions (claude, codex)."`
	OwnLogin bool     `help:"Keep the agent's own login: the provider bills it, and mneme keeps no copy (claude)."`
	Agent    string   `arg:"" help:"The agent: claude, codex, opencode, qwen, gemini, aider; or any program that reads OPENAI_BASE_URL, ANTHROPIC_BASE_URL or GOOGLE_GEMINI_BASE_URL."`
	Args     []string `arg:"" optional:"" passthrough:"" help:"Arguments for the agent."`
}

// agentEnded carries the exit code of an agent that failed.
type agentEnded struct{ code int }

func (e agentEnded) Error() string { return fmt.Sprintf("the agent ended with exit code %d", e.code) }

// Run starts the agent on this terminal, with the server as its only provider, and exits with the agent's code. A key
// that was made for it is revoked when it ends, or when this process does.
func (c *Wrap) Run(ctx context.Context, s *Env) error {
	known, ok := agent.Find(c.Agent)
	path, err := exec.LookPath(c.Agent)
	switch {
	case err != nil && ok:
		return fmt.Errorf("%s is not installed, or not in PATH", c.Agent)
	case err != nil:
		return fmt.Errorf("%s is neither a program in PATH nor an agent that mneme knows: those are %s", c.Agent, strings.Join(agent.Names(), ", "))
	}
	if _, err := known.Launch(agent.Server{Memory: c.Memory, Recall: recaller(c.Recall, startedWith(c.Args)), OwnLogin: c.OwnLogin}); err != nil {
		return err // before a key is made
	}
	url, err := c.server(ctx)
	if err != nil {
		return err
	}
	key, revoke, err := c.key(ctx, url)
	if err != nil {
		return err
	}
	launch, err := known.Launch(agent.Server{Origin: url, Key: key, Memory: c.Memory, Recall: recaller(c.Recall, startedWith(c.Args)), OwnLogin: c.OwnLogin})
	if err != nil {
		return errors.Join(err, revoke())
	}
	if launch.Note != "" {
		fmt.Fprintln(s.Err, "mneme:", launch.Note)
	}
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	process := exec.Command(path, append(launch.Args, args...)...) //nolint:noctx // the agent that was asked for; it ends when its user ends it
	process.Stdin, process.Stdout, process.Stderr = s.In, s.Out, s.Err
	process.Env = launch.Environment(os.Environ())
	return errors.Join(runAgent(process), revoke())
}

// server returns the origin of a server that accepts requests.
func (c *Wrap) server(ctx context.Context) (string, error) {
	url, err := c.origin(ctx)
	if err != nil {
		return "", err
	}
	if err := ready(ctx, url); err != nil {
		return "", fmt.Errorf("no server takes requests at %s; start one with: mneme serve, or say where it is with --url", url)
	}
	return url, nil
}

// ready returns nil if the server at url accepts requests.
func ready(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/readyz", http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		said, _ := io.ReadAll(io.LimitReader(response.Body, 200))
		return fmt.Errorf("%s/readyz answers %d: %s", url, response.StatusCode, bytes.TrimSpace(said))
	}
	return nil
}

// key returns the key in the environment, or a new one that may write and read, as the memory tools need, and a
// function that revokes it. The new key is held until then, so that it does not outlast this process.
func (c *Wrap) key(ctx context.Context, url string) (secret string, revoke func() error, err error) {
	_, key, err := c.elsewhere()
	if err != nil {
		return "", nil, err
	}
	if key = cmp.Or(strings.TrimSpace(os.Getenv(envKey)), key); key != "" {
		return key, func() error { return nil }, nil
	}
	ctx = context.WithoutCancel(ctx) // an interrupt is for the agent
	holding, release := context.WithCancel(ctx)
	var created api.CreatedKey
	var held sync.WaitGroup
	err = c.StoreFlags.manage(ctx, mustExist, func(client *admin.Client) error {
		if client.InProcess() {
			return fmt.Errorf("the server at %s does not use this data directory; set %s to a key of that server, or name its data directory with --data", url, envKey)
		}
		expires := time.Now().Add(admin.HeldKeyLasts)
		created, err = client.Keys().Create(ctx, api.NewKey{
			Account: c.Account, Scopes: store.ScopeWrite | store.ScopeRead, Label: "wrap " + c.Agent, KeySettings: api.KeySettings{Expires: &expires},
		})
		if err == nil {
			held.Go(func() { client.Keys().Hold(holding, created.ID) })
		}
		return err
	})
	if err != nil {
		release()
		return "", nil, err
	}
	return created.Secret, func() error {
		defer held.Wait()
		defer release()
		return c.StoreFlags.manage(ctx, mustExist, func(client *admin.Client) error { return client.Keys().Revoke(ctx, created.ID) })
	}, nil
}

// runAgent waits for the agent. An interrupt from the terminal reaches the agent too, which decides what to do; SIGTERM
// is passed on.
func runAgent(process *exec.Cmd) error {
	if err := process.Start(); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGINT)
	terminated := make(chan os.Signal, 1)
	signal.Notify(terminated, syscall.SIGTERM)
	defer signal.Stop(terminated)
	ended := make(chan struct{})
	passed := make(chan struct{})
	go func() {
		defer close(passed)
		for {
			select {
			case <-terminated:
				_ = terminate(process.Process)
			case <-ended:
				return
			}
		}
	}()
	err := process.Wait()
	close(ended)
	<-passed
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return agentEnded{max(failed.ExitCode(), ExitFailure)} // -1 means a signal
	}
	return err
}
