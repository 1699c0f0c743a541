package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// A target is where load goes.
type target struct {
	Name    string
	Version string
	address string    // host:port
	process *process  // nil: its CPU time and memory are unknown
	pprof   string    // host:port of its profiles, "" for programs that are not ours
	header  string    // lines that its requests have in their head, see newRequest
	keeps   bool      // keeps exchanges, and can be asked for them
	mneme   *instance // nil: another program
}

// An instance is what a target that is mneme was started from, and with.
type instance struct {
	kind    string // one of captureSettings
	program string
	data    string // directory
}

// Names of the targets that come with the command.
const (
	targetDirect  = "direct" // no proxy at all: what latencies are compared with
	targetPump    = "pump"
	targetReverse = "reverseproxy"
	targetNginx   = "nginx"
	targetHAProxy = "haproxy"
	targetMneme   = "mneme"       // capture on, durability process
	targetPower   = "mneme-power" // capture on, durability power
	targetOff     = "mneme-off"   // capture off
)

var builtinTargets = []string{targetDirect, targetPump, targetReverse, targetNginx, targetHAProxy, targetMneme, targetPower, targetOff}

// A fleet is the processes of one run: the provider and the targets.
type fleet struct {
	dir      string // for configurations, data and logs; removed by stop
	self     string // the own binary
	version  string
	upstream string // host:port of the provider
	targets  []*target
	stops    []func()
}

// serviceKey opens mneme in a run, and nothing else.
var serviceKey = strings.Repeat("bench-", 6)

// startFleet starts the targets in names. upstream is the address of a provider that runs already, "" for one of
// its own.
func startFleet(version string, names []string, upstream string) (f *fleet, err error) {
	f = &fleet{version: version}
	defer func() {
		if err != nil {
			f.stop()
		}
	}()
	if f.self, err = os.Executable(); err != nil {
		return f, err
	}
	if f.dir, err = os.MkdirTemp("", "mneme-bench-"); err != nil {
		return f, err
	}
	if f.upstream = upstream; upstream == "" {
		if _, f.upstream, _, err = f.own(f.self, "provider", nil); err != nil {
			return f, err
		}
	}
	for _, name := range names {
		t, err := f.start(name)
		if errors.Is(err, exec.ErrNotFound) {
			continue // nginx and haproxy take part where they are installed
		}
		if err != nil {
			return f, fmt.Errorf("target %s: %w", name, err)
		}
		f.targets = append(f.targets, t)
	}
	return f, nil
}

func (f *fleet) stop() {
	for i := len(f.stops) - 1; i >= 0; i-- {
		f.stops[i]()
	}
	if f.dir != "" {
		_ = os.RemoveAll(f.dir)
	}
}

// own starts a target out of a mneme binary.
func (f *fleet) own(program, kind string, env []string, args ...string) (p *process, address, pprof string, err error) {
	log, err := os.Create(filepath.Join(f.dir, fmt.Sprintf("%s-%d.log", kind, len(f.stops))))
	if err != nil {
		return nil, "", "", err
	}
	defer log.Close()
	p, err = startProcess(log, env, program, append([]string{"bench", "target", kind}, args...)...)
	if err != nil {
		said, _ := os.ReadFile(log.Name())
		return nil, "", "", fmt.Errorf("%w: %s", err, said)
	}
	f.stops = append(f.stops, p.stop)
	fields := strings.Fields(p.first)
	if len(fields) != 2 {
		return nil, "", "", fmt.Errorf("%s said %q", kind, p.first)
	}
	return p, fields[0], fields[1], nil
}

func (f *fleet) start(name string) (*target, error) {
	t := &target{Name: name, header: bearer(serviceKey)}
	var err error
	switch name {
	case targetDirect:
		t.address = f.upstream
	case targetPump, targetReverse:
		t.process, t.address, t.pprof, err = f.own(f.self, name, nil, f.upstream)
	case targetNginx:
		err = f.nginx(t)
	case targetHAProxy:
		err = f.haproxy(t)
	case targetMneme, targetPower, targetOff:
		return f.startMneme(name, f.self)
	default:
		return nil, fmt.Errorf("unknown (known: %s)", strings.Join(builtinTargets, ", "))
	}
	return t, err
}

// captureSettings are those of the targets that are mneme.
var captureSettings = map[string]string{
	targetMneme: "mode: on\n  durability: process",
	targetPower: "mode: on\n  durability: power",
	targetOff:   "mode: off",
}

// startMneme starts one of the targets that are mneme out of a binary of it.
func (f *fleet) startMneme(name, program string) (*target, error) {
	data := filepath.Join(f.dir, fmt.Sprintf("%s-%d", name, len(f.stops)))
	t := &target{Name: name, Version: f.version, header: bearer(serviceKey), keeps: name != targetOff, mneme: &instance{name, program, data}}
	file := data + ".yaml"
	if err := os.WriteFile(file, []byte(mnemeConfig(f.upstream, data, captureSettings[name])), 0o600); err != nil {
		return nil, err
	}
	var err error
	t.process, t.address, t.pprof, err = f.own(program, "mneme", []string{"MNEME_API_KEY=" + serviceKey}, file)
	return t, err
}

