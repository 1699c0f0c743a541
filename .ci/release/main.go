// Command release packages the binaries that "make release" has built: archives, a Homebrew formula, npm packages, deb
// and rpm, and an image as an OCI layout. Equal binaries and an equal version produce equal bytes.
package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/goreleaser/nfpm/v2"
	_ "github.com/goreleaser/nfpm/v2/deb"
	"github.com/goreleaser/nfpm/v2/files"
	_ "github.com/goreleaser/nfpm/v2/rpm"
)

// The names of the project in packages. A fork that publishes its own packages has to change only these.
const (
	summary    = "A memory proxy for language models: any client on any model, with everything on record and searchable"
	homepage   = "https://github.com/mnemeproxy/mneme" // releases are below it, as on GitHub
	maintainer = "mneme <security@mnemeproxy.example>" // for deb and rpm; a placeholder until there is an address
	npmName    = "mneme"                               // the package that people install
	npmScope   = "@mnemeproxy"                         // of the packages of platforms
	license    = "Apache-2.0"
)

// then is the modification time of every file in every package.
var then = time.Unix(0, 0).UTC()

// platform is one binary.
type platform struct{ os, arch string }

func (p platform) name() string { return p.os + "-" + p.arch }

// program is the name of the binary in packages.
func (p platform) program() string {
	if p.os == "windows" {
		return "mneme.exe"
	}
	return "mneme"
}

var platforms = []platform{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}, {"windows", "amd64"}, {"windows", "arm64"},
}

// release is what to build, and where.
type release struct {
	dir, root, version string
	platforms          []platform // with binaries
}

