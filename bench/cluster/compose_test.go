package main

import (
	"cmp"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/alecthomas/kong"
	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v3"

	"github.com/mnemeproxy/mneme/server/command"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/store/catalog/pack"
	"github.com/mnemeproxy/mneme/store/catalog/pack/s3test"
)

const composed = "../../deploy/cluster"

// composition has the checked parts of compose.yaml.
type composition struct {
	Services map[string]*service
	Volumes  map[string]any
}

type service struct {
	Command     []string
	Environment map[string]string
	Ports       []string
	Volumes     []string
	Tmpfs       []string
	Probe       struct{ Test []string } `yaml:"healthcheck"`
}

func readComposition(t *testing.T) (file composition) {
	t.Helper()
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(composed, "compose.yaml"))), &file); err != nil {
		t.Fatal(err)
	}
	return file
}

// config returns the configuration of a node; asked is called with the variables that it reads.
func (s *service) config(t *testing.T, asked func(variable string)) config.Config {
	t.Helper()
	cfg, err := config.Load(config.Sources{LookupEnv: func(variable string) (string, bool) {
		asked(variable)
		switch variable {
		case config.EnvConfig:
			return filepath.Join(composed, "mneme.yaml"), true
		case "MNEME_NODE":
			return s.Environment[variable], true
		}
		return "", false // keys, which the first start creates
	}})
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// only returns the group of a pattern's only match in a text.
func only(t *testing.T, pattern, text string) string {
	t.Helper()
	found := regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1)
	if len(found) != 1 {
		t.Fatalf("%s is found %d times in:\n%s", pattern, len(found), text)
	}
	return found[0][1]
}

// The set of containers is what the command starts as processes with two centres.
func TestTheContainersAreTheNodesOfTheCommand(t *testing.T) {
	file := readComposition(t)
	var asked []string // of the brokers, by the nodes
	numbers := map[config.Count]string{}
	for name, service := range file.Services {
		if name != worker {
			if volume, _, _ := strings.Cut(service.Volumes[0], ":"); volume != name {
				t.Errorf("%s keeps its data in %s", name, volume)
			}
			if _, kept := file.Volumes[name]; !kept {
				t.Errorf("there is no volume for %s", name)
			}
		}
		if !isNode(name) {
			continue
		}
		cfg := service.config(t, func(string) {})
		if name != worker {
			numbers[cfg.Cluster.Node] = name
		}
		if bucket := "s3://"; !strings.HasPrefix(cfg.Centre.Bodies, bucket) {
			t.Errorf("%s keeps bodies in %s", name, cfg.Centre.Bodies)
		}
		if edge := slices.Contains(service.Command, "--edge"); edge != strings.HasPrefix(name, "edge-") || !edge && service.Command[0] != "centre" {
			t.Errorf("%s runs %v", name, service.Command)
		}
		if cfg.Cluster.Replicas != brokers {
			t.Errorf("%s holds everything on %d brokers", name, cfg.Cluster.Replicas)
		}
		asked = cfg.Cluster.NATS
		if host := "@postgres/"; !strings.Contains(cfg.Centre.Postgres.Reveal(), host) || file.Services["postgres"].Volumes == nil {
			t.Errorf("%s keeps memory in %s, and the database is that of %s", name, cfg.Centre.Postgres, host)
		}
	}
	want := map[config.Count]string{}
	for _, name := range nodesOf(2, 2, 0) {
		want[config.Count(numberOf(name))] = name
	}
	if !maps.Equal(numbers, want) {
		t.Errorf("the nodes are %v, want %v", numbers, want)
	}

	broker, err := server.ProcessConfigFile(filepath.Join(composed, "nats.conf"))
	if err != nil {
		t.Fatal(err)
	}
	if !broker.JetStream || !broker.SyncAlways || broker.StoreDir != "/data" {
		t.Errorf("the brokers keep what they confirm: %v, synced: %v, in %s", broker.JetStream, broker.SyncAlways, broker.StoreDir)
	}
	var routes []string
	for i, url := range broker.Routes {
		routes = append(routes, url.Hostname())
		if want := "nats://" + url.Hostname() + ":" + strconv.Itoa(cmp.Or(broker.Port, 4222)); asked[i] != want {
			t.Errorf("nodes ask %s, want %s", asked[i], want)
		}
	}
	running := slices.DeleteFunc(slices.Sorted(maps.Keys(file.Services)), func(name string) bool { return !strings.HasPrefix(name, "nats-") })
	if len(running) != brokers || !slices.Equal(routes, running) {
		t.Errorf("brokers listen to %v, and %v run", routes, running)
	}
	for _, name := range running {
		if !slices.Contains(file.Services[name].Command, name) {
			t.Errorf("%s is started as %v", name, file.Services[name].Command)
		}
	}
}

