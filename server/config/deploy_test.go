package config

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/template"

	"go.yaml.in/yaml/v3"
)

const deploy = "../../deploy"

// object is a manifest, as far as these tests read it.
type object struct {
	Kind string
	Data map[string]string
	Spec struct {
		Ports    []struct{ Name string }
		Template struct {
			Spec struct {
				Containers   []container
				NodeSelector map[string]string `yaml:"nodeSelector"`
			}
		}
		Endpoints []struct{ Port, Path string }
	}
}

type container struct {
	Image   string
	Args    []string
	Env     []struct{ Name, Value string }
	EnvFrom []struct {
		SecretRef struct{ Name string } `yaml:"secretRef"`
	} `yaml:"envFrom"`
	Liveness  probe `yaml:"livenessProbe"`
	Readiness probe `yaml:"readinessProbe"`
	Startup   probe `yaml:"startupProbe"`
}

type probe struct {
	Get struct{ Path, Port string } `yaml:"httpGet"`
}

func objects(t *testing.T, text []byte) map[string]object {
	t.Helper()
	found := map[string]object{}
	for decoder := yaml.NewDecoder(bytes.NewReader(text)); ; {
		var o object
		err := decoder.Decode(&o)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if o.Kind != "" {
			found[o.Kind] = o
		}
	}
}

// render fills the chart's templates in with the functions of Helm that they use.
func render(t *testing.T, set map[string]any) []byte {
	t.Helper()
	chart := map[string]any{}
	values := map[string]any{}
	for file, into := range map[string]any{"Chart.yaml": &chart, "values.yaml": &values} {
		if err := yaml.Unmarshal(readDeploy(t, "helm/mneme/"+file), into); err != nil {
			t.Fatal(err)
		}
	}
	maps.Copy(values, set)
	functions := template.FuncMap{
		"fail": func(why string) (string, error) { return "", errors.New(why) },
		"toYaml": func(v any) (string, error) {
			text, err := yaml.Marshal(v)
			return strings.TrimSuffix(string(text), "\n"), err
		},
		"nindent": func(n int, text string) string {
			indent := "\n" + strings.Repeat(" ", n)
			return indent + strings.ReplaceAll(text, "\n", indent)
		},
		"quote": func(v any) string { return fmt.Sprintf("%q", v) },
		"list":  func(all ...any) []any { return all },
		"ternary": func(yes, no any, test bool) any {
			if test {
				return yes
			}
			return no
		},
		"default": func(otherwise, v any) any {
			if v == nil || v == "" {
				return otherwise
			}
			return v
		},
	}
	files, err := filepath.Glob(filepath.Join(deploy, "helm", "mneme", "templates", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("templates: %v, %v", files, err)
	}
	var out bytes.Buffer
	for _, file := range files {
		made, err := template.New(filepath.Base(file)).Option("missingkey=error").Funcs(functions).ParseFiles(file)
		if err != nil {
			t.Fatal(err)
		}
		out.WriteString("---\n")
		if err := made.Execute(&out, map[string]any{
			"Values": values, "Release": map[string]any{"Name": "memory"}, "Chart": map[string]any{"AppVersion": chart["appVersion"]},
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out.Bytes()
}

func readDeploy(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deploy, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func TestTheChartIsWhatTheManifestsAre(t *testing.T) {
	chart, manifests := objects(t, render(t, nil)), objects(t, readDeploy(t, "kubernetes.yaml"))
	if want := []string{"ConfigMap", "Service", "StatefulSet"}; !slices.Equal(slices.Sorted(maps.Keys(chart)), want) {
		t.Fatalf("the chart makes %v", slices.Sorted(maps.Keys(chart)))
	}
	made, written := chart["StatefulSet"].Spec.Template.Spec.Containers[0], manifests["StatefulSet"].Spec.Template.Spec.Containers[0]
	if made.Image != "mneme:latest" || made.EnvFrom[0].SecretRef.Name != "mneme" || !slices.Equal(made.Env, written.Env) {
		t.Errorf("the container is %+v", made)
	}
	for what, probes := range map[string][2]probe{
		"liveness":  {made.Liveness, written.Liveness},
		"readiness": {made.Readiness, written.Readiness},
		"startup":   {made.Startup, written.Startup},
	} {
		if probes[0] != probes[1] || probes[0].Get.Path == "" {
			t.Errorf("%s: %+v, want %+v", what, probes[0], probes[1])
		}
	}
	for name, all := range map[string]map[string]object{"chart": chart, "manifests": manifests} {
		file := filepath.Join(t.TempDir(), "mneme.yaml")
		if err := os.WriteFile(file, []byte(all["ConfigMap"].Data["mneme.yaml"]), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := Load(Sources{File: file, LookupEnv: func(string) (string, bool) { return "", false }})
		if err != nil || cfg.Admin.Listen != ":7789" {
			t.Errorf("%s: the configuration: %+v, %v", name, cfg.Admin, err)
		}
	}
}

func TestTheChartTakesWhatPeopleSet(t *testing.T) {
	chart := objects(t, render(t, map[string]any{
		"serviceMonitor": map[string]any{"enabled": true, "interval": "10s", "keySecret": map[string]any{"name": "other", "key": "KEY"}},
		"storage":        map[string]any{"size": "1Ti", "className": "fast"},
		"image":          map[string]any{"repository": "registry.example/mneme", "tag": "1.2.3", "pullPolicy": "Always"},
		"nodeSelector":   map[string]any{"disk": "nvme"},
		"config":         map[string]any{"listen": ":7788", "capture": map[string]any{"mode": "off"}},
	}))
	pod := chart["StatefulSet"].Spec.Template.Spec
	if pod.Containers[0].Image != "registry.example/mneme:1.2.3" || pod.NodeSelector["disk"] != "nvme" {
		t.Errorf("the pod is %+v", pod)
	}
	monitor := chart["ServiceMonitor"].Spec.Endpoints
	if len(monitor) != 1 || !slices.ContainsFunc(chart["Service"].Spec.Ports, func(p struct{ Name string }) bool { return p.Name == monitor[0].Port }) {
		t.Errorf("the monitor looks at %+v", monitor)
	}
	if !strings.Contains(chart["ConfigMap"].Data["mneme.yaml"], "mode: off") && !strings.Contains(chart["ConfigMap"].Data["mneme.yaml"], `mode: "off"`) {
		t.Errorf("the configuration is %s", chart["ConfigMap"].Data["mneme.yaml"])
	}
}

func TestTheComposeFileHasAHealthCheckAndKeepsData(t *testing.T) {
	var file struct {
		Services map[string]struct {
			Healthcheck struct{ Test []string }
			Volumes     []string
			ReadOnly    bool `yaml:"read_only"`
			Ports       []string
		}
		Volumes map[string]any
	}
	decoder := yaml.NewDecoder(bytes.NewReader(readDeploy(t, "compose.yaml")))
	if err := decoder.Decode(&file); err != nil {
		t.Fatal(err)
	}
	mneme := file.Services["mneme"]
	if !slices.Equal(mneme.Healthcheck.Test, []string{"CMD", "/mneme", "status"}) || !mneme.ReadOnly {
		t.Errorf("the service is %+v", mneme)
	}
	if _, kept := file.Volumes["data"]; !kept || !slices.Equal(mneme.Volumes, []string{"data:/data"}) {
		t.Errorf("volumes: %v, %v", file.Volumes, mneme.Volumes)
	}
	for _, port := range mneme.Ports {
		if !strings.HasPrefix(port, "127.0.0.1:") {
			t.Errorf("port %s is open to others", port)
		}
	}
}