func main() {
	r := release{}
	flag.StringVar(&r.dir, "dir", "bin/release", "where the binaries are, and the packages go")
	flag.StringVar(&r.root, "root", ".", "the checkout")
	flag.StringVar(&r.version, "version", "", "the version, such as 0.9.0")
	flag.Parse()
	if err := r.run(); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func (r *release) run() error {
	r.version = strings.TrimPrefix(r.version, "v")
	if r.version == "" || strings.ContainsAny(r.version, " /") {
		return fmt.Errorf("the version is missing: -version 0.9.0")
	}
	if !released.MatchString(r.version) { // such as a commit: all package managers consider this older than any release
		r.version = "0.0.0-" + notInVersions.ReplaceAllString(r.version, "-")
	}
	if err := r.clear(); err != nil {
		return err
	}
	for _, p := range platforms {
		if _, err := os.Stat(r.binary(p)); err == nil {
			r.platforms = append(r.platforms, p)
		}
	}
	if len(r.platforms) == 0 {
		return fmt.Errorf("there are no binaries in %s; build them with: make release", r.dir)
	}
	for _, step := range []func() error{r.archives, r.npm, r.systemPackages, r.image, r.formula, r.checksums} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

var (
	released      = regexp.MustCompile(`^[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$`)
	notInVersions = regexp.MustCompile(`[^0-9A-Za-z.-]+`)
)

// clear removes packages of other versions, which would be in the checksums otherwise.
func (r *release) clear() error {
	for _, pattern := range []string{"mneme_*", "mneme-*.rpm", "npm-mneme-*.tgz"} {
		old, err := filepath.Glob(filepath.Join(r.dir, pattern))
		if err != nil {
			return err
		}
		for _, file := range old {
			if err := os.Remove(file); err != nil {
				return err
			}
		}
	}
	return nil
}

func (r *release) binary(p platform) string {
	name := filepath.Join(r.dir, "mneme-"+p.name())
	if p.os == "windows" {
		name += ".exe"
	}
	return name
}

// entry is a file in a package.
type entry struct {
	name string
	mode fs.FileMode
	text []byte
}

// entries returns the binary and its accompanying files, below a directory.
func (r *release) entries(p platform, dir string) ([]entry, error) {
	binary, err := os.ReadFile(r.binary(p))
	if err != nil {
		return nil, err
	}
	all := []entry{{dir + p.program(), 0o755, binary}}
	for _, name := range []string{"LICENSE", "README.md", "mneme.example.yaml"} {
		text, err := os.ReadFile(filepath.Join(r.root, name))
		if err != nil {
			return nil, err
		}
		all = append(all, entry{dir + name, 0o644, text})
	}
	return all, nil
}

func (r *release) archives() error {
	for _, p := range r.platforms {
		base := fmt.Sprintf("mneme_%s_%s_%s", r.version, p.os, p.arch)
		all, err := r.entries(p, base+"/")
		if err != nil {
			return err
		}
		name, write := base+".tar.gz", tarGz
		if p.os == "windows" {
			name, write = base+".zip", zipped
		}
		if err := r.put(name, all, write); err != nil {
			return err
		}
	}
	return nil
}

func (r *release) put(name string, all []entry, write func(io.Writer, []entry) error) error {
	var out bytes.Buffer
	if err := write(&out, all); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(r.dir, name), out.Bytes(), 0o644)
}

func tarred(w io.Writer, all []entry) error {
	t := tar.NewWriter(w)
	for _, e := range all {
		head := &tar.Header{Name: e.name, Mode: int64(e.mode), Size: int64(len(e.text)), ModTime: then, Format: tar.FormatUSTAR}
		if strings.HasSuffix(e.name, "/") {
			head.Typeflag = tar.TypeDir
		}
		if e.name == "data/" {
			head.Uid, head.Gid = nobody, nobody
		}
		if err := t.WriteHeader(head); err != nil {
			return err
		}
		if _, err := t.Write(e.text); err != nil {
			return err
		}
	}
	return t.Close()
}

func tarGz(w io.Writer, all []entry) error {
	z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
	if err != nil {
		return err
	}
	if err := tarred(z, all); err != nil {
		return err
	}
	return z.Close()
}

func zipped(w io.Writer, all []entry) error {
	z := zip.NewWriter(w)
	for _, e := range all {
		head := &zip.FileHeader{Name: e.name, Method: zip.Deflate}
		head.SetMode(e.mode)
		f, err := z.CreateHeader(head)
		if err != nil {
			return err
		}
		if _, err := f.Write(e.text); err != nil {
			return err
		}
	}
	return z.Close()
}

// launcher is the script that npx runs. It starts the binary of the platform's package, which npm has installed next to
// it.
const launcher = `#!/usr/bin/env node
"use strict";
const { spawn } = require("node:child_process");
const platform = process.platform === "win32" ? "windows" : process.platform;
const arch = process.arch === "x64" ? "amd64" : process.arch;
const file = platform === "windows" ? "mneme.exe" : "mneme";
let program;
try {
  program = require.resolve("` + npmScope + `/" + platform + "-" + arch + "/" + file);
} catch {
  console.error("mneme: there is no package for " + platform + "-" + arch + ", or npm was told to leave optional packages out");
  process.exit(1);
}
const child = spawn(program, process.argv.slice(2), { stdio: "inherit" });
for (const name of ["SIGINT", "SIGTERM", "SIGHUP"]) process.on(name, () => child.kill(name));
child.on("error", (error) => { console.error("mneme: " + error.message); process.exit(1); });
child.on("exit", (code, signal) => process.exit(signal ? 1 : code));
`

// npm builds one package per platform, and the one that people install, which names all of them as optional
// dependencies and gets the one for its platform.
func (r *release) npm() error {
	own := map[string]string{}
	for _, p := range r.platforms {
		name := npmScope + "/" + p.name()
		own[name] = r.version
		system, cpu := p.os, p.arch
		if system == "windows" {
			system = "win32"
		}
		if cpu == "amd64" {
			cpu = "x64"
		}
		binary, err := os.ReadFile(r.binary(p))
		if err != nil {
			return err
		}
		about := map[string]any{
			"name": name, "version": r.version, "description": summary + " (" + p.name() + ")", "license": license,
			"homepage": homepage, "os": []string{system}, "cpu": []string{cpu}, "files": []string{p.program()},
		}
		if err := r.npmPackage("mneme-"+p.name()+"-"+r.version+".tgz", about, entry{"package/" + p.program(), 0o755, binary}); err != nil {
			return err
		}
	}
	readme, err := os.ReadFile(filepath.Join(r.root, "README.md"))
	if err != nil {
		return err
	}
	return r.npmPackage("mneme-"+r.version+".tgz", map[string]any{
		"name": npmName, "version": r.version, "description": summary, "license": license, "homepage": homepage,
		"bin": map[string]string{"mneme": "mneme.js"}, "optionalDependencies": own, "engines": map[string]string{"node": ">=18"},
	}, entry{"package/mneme.js", 0o755, []byte(launcher)}, entry{"package/README.md", 0o644, readme})
}

func (r *release) npmPackage(file string, about map[string]any, all ...entry) error {
	text, err := json.MarshalIndent(about, "", "  ")
	if err != nil {
		return err
	}
	return r.put("npm-"+file, append([]entry{{"package/package.json", 0o644, append(text, '\n')}}, all...), tarGz)
}

// systemPackages builds packages for dpkg and rpm: the program, the example configuration, and a unit that is not
// started.
func (r *release) systemPackages() error {
	for _, p := range r.platforms {
		if p.os != "linux" {
			continue
		}
		file := func(from, to string, mode fs.FileMode, kind string) *files.Content {
			return &files.Content{Source: from, Destination: to, Type: kind, FileInfo: &files.ContentFileInfo{Mode: mode, MTime: then}}
		}
		for _, format := range []string{"deb", "rpm"} {
			info := nfpm.WithDefaults(&nfpm.Info{
				Name: "mneme", Version: r.version, Arch: p.arch, Platform: "linux", Maintainer: maintainer,
				Description: summary, Homepage: homepage, License: license, Section: "net", MTime: then,
				Overridables: nfpm.Overridables{Contents: files.Contents{
					file(r.binary(p), "/usr/bin/mneme", 0o755, ""),
					file(filepath.Join(r.root, "deploy/mneme.service"), "/usr/lib/systemd/system/mneme.service", 0o644, ""),
					file(filepath.Join(r.root, "mneme.example.yaml"), "/etc/mneme/mneme.yaml", 0o644, files.TypeConfigNoReplace),
					file(filepath.Join(r.root, "LICENSE"), "/usr/share/doc/mneme/LICENSE", 0o644, ""),
				}},
			})
			info.RPM.BuildHost = "localhost"
			packager, err := nfpm.Get(format)
			if err != nil {
				return err
			}
			if err := nfpm.PrepareForPackager(info, format); err != nil {
				return err
			}
			var out bytes.Buffer
			if err := packager.Package(info, &out); err != nil {
				return fmt.Errorf("%s: %w", format, err)
			}
			if err := os.WriteFile(filepath.Join(r.dir, packager.ConventionalFileName(info)), out.Bytes(), 0o644); err != nil {
				return err
			}
		}
	}
	return nil
}

// nobody is the user of the image, with the number of distroless images.
const nobody = 65532

// image builds an OCI layout of an image with only the program, for each architecture of Linux.
func (r *release) image() error {
	dir := filepath.Join(r.dir, "image")
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	index := mutate.IndexMediaType(empty.Index, types.OCIImageIndex)
	for _, p := range r.platforms {
		if p.os != "linux" {
			continue
		}
		binary, err := os.ReadFile(r.binary(p))
		if err != nil {
			return err
		}
		var layer bytes.Buffer
		if err := tarred(&layer, []entry{
			{"data/", 0o700, nil}, {"tmp/", 0o777, nil}, {"usr/bin/", 0o755, nil}, {"usr/bin/mneme", 0o755, binary},
		}); err != nil {
			return err
		}
		made, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(layer.Bytes())), nil },
			tarball.WithMediaType(types.OCILayer))
		if err != nil {
			return err
		}
		image := mutate.ConfigMediaType(mutate.MediaType(empty.Image, types.OCIManifestSchema1), types.OCIConfigJSON)
		if image, err = mutate.AppendLayers(image, made); err != nil {
			return err
		}
		if image, err = mutate.ConfigFile(image, r.config(image, p)); err != nil {
			return err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: image, Descriptor: v1.Descriptor{
			Platform: &v1.Platform{OS: p.os, Architecture: p.arch},
		}})
	}
	_, err := layout.Write(dir, index)
	return err
}