const worker = "worker" // the service that has no volume, and whose number is unused

func isNode(service string) bool {
	return strings.HasPrefix(service, "centre") || service == worker || strings.HasPrefix(service, "edge-")
}

// What compose.yaml passes to the nodes is what the program accepts: commands, variables, its port, its directory.
func TestTheProgramAcceptsWhatTheContainersAreGiven(t *testing.T) {
	image := read(t, "../../deploy/Dockerfile")
	listens, data := only(t, `MNEME_LISTEN=(\S+)`, image), only(t, `MNEME_DATA=(\S+)`, image)
	if owned := only(t, `mkdir -p -m 0700 (\S+)`+data, image); only(t, `COPY .*--chown=65532:65532 `+owned+` (\S+)`, image) != "/" {
		t.Errorf("the mode of %s is not that of %s%s: only contents of a directory are copied with their modes", data, owned, data)
	}
	published := map[string]string{}
	for name, node := range readComposition(t).Services {
		if !isNode(name) {
			continue
		}
		parses(t, node.Command...)
		memory := !slices.Contains(node.Command, "--edge")
		asked := map[string]bool{"PGPASSWORD": memory} // read by the client of Postgres
		for variable := range s3test.Environment("", "") {
			asked[variable] = memory
		}
		node.config(t, func(variable string) { asked[variable] = true })
		for variable := range node.Environment {
			if !asked[variable] {
				t.Errorf("%s is given %s, which it does not read", name, variable)
			}
		}
		for _, port := range node.Ports {
			outside, inside, _ := strings.Cut(strings.TrimPrefix(port, "127.0.0.1:"), ":")
			if ":"+inside != listens {
				t.Errorf("%s publishes %s, and listens on %s", name, port, listens)
			}
			if other, taken := published[outside]; taken {
				t.Errorf("%s and %s have the port %s", name, other, outside)
			}
			published[outside] = name
		}
		at := listens
		if name == worker {
			at = node.Command[slices.Index(node.Command, "--listen")+1]
			if !slices.Equal(node.Tmpfs, []string{"/tmp", data}) {
				t.Errorf("its roster has no place: %v", node.Tmpfs)
			}
		} else if _, inside, _ := strings.Cut(node.Volumes[0], ":"); inside != data {
			t.Errorf("%s has its volume at %s, and its data in %s", name, inside, data)
		}
		probe := node.Probe.Test
		parses(t, probe[2:]...)
		if !slices.Equal(probe, []string{"CMD", "/mneme", "status", "--ready", "http://127.0.0.1" + at}) {
			t.Errorf("the health check of %s, which listens on %s, is %v", name, at, probe)
		}
	}
	if len(published) != 4 {
		t.Errorf("the published ports are %v", published)
	}
}

