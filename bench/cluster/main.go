// Command cluster runs a whole cluster on this machine, for trying it out: three brokers, Postgres, an S3 service, a
// centre or several, a worker and two edges, each a process, and an address that sends each request to the next edge in turn. It writes
// cluster.json into its directory once all of them accept requests, and stops them on SIGTERM or an interrupt. A process that ends before
// is started again after a second, at the port that it had.
package main

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

func main() {
	program := flag.String("mneme", "bin/mneme", "the program")
	dir := flag.String("dir", "data/cluster", "where the nodes keep their data; an existing cluster continues")
	var b broker
	edges := flag.Int("edges", 2, "how many edges")
	centres := flag.Int("centres", 1, "how many centres")
	workers := flag.Int("workers", 1, "how many workers")
	revive := flag.Bool("revive", true, "start a process again that has ended")
	flag.StringVar(&b.dir, "broker", "", "internal: run a broker with its data in this directory")
	flag.IntVar(&b.number, "number", 0, "internal: number of the broker")
	flag.IntVar(&b.port, "port", server.RANDOM_PORT, "internal: port of the broker")
	flag.StringVar(&b.routes, "routes", "", "internal: ports for connections between brokers, separated by commas")
	flag.Parse()
	names := nodesOf(*centres, *edges, *workers)
	if err := run(*program, *dir, names, *revive, &b); err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

// run runs the cluster, or one of its brokers, until it is told to stop.
func run(program, dir string, names []string, revive bool, b *broker) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if b.dir != "" {
		return b.run(ctx)
	}
	return runCluster(ctx, program, dir, names, revive)
}

// nodesOf returns the names of the nodes, in the order in which they are started.
func nodesOf(centres, edges, workers int) (names []string) {
	for n := range max(centres, 1) {
		names = append(names, fmt.Sprintf("centre-%d", n+1))
	}
	names[0] = "centre"
	for n := range max(edges, 1) {
		names = append(names, fmt.Sprintf("edge-%d", n+1))
	}
	for n := range workers {
		names = append(names, fmt.Sprintf("worker-%d", n+1))
	}
	return names
}

// numberOf returns the cluster.node of a node, which differs from all others whatever their number. That of a worker is unused.
func numberOf(name string) int {
	kind, digits, several := strings.Cut(name, "-")
	n, _ := strconv.Atoi(digits) // 0 for the centre
	if kind == "centre" && several {
		return 65000 + n
	}
	return 1 + n
}

// timeout is how long a node may take to start, or to end.
const timeout = 3 * time.Minute

// node is a process of the cluster, as cluster.json names it.
type node struct {
	Name string `json:"name"`
	PID  int    `json:"pid"`
	URL  string `json:"url"` // of a worker: that of its probes and metrics

	process *exec.Cmd
	ended   chan struct{} // closed when the process has ended
}

// installation is the content of cluster.json.
type installation struct {
	Nodes []*node `json:"nodes"`
	Any   string  `json:"any"` // URL at which each request goes to one of the edges
	Key   string  `json:"key"` // a service key of account default with every scope, on all nodes

	mu       sync.Mutex        // held while a process is replaced, and while cluster.json is written
	dir      string            // where the processes keep their data
	secrets  map[string]string // environment of every process
	brokers  []string          // URLs
	database string            // URL
	bodies   string            // value of centre.bodies
	memory   string            // the setting of edges that names where they ask for the memory; "": none, as in programs of earlier commits
	bucket   map[string]string // environment by which a centre or worker finds the bucket
}

