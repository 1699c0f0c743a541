package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/template"

	"github.com/nats-io/nats-server/v2/server"
	"go.yaml.in/yaml/v3"

	"github.com/mnemeproxy/mneme/server/config"
)

const chart = "../../deploy/helm/mneme"

// manifest has the checked parts of a manifest of the chart.
type manifest struct {
	Kind     string
	Metadata struct{ Name string }
	Data     map[string]string
	Spec     struct {
		Replicas int
		Ordinals struct{ Start int }
		Selector any
		Template struct {
			Spec struct{ Containers []container }
		}
	}
}

type container struct {
	Args    []string
	Env     []variable
	EnvFrom []struct {
		SecretRef struct{ Name string } `yaml:"secretRef"`
	} `yaml:"envFrom"`
	Ports        []port
	Liveness     probe `yaml:"livenessProbe"`
	Readiness    probe `yaml:"readinessProbe"`
	VolumeMounts []struct {
		Path string `yaml:"mountPath"`
	} `yaml:"volumeMounts"`
}

type port struct {
	Name   string
	Number int `yaml:"containerPort"`
}

type probe struct {
	Get struct{ Path, Port string } `yaml:"httpGet"`
}

type variable struct {
	Name, Value string
	From        struct {
		Field struct {
			Path string `yaml:"fieldPath"`
		} `yaml:"fieldRef"`
	} `yaml:"valueFrom"`
}

// render returns the manifests of the chart as release m, by kind and name. It implements the functions of Helm that
// the chart uses.
func render(t *testing.T, change func(cluster map[string]any)) map[string]manifest {
	t.Helper()
	var values map[string]any
	if err := yaml.Unmarshal([]byte(read(t, filepath.Join(chart, "values.yaml"))), &values); err != nil {
		t.Fatal(err)
	}
	change(values["cluster"].(map[string]any))
	functions := template.FuncMap{
		"fail": func(why string) (string, error) { return "", errors.New(why) },
		"toYaml": func(v any) (string, error) {
			text, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"nindent": func(n int, text string) string {
			pad := "\n" + strings.Repeat(" ", n)
			return pad + strings.ReplaceAll(text, "\n", pad)
		},
		"default": func(otherwise, v string) string {
			if v == "" {
				return otherwise
			}
			return v
		},
		"ternary": func(yes, no any, which bool) any {
			if which {
				return yes
			}
			return no
		},
		"quote": strconv.Quote,
		"list":  func(v ...any) []any { return v },
	}
	made := map[string]manifest{}
	for _, file := range must(filepath.Glob(filepath.Join(chart, "templates", "*.yaml"))) {
		var out bytes.Buffer
		err := template.Must(template.New(file).Funcs(functions).Parse(read(t, file))).Execute(&out, map[string]any{
			"Values": values, "Release": map[string]any{"Name": "m"}, "Chart": map[string]any{"AppVersion": "latest"},
		})
		if err != nil {
			t.Fatal(err)
		}
		for documents := yaml.NewDecoder(&out); ; {
			var m manifest
			err := documents.Decode(&m)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatalf("%s: %v", file, err)
			}
			if m.Kind != "" {
				made[m.Kind+" "+m.Metadata.Name] = m
			}
		}
	}
	return made
}

// configured returns the configuration of a pod.
func configured(t *testing.T, text, node string) config.Config {
	t.Helper()
	file := filepath.Join(t.TempDir(), "mneme.yaml")
	write(t, file, text)
	cfg, err := config.Load(config.Sources{File: file, LookupEnv: func(variable string) (string, bool) {
		if variable == "MNEME_NODE" && node != "" {
			return node, true
		}
		return "", false // keys, which are in a secret
	}})
	if err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	return cfg
}

