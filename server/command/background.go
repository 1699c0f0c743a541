package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/service"
)

// Up is "mneme up".
type Up struct {
	StoreFlags `embed:""`
	Listen     string `placeholder:"ADDRESS,…" help:"Where to serve: HOST:PORT (port 0 takes any free one), tls:HOST:PORT, unix:PATH ($MNEME_LISTEN)."`
	Simulate   bool   `help:"Use a simulated provider, which is not a model, for built-in providers without a key."`
	Process    bool   `help:"Start a plain process even if there is a service manager."`
}

// How long a server may take to start or stop, and how often it is checked.
const (
	backgroundTimeout  = time.Minute
	backgroundInterval = 50 * time.Millisecond
)

// logName is the log file of a background server, in the data directory.
const logName = "server.log"

// Run starts the server in the background, and waits until it accepts requests.
func (c *Up) Run(ctx context.Context, s *Env) error {
	keepFilesPrivate()
	cfg, err := c.load() // reports mistakes here: in the background they would not be seen
	if err != nil {
		return err
	}
	if admin.Running(ctx, cfg.Data) {
		fmt.Fprintln(s.Err, "a server runs already; end it with: mneme down")
		return showStatus(ctx, s, c.StoreFlags)
	}
	program, err := c.program(&cfg)
	if err != nil {
		return err
	}
	keeper := c.keeper(ctx)
	if err := keeper.Up(ctx, program); err != nil {
		return fmt.Errorf("the server was not started by %s: %w", keeper.Name(), err)
	}
	deadline := time.Now().Add(backgroundTimeout)
	for !admin.Running(ctx, cfg.Data) {
		if time.Now().After(deadline) {
			return fmt.Errorf("the server did not start; its log: %s", keeper.Logs(program))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(backgroundInterval):
		}
	}
	if err := showStatus(ctx, s, c.StoreFlags); err != nil {
		return err
	}
	fmt.Fprintf(s.Out, "kept by   %s\nits log   %s\n", keeper.Name(), keeper.Logs(program))
	fmt.Fprintf(s.Out, "next      mneme wrap claude; mneme ui; mneme session list; mneme search WORDS\n")
	return nil
}

func (c *Up) keeper(ctx context.Context) service.Keeper {
	home, _ := os.UserHomeDir()
	run := service.Tool
	if c.Process || home == "" {
		run = func(context.Context, string, ...string) (string, error) { return "", errors.ErrUnsupported }
	}
	return service.Find(ctx, run, home, startProcess)
}

// program returns this program with the settings of this start, including those of the environment, which a service
// manager does not pass on.
func (c *Up) program(cfg *config.Config) (p service.Program, err error) {
	if p.Executable, err = os.Executable(); err != nil {
		return p, err
	}
	data, err := filepath.Abs(cfg.Data)
	if err != nil {
		return p, err
	}
	p.Args = []string{"serve", "--quiet", "--data", data}
	if file := config.FileName(config.Sources{File: c.Config}); file != "" {
		if file, err = filepath.Abs(file); err != nil {
			return p, err
		}
		p.Args = append(p.Args, "--config", file)
	}
	if c.Listen != "" {
		p.Args = append(p.Args, "--listen", c.Listen)
	}
	if c.Simulate {
		p.Args = append(p.Args, "--simulate")
	}
	for _, variable := range os.Environ() {
		name, _, _ := strings.Cut(variable, "=")
		own := strings.HasPrefix(name, "MNEME_") && !slices.Contains([]string{envKey, envURL, config.EnvData, config.EnvConfig}, name)
		if own || strings.HasSuffix(name, "_API_KEY") || strings.HasPrefix(name, "OTEL_") || strings.HasPrefix(name, "AWS_") ||
			strings.HasPrefix(name, "GOOGLE_") || name == "CLAUDE_CONFIG_DIR" || name == "CODEX_HOME" || strings.HasSuffix(strings.ToUpper(name), "_PROXY") {
			p.Environment = append(p.Environment, variable)
		}
	}
	p.Log = filepath.Join(data, logName)
	return p, nil
}

