package config

import (
	"os"
	"path/filepath"
	"testing"
)

func lookupIn(values map[string]string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
}

func TestTheHomeOfTheDataFollowsTheSystemsCustom(t *testing.T) {
	for _, c := range []struct {
		name, system, want string
		env                map[string]string
	}{
		{"XDG", "linux", "/x/mneme", map[string]string{"HOME": "/home/a", "XDG_DATA_HOME": "/x"}},
		{"the default of XDG", "linux", "/home/a/.local/share/mneme", map[string]string{"HOME": "/home/a"}},
		{"XDG demands whole paths", "linux", "/home/a/.local/share/mneme", map[string]string{"HOME": "/home/a", "XDG_DATA_HOME": "x"}},
		{"macOS", "darwin", "/Users/a/Library/Application Support/mneme/data", map[string]string{"HOME": "/Users/a"}},
		{"no user", "linux", "", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := dataHome(c.system, lookupIn(c.env)); got != c.want {
				t.Errorf("%q, not %q", got, c.want)
			}
		})
	}
}

func TestAStoreInTheDirectoryIsStillFound(t *testing.T) {
	t.Chdir(t.TempDir())
	env := lookupIn(map[string]string{"HOME": "/home/a"})
	home := "/home/a/.local/share/mneme"
	load := func() string {
		t.Helper()
		cfg, err := Load(Sources{LookupEnv: env})
		if err != nil {
			t.Fatal(err)
		}
		return cfg.Data
	}
	if got := load(); got != home {
		t.Errorf("without any data: %q", got)
	}
	if err := os.Mkdir(DefaultData, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := load(); got != home {
		t.Errorf("with a directory that is no store: %q", got)
	}
	if err := os.Mkdir(filepath.Join(DefaultData, "badger"), 0o700); err != nil {
		t.Fatal(err)
	}
	if got := load(); got != DefaultData {
		t.Errorf("with a store: %q", got)
	}
}

func TestTheUsersConfigurationFileIsReadWhereNoneIsNamed(t *testing.T) {
	home := t.TempDir()
	file := filepath.Join(home, "mneme", "mneme.yaml")
	if err := os.Mkdir(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"XDG_CONFIG_HOME": home}
	if got := FileName(Sources{LookupEnv: lookupIn(env)}); got != "" {
		t.Errorf("a file that is not there is read: %q", got)
	}
	if err := os.WriteFile(file, []byte("listen: 127.0.0.1:9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := Load(Sources{LookupEnv: lookupIn(env)})
	if err != nil || cfg.Listen[0] != "127.0.0.1:9" {
		t.Errorf("%v, %v", cfg.Listen, err)
	}
	env[EnvConfig] = "other.yaml"
	if got := FileName(Sources{LookupEnv: lookupIn(env)}); got != "other.yaml" {
		t.Errorf("a file that is named gives way: %q", got)
	}
}