func TestTheChartRunsOneServerWithoutACluster(t *testing.T) {
	made := render(t, func(map[string]any) {})
	if len(made) != 3 {
		t.Errorf("it makes %d things, want a configuration, a service and a set", len(made))
	}
	c := made["StatefulSet m"].Spec.Template.Spec.Containers[0]
	parses(t, c.Args...)
	if c.Args[0] != "serve" || len(c.EnvFrom) != 1 {
		t.Errorf("it runs %v with %v", c.Args, c.EnvFrom)
	}
	if cfg := configured(t, made["ConfigMap m"].Data["mneme.yaml"], ""); len(cfg.Cluster.NATS) > 0 {
		t.Errorf("it asks %v", cfg.Cluster.NATS)
	}
}

func TestTheNodesOfTheChartAgreeOnTheirBrokersAndShareNoNumber(t *testing.T) {
	made := render(t, func(cluster map[string]any) {
		cluster["enabled"], cluster["edges"], cluster["centres"], cluster["centreSecret"] = true, 3, 2, "of-the-centre"
		cluster["settings"] = map[string]any{"commit": "quorum"}
		cluster["centre"] = map[string]any{"postgres": "postgres://mneme@db/mneme", "bodies": "s3://memory"}
	})
	replicas := made["StatefulSet m-nats"].Spec.Replicas
	numbers := map[config.Count]string{}
	for _, set := range []string{"m", "m-edge"} {
		s := made["StatefulSet "+set]
		c := s.Spec.Template.Spec.Containers[0]
		parses(t, c.Args...)
		edge := set == "m-edge"
		if edge != slices.Contains(c.Args, "--edge") || !edge && c.Args[0] != "centre" {
			t.Errorf("%s runs %v", set, c.Args)
		}
		secrets := fmt.Sprint(c.EnvFrom)
		if strings.Contains(secrets, "of-the-centre") == edge || !strings.Contains(secrets, "mneme") {
			t.Errorf("%s has the secrets %v", set, secrets)
		}
		number := c.Env[slices.IndexFunc(c.Env, func(v variable) bool { return v.Name == "MNEME_NODE" })]
		if edge && number.From.Field.Path != "metadata.labels['apps.kubernetes.io/pod-index']" {
			t.Errorf("an edge's number comes from %+v", number)
		}
		for n := range s.Spec.Replicas {
			node := number.Value
			if node = strings.ReplaceAll(node, "$(POD_INDEX)", strconv.Itoa(n)); edge {
				node = strconv.Itoa(s.Spec.Ordinals.Start + n)
			}
			cfg := configured(t, made["ConfigMap m"].Data["mneme.yaml"], node)
			if other, taken := numbers[cfg.Cluster.Node]; taken || cfg.Cluster.Node == 0 {
				t.Errorf("%s has the number %d, and so has %q", set, cfg.Cluster.Node, other)
			}
			numbers[cfg.Cluster.Node] = set
			if !slices.Equal(cfg.Cluster.NATS, brokersOf("m", replicas, 4222)) || int(cfg.Cluster.Replicas) != replicas {
				t.Errorf("%s asks %v, which are to hold everything %d times", set, cfg.Cluster.NATS, cfg.Cluster.Replicas)
			}
			if cfg.Cluster.Centre != "http://m:80" {
				t.Errorf("%s asks %s for the memory", set, cfg.Cluster.Centre)
			}
			if cfg.Cluster.Commit != "quorum" || cfg.Centre.Postgres.Reveal() != "postgres://mneme@db/mneme" || cfg.Centre.Bodies != "s3://memory" {
				t.Errorf("%s is configured otherwise: %+v, %+v", set, cfg.Cluster, cfg.Centre)
			}
		}
	}
	if len(numbers) != 5 {
		t.Errorf("the nodes are %v", numbers)
	}
	server, edges := fmt.Sprint(made["Service m"].Spec.Selector), fmt.Sprint(made["Service m-edge"].Spec.Selector)
	if server == edges || !strings.Contains(edges, "mneme-edge") {
		t.Errorf("clients that go to the edges reach %s", edges)
	}
}

// brokersOf returns the URLs of a release's brokers.
func brokersOf(release string, replicas, port int) (urls []string) {
	for n := range replicas {
		urls = append(urls, fmt.Sprintf("nats://%s-nats-%d.%s-nats:%d", release, n, release, port))
	}
	return urls
}

