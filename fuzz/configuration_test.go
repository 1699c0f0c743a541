package fuzz_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/fuzz/mutant"
	"github.com/mnemeproxy/mneme/server/config"
)

// FuzzConfiguration loads any file. The error of an invalid file says where it is wrong and never quotes a secret; a
// valid file gives the same result when it is loaded again.
func FuzzConfiguration(f *testing.F) {
	for _, seed := range []string{
		"listen: 127.0.0.1:0\n", "limits:\n  body_bytes: 1MiB\ntimeouts: {read: 1m}\n",
		"providers:\n  anthropic:\n    api_key: ${SECRET}\nroutes:\n- prefix: ${SECRET}\n  provider: anthropic\n",
		"capture: {mode: off, opt_out: [a]}\n", "a: &a [*a]\n", "limits: &a {body_bytes: *a}\nroutes: [null, {}]\n? [x]\n: y\n", "listen: ${MISSING}\n", "x: !!binary AA==\n", "- 1\n", "\t", "listen: $${SECRET}\n",
	} {
		f.Add(seed)
	}
	if example, err := os.ReadFile("../mneme.example.yaml"); err == nil {
		f.Add(string(example))
		f.Add(strings.ReplaceAll(string(example), "\n#", "\n"))
	}
	const secret = "sk-ant-the-secret-of-this-test"
	lookup := func(name string) (string, bool) {
		switch name {
		case "SECRET", "ANTHROPIC_API_KEY":
			return secret, true
		}
		return "", false
	}
	file := filepath.Join(f.TempDir(), "mneme.yaml")
	f.Fuzz(mutant.Each(50, func(t *testing.T, text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		load := func() string {
			_, err := config.Load(config.Sources{File: file, LookupEnv: lookup})
			if err == nil {
				return ""
			}
			var problems config.Problems
			if !errors.As(err, &problems) || len(problems) == 0 {
				t.Fatalf("%q: no list of problems: %v", text, err)
			}
			for _, problem := range problems {
				if problem.Message == "" || problem.Source == "" || problem.Line < 0 || problem.Line > linesOfYAML(text) {
					t.Fatalf("%q: %+v", text, problem)
				}
			}
			if strings.Contains(err.Error(), secret) && !strings.Contains(text, secret) {
				t.Fatalf("%q: the secret is in %v", text, err)
			}
			return err.Error()
		}
		if first, again := load(), load(); first != again {
			t.Fatalf("%q: %q, and then %q", text, first, again)
		}
	}))
}

// linesOfYAML counts lines as YAML 1.1 breaks them.
func linesOfYAML(text string) int {
	return 1 + len(text) - len(strings.NewReplacer("\n", "", "\r", "", "\u0085", "", "\u2028", "", "\u2029", "").Replace(text))
}