// renew starts each mneme over with an empty store, so that no lane pays for what the one before it has left to be done: the
// documents of its sessions, for instance, which are written half a minute after their last exchange.
func (f *fleet) renew() error {
	for i, t := range f.targets {
		if t.mneme == nil {
			continue
		}
		t.process.stop()
		if err := os.RemoveAll(t.mneme.data); err != nil {
			return err
		}
		fresh, err := f.startMneme(t.mneme.kind, t.mneme.program)
		if err != nil {
			return fmt.Errorf("target %s: %w", t.Name, err)
		}
		fresh.Name = t.Name
		f.targets[i] = fresh
	}
	return nil
}

// mnemeConfig points all providers at the simulated one, each with the formats that the real one speaks.
func mnemeConfig(upstream, data, capture string) string {
	return fmt.Sprintf(`listen: 127.0.0.1:0
data: %q
capture:
  %s
providers:
  openai: {base_url: "http://%[3]s/v1", api_key: bench}
  anthropic: {base_url: "http://%[3]s", api_key: bench}
  gemini: {base_url: "http://%[3]s/v1beta", api_key: bench}
  bench: {base_url: "http://%[3]s/v1", api_key: bench, formats: [chat]}
routes:
  - {prefix: bench, provider: bench}
`, data, capture, upstream)
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// nginx with one worker, as it is set up for event streams: no buffering, upstream connections kept.
func (f *fleet) nginx(t *target) error {
	program, err := exec.LookPath("nginx")
	if err != nil {
		return err
	}
	if t.address, err = freeAddress(); err != nil {
		return err
	}
	config := fmt.Sprintf(`daemon off; worker_processes 1; pid %[1]s/nginx.pid; error_log stderr;
events { worker_connections 16384; }
http {
  access_log off; client_body_temp_path %[1]s; proxy_temp_path %[1]s; fastcgi_temp_path %[1]s; uwsgi_temp_path %[1]s; scgi_temp_path %[1]s;
  client_max_body_size 64m; client_body_buffer_size 1m; keepalive_requests 1000000;
  upstream provider { server %[2]s; keepalive 512; keepalive_requests 1000000; }
  server { listen %[3]s; location / { proxy_pass http://provider; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off; } }
}
`, f.dir, f.upstream, t.address)
	file := filepath.Join(f.dir, "nginx.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	return f.foreign(t, program, "-c", file, "-p", f.dir, "-e", "stderr")
}

func (f *fleet) haproxy(t *target) error {
	program, err := exec.LookPath("haproxy")
	if err != nil {
		return err
	}
	if t.address, err = freeAddress(); err != nil {
		return err
	}
	config := fmt.Sprintf(`global
  nbthread 1
  maxconn 6000
  no strict-limits
defaults
  mode http
  timeout connect 5s
  timeout client 10m
  timeout server 10m
  http-reuse always
listen bench
  bind %s
  option http-no-delay
  server provider %s
`, t.address, f.upstream)
	file := filepath.Join(f.dir, "haproxy.cfg")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return err
	}
	return f.foreign(t, program, "-db", "-f", file)
}

// foreign starts a program that does not report when it is ready, and waits until it accepts connections.
func (f *fleet) foreign(t *target, program string, args ...string) error {
	log, err := os.Create(filepath.Join(f.dir, t.Name+".log"))
	if err != nil {
		return err
	}
	defer log.Close()
	cmd := exec.Command(program, args...) //nolint:noctx // a server out of the PATH; ended by stop
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return err
	}
	f.stops = append(f.stops, func() {
		_ = cmd.Process.Signal(os.Interrupt)
		timer := time.AfterFunc(stopTimeout, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		_ = cmd.Wait()
	})
	t.process = &process{pid: cmd.Process.Pid}
	if version, err := exec.Command(program, "-v").CombinedOutput(); err == nil { //nolint:noctx // as above
		t.Version, _, _ = strings.Cut(string(version), "\n")
	}
	for deadline := time.Now().Add(stopTimeout); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if conn, err := net.Dial("tcp", t.address); err == nil { //nolint:noctx // on the loopback
			return conn.Close()
		}
	}
	said, _ := os.ReadFile(log.Name())
	return fmt.Errorf("takes no connections: %s", said)
}

// profile fetches a CPU profile or an execution trace of the next seconds.
func (t *target) profile(ctx context.Context, kind string, seconds int, to string) error {
	return t.fetch(ctx, fmt.Sprintf("/debug/pprof/%s?seconds=%d", kind, seconds), func(r io.Reader) error {
		file, err := os.Create(to)
		if err != nil {
			return err
		}
		_, err = io.Copy(file, r)
		return errors.Join(err, file.Close())
	})
}

// allocated is how many objects, with how many bytes, the target has allocated so far; ok is false where it cannot be asked.
// Binaries from before bytes were counted give none.
func (t *target) allocated(ctx context.Context) (objects, bytes uint64, ok bool) {
	if t.pprof == "" {
		return 0, 0, false
	}
	err := t.fetch(ctx, allocationsPath, func(r io.Reader) error {
		read, err := fmt.Fscan(r, &objects, &bytes)
		if read > 0 {
			return nil
		}
		return err
	})
	return objects, bytes, err == nil
}

func (t *target) fetch(ctx context.Context, path string, read func(io.Reader) error) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+t.pprof+path, http.NoBody)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	return read(response.Body)
}