func runCluster(ctx context.Context, program, dir string, names []string, revive bool) (err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return err
	}
	cluster := installation{dir: dir}
	defer func() { err = errors.Join(err, cluster.stop(), os.RemoveAll(filepath.Join(dir, "cluster.json"))) }()
	if err := cluster.startEngines(ctx); err != nil {
		return err
	}
	var asked []*node
	for _, name := range names {
		started, err := cluster.start(ctx, program, name)
		if err != nil {
			return err
		}
		switch {
		case strings.HasPrefix(name, "edge"):
			asked = append(asked, started)
		case strings.HasPrefix(name, "centre") && cluster.memory == "":
			cluster.memory = ", centre: " + started.URL
		}
	}
	s, err := startSpread(ctx, asked)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	cluster.Any = s.url
	if err := cluster.write(filepath.Join(dir, "cluster.json")); err != nil {
		return err
	}
	for _, n := range cluster.Nodes {
		fmt.Printf("%-8s process %-8d %s\n", n.Name, n.PID, n.URL)
	}
	fmt.Printf("addresses and keys are in %s; stop with SIGTERM or Ctrl-C\n", filepath.Join(dir, "cluster.json"))
	var watching sync.WaitGroup
	for _, n := range cluster.Nodes {
		if revive {
			watching.Go(func() { cluster.revive(ctx, n) })
		}
	}
	<-ctx.Done()
	watching.Wait()
	return nil
}

// startEngines starts what the nodes need: brokers, Postgres, and an S3 service if it can be run.
func (c *installation) startEngines(ctx context.Context) (err error) {
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.secrets = map[string]string{}
	for _, name := range []string{"MNEME_CLUSTER_KEY", "MNEME_MASTER_KEY", "MNEME_API_KEY"} {
		if c.secrets[name], err = secret(filepath.Join(c.dir, strings.ToLower(name))); err != nil {
			return err
		}
	}
	c.Key = c.secrets["MNEME_API_KEY"]
	c.brokers, err = startBrokers(c.dir, func(name string, args ...string) (string, error) {
		n, err := startNode(ctx, c.dir, name, c.secrets, self, args...)
		if n == nil {
			return "", err
		}
		c.Nodes = append(c.Nodes, n)
		return n.URL, err
	})
	if err != nil {
		return err
	}
	if c.database, err = c.startPostgres(ctx, c.dir); err == nil {
		c.bodies, c.bucket, err = c.startS3(ctx, c.dir)
	}
	return err
}

// start starts a centre, an edge or a worker, with whose word its name begins, in place of a process of that name that has ended.
func (c *installation) start(ctx context.Context, program, name string) (*node, error) {
	args := []string{"centre", "--quiet"}
	switch {
	case strings.HasPrefix(name, "edge"):
		args = []string{"serve", "--edge", "--simulate", "--quiet"}
	case strings.HasPrefix(name, "worker"):
		args = []string{"centre", "--worker"}
	}
	port, err := keptPort(c.dir, name)
	if err != nil {
		return nil, err
	}
	if strings.HasPrefix(name, "worker") {
		args = append(args, "--listen", "127.0.0.1:"+port)
	}
	settings := fmt.Sprintf("listen: 127.0.0.1:%s\ndata: %q\ncluster: {nats: [%s], node: %d, replicas: %d%s}\n",
		port, filepath.Join(c.dir, name), strings.Join(c.brokers, ", "), numberOf(name), brokers, c.memory)
	environment := maps.Clone(c.secrets)
	if args[0] == "centre" {
		settings += fmt.Sprintf("centre: {postgres: %q, bodies: %q}\n", c.database, c.bodies)
		maps.Copy(environment, c.bucket)
	}
	file := filepath.Join(c.dir, name+".yaml")
	if err := os.WriteFile(file, []byte(settings), 0o600); err != nil {
		return nil, err
	}
	n, err := startNode(ctx, c.dir, name, environment, program, append(args, "--config", file)...)
	if n != nil {
		c.Nodes = append(slices.DeleteFunc(c.Nodes, func(former *node) bool { return former.Name == name }), n)
	}
	return n, err
}

// secret returns the secret in a file, 64 hexadecimal digits, and creates it if it does not exist.
func secret(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err == nil {
		return string(text), nil
	}
	random := make([]byte, 32)
	_, _ = rand.Read(random) // never fails: crypto/rand ends the program instead
	text = []byte(hex.EncodeToString(random))
	return string(text), os.WriteFile(file, text, 0o600)
}