func (r *release) config(image v1.Image, p platform) *v1.ConfigFile {
	config, err := image.ConfigFile()
	if err != nil {
		config = &v1.ConfigFile{}
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = p.os, p.arch, v1.Time{Time: then}
	config.Config = v1.Config{
		User:       fmt.Sprintf("%d:%d", nobody, nobody),
		Entrypoint: []string{"/usr/bin/mneme"}, Cmd: []string{"serve"},
		Env:          []string{"PATH=/usr/bin", "MNEME_LISTEN=:7788", "MNEME_DATA=/data"},
		Healthcheck:  &v1.HealthConfig{Test: []string{"CMD", "/usr/bin/mneme", "status"}, Interval: 30 * time.Second, Timeout: 5 * time.Second},
		ExposedPorts: map[string]struct{}{"7788/tcp": {}}, Volumes: map[string]struct{}{"/data": {}},
		Labels: map[string]string{
			"org.opencontainers.image.title": "mneme", "org.opencontainers.image.version": r.version,
			"org.opencontainers.image.licenses": license, "org.opencontainers.image.source": homepage,
		},
	}
	return config
}

// formula builds the formula for a Homebrew tap.
func (r *release) formula() error {
	var b strings.Builder
	fmt.Fprintf(&b, "class Mneme < Formula\n  desc \"Memory proxy for language models\"\n  homepage %q\n  version %q\n  license %q\n", homepage, r.version, license)
	for _, system := range []struct{ block, os string }{{"macos", "darwin"}, {"linux", "linux"}} {
		fmt.Fprintf(&b, "\n  on_%s do\n", system.block)
		for _, cpu := range []struct{ block, arch string }{{"intel", "amd64"}, {"arm", "arm64"}} {
			name := fmt.Sprintf("mneme_%s_%s_%s.tar.gz", r.version, system.os, cpu.arch)
			if !slices.Contains(r.platforms, platform{system.os, cpu.arch}) {
				continue
			}
			sum, err := sumOf(filepath.Join(r.dir, name))
			if err != nil {
				return err
			}
			fmt.Fprintf(&b, "    on_%s do\n      url \"%s/releases/download/v%s/%s\"\n      sha256 %q\n    end\n", cpu.block, homepage, r.version, name, sum)
		}
		b.WriteString("  end\n")
	}
	b.WriteString("\n  def install\n    bin.install \"mneme\"\n    generate_completions_from_executable(bin/\"mneme\", \"completion\")\n" +
		"    (man1/\"mneme.1\").write Utils.safe_popen_read(bin/\"mneme\", \"man\")\n  end\n\n" +
		"  service do\n    run [opt_bin/\"mneme\", \"serve\", \"--quiet\"]\n    keep_alive crashed: true\n  end\n\n" +
		"  test do\n    assert_match version.to_s, shell_output(\"#{bin}/mneme --version\")\n  end\nend\n")
	return os.WriteFile(filepath.Join(r.dir, "mneme.rb"), []byte(b.String()), 0o644)
}

func sumOf(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}

// checksums lists every file of the release, in the form that sha256sum -c reads.
func (r *release) checksums() error {
	var lines []string
	err := filepath.WalkDir(r.dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "SHA256SUMS" {
			return err
		}
		name, err := filepath.Rel(r.dir, path)
		if err != nil {
			return err
		}
		sum, err := sumOf(path)
		lines = append(lines, sum+"  "+filepath.ToSlash(name)+"\n")
		return err
	})
	if err != nil {
		return err
	}
	slices.SortFunc(lines, func(a, b string) int { return strings.Compare(a[64:], b[64:]) })
	return os.WriteFile(filepath.Join(r.dir, "SHA256SUMS"), []byte(strings.Join(lines, "")), 0o644)
}