// startProcess starts a process that outlives this one.
func startProcess(p service.Program) error {
	if err := os.MkdirAll(filepath.Dir(p.Log), 0o700); err != nil {
		return err
	}
	log, err := os.OpenFile(p.Log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	process := exec.Command(p.Executable, p.Args...) //nolint:noctx // it outlives this one
	process.Stderr, process.Env = log, os.Environ()
	detach(process)
	if err := process.Start(); err != nil {
		return err
	}
	return process.Process.Release()
}

// Down is "mneme down".
type Down struct {
	StoreFlags `embed:""`
}

// Run stops the server, which drains first, and waits until it has ended.
func (c *Down) Run(ctx context.Context, s *Env) error {
	cfg, err := c.load()
	if err != nil {
		return err
	}
	managed, err := (&Up{}).keeper(ctx).Down(ctx)
	if err != nil {
		return err
	}
	if !admin.Running(ctx, cfg.Data) {
		if managed {
			fmt.Fprintln(s.Out, "the server has ended")
			return nil
		}
		return fmt.Errorf("no server runs on the data in %s", cfg.Data)
	}
	if !managed {
		if err := c.end(ctx); err != nil {
			return err
		}
	}
	for deadline := time.Now().Add(backgroundTimeout); admin.Running(ctx, cfg.Data); {
		if time.Now().After(deadline) {
			return errors.New("the server is still draining; check it with: mneme status")
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(backgroundInterval):
		}
	}
	fmt.Fprintln(s.Out, "the server has ended")
	return nil
}

// end asks the process that has the data open to stop.
func (c *Down) end(ctx context.Context) error {
	return c.manage(ctx, mustExist, func(client *admin.Client) error {
		id, err := client.Process(ctx)
		if err != nil || id.ID == 0 {
			return err
		}
		process, err := os.FindProcess(id.ID)
		if err != nil {
			return err
		}
		return terminate(process)
	})
}

// Status is "mneme status".
type Status struct {
	StoreFlags `embed:""`
	Ready      string `placeholder:"URL" help:"Ask /readyz of a server or worker at this address instead; for health checks of containers."`
}

// Run shows the running server; the exit code is 1 if none runs, or if that of --ready is not ready.
func (c *Status) Run(ctx context.Context, s *Env) error {
	if c.Ready == "" {
		return showStatus(ctx, s, c.StoreFlags)
	}
	if err := ready(ctx, c.Ready); err != nil {
		return fmt.Errorf("not ready: %w", err)
	}
	fmt.Fprintln(s.Out, "ready")
	return nil
}

func showStatus(ctx context.Context, s *Env, place StoreFlags) error {
	cfg, err := place.load()
	if err != nil {
		return err
	}
	if kept, err := readLogin(); err != nil {
		return err
	} else if kept.URL != "" {
		fmt.Fprintf(s.Out, "login     %s: commands work there, unless --data or --url says otherwise\n", kept.URL)
	}
	if !admin.Running(ctx, cfg.Data) {
		return fmt.Errorf("no server runs on the data in %s; start one with: mneme up", cfg.Data)
	}
	return place.manage(ctx, mustExist, func(client *admin.Client) error {
		origins, err := client.Origins(ctx)
		if err != nil {
			return err
		}
		process, err := client.Process(ctx)
		if err != nil {
			return err
		}
		providers, err := client.Providers(ctx)
		if err != nil {
			return err
		}
		var simulated []string
		for _, p := range providers {
			if p.Simulated {
				simulated = append(simulated, p.Name)
			}
		}
		fmt.Fprintf(s.Out, "running   %s (process %d)\ndata      %s\n", strings.Join(origins, ", "), process.ID, cfg.Data)
		if len(simulated) > 0 {
			fmt.Fprintf(s.Out, "simulated %s: canned answers, not a model\n", strings.Join(simulated, ", "))
		}
		return nil
	})
}