// startNode starts a process and waits until it reports where it listens, or that it takes what edges ship, as a worker
// does. Its other output goes to a file next to its data.
func startNode(ctx context.Context, dir, name string, environment map[string]string, program string, args ...string) (*node, error) {
	log, err := os.OpenFile(filepath.Join(dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	defer log.Close()
	process := exec.Command(program, args...) //nolint:noctx // it is ended in an orderly way, see stop
	process.Env, process.Stderr = os.Environ(), log
	for variable, value := range environment {
		process.Env = append(process.Env, variable+"="+value)
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	n := &node{Name: name, PID: process.Process.Pid, process: process, ended: make(chan struct{})}
	url := make(chan string, 1)
	go func() {
		defer close(n.ended)
		for lines, probes := bufio.NewScanner(out), ""; lines.Scan(); {
			where, begun := strings.CutPrefix(lines.Text(), "listening on ")
			if at, says := strings.CutPrefix(where, "metrics and probes on "); says {
				probes = at
			}
			if strings.HasSuffix(where, " takes what edges ship") {
				where, begun = probes, true
			}
			if begun {
				select {
				case url <- where:
				default:
				}
			}
		}
		_ = process.Wait()
	}()
	select {
	case n.URL = <-url:
		return n, nil
	case <-n.ended:
		return n, fmt.Errorf("%s has ended; %s says why", name, log.Name())
	case <-ctx.Done():
		return n, ctx.Err()
	case <-time.After(timeout):
		return n, fmt.Errorf("%s did not start; %s says why", name, log.Name())
	}
}

// revive starts a process again each time that it has ended, until ctx is done.
func (c *installation) revive(ctx context.Context, n *node) {
	for ctx.Err() == nil {
		select {
		case <-ctx.Done():
			return
		case <-n.ended:
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
		err := c.again(n)
		if err == nil {
			err = c.write(filepath.Join(c.dir, "cluster.json"))
		}
		if err != nil {
			fmt.Fprintf(os.Stderr, "cluster: %s cannot be started again: %v\n", n.Name, err)
		}
	}
}

// again starts a process again. Its output goes to its log.
func (c *installation) again(n *node) error {
	log, err := os.OpenFile(filepath.Join(c.dir, n.Name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer log.Close()
	before := n.process
	process := exec.Command(before.Path, before.Args[1:]...) //nolint:noctx // it is ended in an orderly way, see stop
	process.Env, process.Dir, process.SysProcAttr, process.Stdout, process.Stderr = before.Env, before.Dir, before.SysProcAttr, log, log
	if err := process.Start(); err != nil {
		return err
	}
	ended := make(chan struct{})
	go func() {
		_ = process.Wait()
		close(ended)
	}()
	c.mu.Lock()
	defer c.mu.Unlock()
	n.process, n.PID, n.ended = process, process.Process.Pid, ended
	return nil
}

// write replaces cluster.json atomically.
func (c *installation) write(file string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(file+".new", append(text, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// stop ends the processes in reverse order, so that edges can ship until their end and the brokers accept it.
func (c *installation) stop() (err error) {
	for _, n := range slices.Backward(c.Nodes) {
		err = errors.Join(err, n.stop())
	}
	return err
}

// stop ends the process, and returns when it has ended.
func (n *node) stop() error {
	ending := os.Signal(syscall.SIGTERM)
	if n.Name == postgresName {
		ending = os.Interrupt // SIGTERM would wait for connections
	}
	if n.process.Process.Signal(ending) != nil {
		_ = n.process.Process.Kill() // Windows has no such signal
	}
	select {
	case <-n.ended:
		return nil
	case <-time.After(timeout):
		_ = n.process.Process.Kill()
		<-n.ended
		return fmt.Errorf("%s did not end by itself", n.Name)
	}
}
