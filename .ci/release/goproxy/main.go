// Command goproxy writes the module at a checkout's last commit in the layout of a module proxy, so that "go install
// MODULE@VERSION" can be tried before the version is published: GOPROXY=file://DIR.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

func main() {
	root := flag.String("root", ".", "the checkout")
	dir := flag.String("dir", "", "where the proxy's files go")
	version := flag.String("version", "v0.0.0", "the version")
	flag.Parse()
	name, err := layOut(*root, *dir, *version)
	if err != nil {
		fmt.Fprintln(os.Stderr, "goproxy:", err)
		os.Exit(1)
	}
	fmt.Println(name)
}

// layOut writes the files of the version, and returns the argument for "go install".
func layOut(root, dir, version string) (string, error) {
	mod, err := exec.Command("git", "-C", root, "show", "HEAD:go.mod").Output()
	if err != nil {
		return "", fmt.Errorf("read go.mod of the last commit: %w", err)
	}
	m := module.Version{Path: modfile.ModulePath(mod), Version: version}
	versions := filepath.Join(dir, filepath.FromSlash(m.Path), "@v")
	if err := os.MkdirAll(versions, 0o755); err != nil {
		return "", err
	}
	info, err := json.Marshal(struct {
		Version string
		Time    time.Time
	}{version, time.Unix(0, 0).UTC()})
	if err != nil {
		return "", err
	}
	for name, text := range map[string][]byte{"list": []byte(version + "\n"), version + ".info": info, version + ".mod": mod} {
		if err := os.WriteFile(filepath.Join(versions, name), text, 0o644); err != nil {
			return "", err
		}
	}
	archive, err := os.Create(filepath.Join(versions, version+".zip"))
	if err != nil {
		return "", err
	}
	if err := zip.CreateFromVCS(archive, m, root, "HEAD", ""); err != nil {
		return "", err
	}
	return m.String(), archive.Close()
}
