package main

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v3"

	"github.com/mnemeproxy/mneme/server/config"
)

const composed = "../../deploy/cluster"

// The set of containers is what the command starts as processes.
func TestTheContainersAreTheNodesOfTheCommand(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Command     []string
			Environment map[string]string
			Volumes     []string
		}
		Volumes map[string]any
	}
	text, err := os.ReadFile(filepath.Join(composed, "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &file); err != nil {
		t.Fatal(err)
	}
	var asked []string // of the brokers, by the nodes
	numbers := map[config.Count]string{}
	for name, service := range file.Services {
		if volume, _, _ := strings.Cut(service.Volumes[0], ":"); volume != name {
			t.Errorf("%s keeps its data in %s", name, volume)
		}
		if _, kept := file.Volumes[name]; !kept {
			t.Errorf("there is no volume for %s", name)
		}
		if strings.HasPrefix(name, "nats-") || name == "postgres" {
			continue
		}
		cfg, err := config.Load(config.Sources{File: filepath.Join(composed, "mneme.yaml"), LookupEnv: func(variable string) (string, bool) {
			if variable != "MNEME_NODE" {
				return "", false // keys, which are made with the first start
			}
			return service.Environment[variable], true
		}})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if other, taken := numbers[cfg.Cluster.Node]; taken {
			t.Errorf("%s has the number of %s", name, other)
		}
		numbers[cfg.Cluster.Node] = name
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
	if len(numbers) != 3 {
		t.Errorf("the nodes are %v", numbers)
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