func TestTheBrokersOfTheChartFindEachOtherAndSyncWhatTheyConfirm(t *testing.T) {
	made := render(t, func(cluster map[string]any) {
		cluster["enabled"], cluster["centre"] = true, map[string]any{"postgres": "postgres://mneme@db/mneme"}
	})
	file := filepath.Join(t.TempDir(), "nats.conf")
	write(t, file, made["ConfigMap m-nats"].Data["nats.conf"])
	broker, err := server.ProcessConfigFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var routes []string
	for _, url := range broker.Routes {
		routes = append(routes, url.String())
	}
	set := made["StatefulSet m-nats"].Spec
	if set.Replicas != brokers || !slices.Equal(routes, brokersOf("m", set.Replicas, broker.Cluster.Port)) {
		t.Errorf("%d brokers go to %v", set.Replicas, routes)
	}
	mounted := set.Template.Spec.Containers[0].VolumeMounts[0].Path
	if !broker.JetStream || !broker.SyncAlways || broker.StoreDir != mounted || broker.Port != 4222 {
		t.Errorf("they keep what they confirm: %v, synced: %v, in %s of %s", broker.JetStream, broker.SyncAlways, broker.StoreDir, mounted)
	}
	if _, there := made["Service m-nats"]; !there {
		t.Error("there is no service by which they are found")
	}
}

func TestTheChartUsesBrokersThatAreThere(t *testing.T) {
	made := render(t, func(cluster map[string]any) {
		cluster["enabled"], cluster["nats"] = true, []any{"tls://nats.example.com:4222"}
		cluster["centre"] = map[string]any{"postgres": "postgres://mneme@db/mneme"}
	})
	if _, there := made["StatefulSet m-nats"]; there {
		t.Error("it runs brokers all the same")
	}
	cfg := configured(t, made["ConfigMap m"].Data["mneme.yaml"], "1")
	if !slices.Equal(cfg.Cluster.NATS, []string{"tls://nats.example.com:4222"}) {
		t.Errorf("nodes ask %v", cfg.Cluster.NATS)
	}
}

func TestTheWorkersOfTheChartAreProbedWhereTheyListen(t *testing.T) {
	made := render(t, func(cluster map[string]any) {
		cluster["enabled"], cluster["workers"], cluster["centreSecret"] = true, 3, "of-the-centre"
		cluster["centre"] = map[string]any{"postgres": "postgres://mneme@db/mneme"}
	})
	set := made["Deployment m-worker"].Spec
	if set.Replicas != 3 {
		t.Fatalf("there are %d workers", set.Replicas)
	}
	c := set.Template.Spec.Containers[0]
	parses(t, c.Args...)
	if !slices.Equal(c.Args, []string{"centre", "--worker", "--listen", ":7789"}) || len(c.Ports) != 1 || c.Ports[0] != (port{"admin", 7789}) {
		t.Errorf("it runs %v with the ports %v", c.Args, c.Ports)
	}
	for want, probed := range map[string]probe{"/healthz": c.Liveness, "/readyz": c.Readiness} {
		if probed.Get.Path != want || probed.Get.Port != "admin" {
			t.Errorf("a probe asks %+v, want %s", probed.Get, want)
		}
	}
	if secrets := fmt.Sprint(c.EnvFrom); !strings.Contains(secrets, "of-the-centre") || !strings.Contains(secrets, "mneme") {
		t.Errorf("it has the secrets %v", secrets)
	}
	node := c.Env[slices.IndexFunc(c.Env, func(v variable) bool { return v.Name == "MNEME_NODE" })].Value
	if cfg := configured(t, made["ConfigMap m"].Data["mneme.yaml"], node); cfg.Centre.Postgres.Reveal() != "postgres://mneme@db/mneme" {
		t.Errorf("its memory is %q", cfg.Centre.Postgres.Reveal())
	}
	if fmt.Sprint(made["Service m-worker"].Spec.Selector) != fmt.Sprint(map[string]any{"app.kubernetes.io/instance": "m", "app.kubernetes.io/name": "mneme-worker"}) {
		t.Errorf("metrics are looked for at %v", made["Service m-worker"].Spec.Selector)
	}
}