// parses checks that the program has a command.
func parses(t *testing.T, args ...string) {
	t.Helper()
	parser, err := kong.New(&struct {
		Serve  command.Serve  `cmd:""`
		Centre command.Centre `cmd:""`
		Status command.Status `cmd:""`
	}{}, kong.Exit(func(int) {}))
	if err == nil {
		_, err = parser.Parse(args)
	}
	if err != nil {
		t.Errorf("mneme %s: %v", strings.Join(args, " "), err)
	}
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The script runs with a fake Docker.
func TestTheScriptMakesEveryKeyOnce(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(composed)); err != nil {
		t.Fatal(err)
	}
	started := filepath.Join(dir, "started")
	if err := os.WriteFile(filepath.Join(dir, "docker"), []byte("#!/bin/sh\necho \"$@\" >>"+started+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	keys := filepath.Join(dir, ".env")
	write(t, keys, "PGPASSWORD=of-before\nS3_SECRET_KEY=\n")
	first := ""
	for range 2 {
		up := exec.CommandContext(t.Context(), "sh", filepath.Join(dir, "up"))
		up.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"))
		if out, err := up.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		made := read(t, keys)
		if first == "" {
			first = made
		}
		if made != first {
			t.Errorf("the keys were\n%sand are\n%s", first, made)
		}
	}
	if got := read(t, started); got != strings.Repeat("compose up --detach --build --wait --wait-timeout 300\n", 2) {
		t.Errorf("it has run docker %s", got)
	}
	if mode := must(os.Stat(keys)).Mode().Perm(); mode != 0o600 {
		t.Errorf("the keys have mode %v", mode)
	}
	if !strings.Contains(first, "PGPASSWORD=of-before\n") {
		t.Errorf("a key that was there is gone:\n%s", first)
	}
	for _, wanted := range regexp.MustCompile(`\$\{(\w+):\?`).FindAllStringSubmatch(read(t, filepath.Join(composed, "compose.yaml")), -1) {
		only(t, `(?m)^`+wanted[1]+`=([0-9a-f]{64}|of-before)$`, first)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// The S3 service is started like its container, and the centre writes its packs to the bucket with the centre's
// variables.
func TestTheCentreKeepsBodiesInTheContainerOfTheS3Service(t *testing.T) {
	file := readComposition(t)
	image := read(t, filepath.Join(composed, "s3", "Dockerfile"))
	if pinned, built := only(t, `(?m)^VERSITYGW\s*:=\s*(\S+)$`, read(t, "../../Makefile")), only(t, `versitygw@(\S+)`, image); pinned != built {
		t.Errorf("the image has version %s of the S3 service, and the tests have %s", built, pinned)
	}
	if s3test.Program() == "" {
		t.Skip("NOT TESTED: there is no S3 service; make s3-server builds one")
	}
	dir, address := t.TempDir(), "127.0.0.1:"+must(freePorts(1))[0]
	s3, centre := file.Services["s3"], file.Services["centre"]
	_, data, _ := strings.Cut(s3.Volumes[0], ":")
	bucket := only(t, `mkdir -p -m 0700 /owned/data /owned(\S+)`, image)
	if err := os.Mkdir(filepath.Join(dir, strings.TrimPrefix(bucket, data)), 0o700); err != nil {
		t.Fatal(err)
	}
	args := slices.Clone(s3.Command)
	port := ""
	for i, arg := range args {
		switch {
		case strings.HasPrefix(arg, ":"):
			port, args[i] = arg, address
		case arg == data:
			args[i] = dir
		}
	}
	const secret = "an-s3-secret-for-a-test"
	process := exec.CommandContext(t.Context(), s3test.Program(), args...)
	for variable, value := range s3.Environment {
		process.Env = append(process.Env, variable+"="+interpolated(value, secret))
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = process.Process.Kill(); _ = process.Wait() }()
	for variable, value := range centre.Environment {
		if strings.HasPrefix(variable, "AWS_") {
			value = strings.Replace(interpolated(value, secret), "://s3"+port, "://"+address, 1)
			t.Setenv(variable, value)
		}
	}
	if at := os.Getenv("AWS_ENDPOINT_URL_S3"); at != "http://"+address {
		t.Fatalf("the centre looks for the service at %s", at)
	}
	health := "http://" + address + args[slices.Index(args, "--health")+1]
	for deadline := time.Now().Add(timeout); !well(t, health); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not answer", health)
		}
	}
	cfg := centre.config(t, func(string) {})
	if _, err := pack.Open(t.Context(), cfg.Centre.Bodies, "centre", 1<<20); err != nil {
		t.Error(err)
	}
}

// interpolated returns a value of compose.yaml with the secret in place of its variable.
func interpolated(value, secret string) string {
	return regexp.MustCompile(`\$\{S3_SECRET_KEY:\?[^}]*\}`).ReplaceAllString(value, secret)
}

func well(t *testing.T, url string) bool {
	t.Helper()
	request := must(http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}
