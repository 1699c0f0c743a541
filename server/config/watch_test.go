package config

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// The ways in which editors, deployments and Kubernetes change a file.
func TestAWatchNoticesHoweverAFileIsChanged(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, dir, file string){
		"written in place": func(t *testing.T, _, file string) { write(t, file, "listen: 127.0.0.1:1\n") },
		"another put in its place": func(t *testing.T, dir, file string) {
			write(t, filepath.Join(dir, "fresh"), "data: new \n") // of the same size
			if err := os.Rename(filepath.Join(dir, "fresh"), file); err != nil {
				t.Fatal(err)
			}
		},
		"taken away": func(t *testing.T, _, file string) {
			if err := os.Remove(file); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "mneme.yaml")
			write(t, file, "data: old \n")
			w := NewWatch(file, "")
			quiet(t, w)
			change(t, dir, file)
			noticedOnce(t, w)
		})
	}
}

// A mounted ConfigMap is a link to a link to a directory, and the link between is turned to another one.
func TestAWatchFollowsLinksThatAreTurned(t *testing.T) {
	dir := t.TempDir()
	link := func(to, name string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, generation := range []string{"first", "second"} {
		if err := os.Mkdir(filepath.Join(dir, generation), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, generation, "mneme.yaml"), "data: same\n")
	}
	link("first", "..data")
	link("..data/mneme.yaml", "mneme.yaml")
	w := NewWatch(filepath.Join(dir, "mneme.yaml"))
	link("second", "..data_tmp")
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	noticedOnce(t, w)
}

func TestAWatchWaitsUntilAFileIsWritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "mneme.yaml")
	write(t, file, "data: old\n")
	w := NewWatch(file)
	text := "data: "
	for range 5 {
		write(t, file, text)
		if w.Changed() {
			t.Fatal("a file was taken while it was being written")
		}
		text += "x"
	}
	if !w.Changed() {
		t.Error("the file was not taken when it was written")
	}
}

// The configuration is read between Take and Follow.
func TestAChangeWhileTheFilesAreReadIsNoticed(t *testing.T) {
	dir := t.TempDir()
	file, named := filepath.Join(dir, "mneme.yaml"), filepath.Join(dir, "models.yaml")
	write(t, file, "data: old\n")
	write(t, named, "models: {}\n")
	w := NewWatch(file)
	w.Take()
	write(t, file, "data: newer\n")
	w.Follow(file, named)
	if !w.Changed() {
		t.Error("the change was not noticed")
	}
	quiet(t, w)
	write(t, named, "models: {a: b}\n")
	noticedOnce(t, w)
}

func noticedOnce(t *testing.T, w *Watch) {
	t.Helper()
	if w.Changed() {
		t.Error("the change was taken at the first look")
	}
	if !w.Changed() {
		t.Error("the change was not noticed")
	}
	quiet(t, w)
}

// quiet fails when a change is noticed.
func quiet(t *testing.T, w *Watch) {
	t.Helper()
	for range 3 {
		if w.Changed() {
			t.Error("a change was noticed where there is none")
		}
	}
}
