package ui

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/base64"
	"encoding/hex"
	"io/fs"
	"net/http"
	"path"
	"slices"
	"strings"
	"sync"
)

// The page and its libraries, as they are served: no build step and nothing fetched. vendor/manifest.json has the
// origin of each library file.
//
//go:embed page vendor
var files embed.FS

// asset is one file as it is sent.
type asset struct {
	kind   string // content type
	plain  []byte
	packed []byte // gzip
}

// assets are all files of the page, below a path that changes with any of them: browsers may cache them forever.
type assets struct {
	root   string // "/ui/assets/HASH/"
	byPath map[string]asset
	index  asset
	policy string // Content-Security-Policy
}

var kinds = map[string]string{
	".js": "text/javascript; charset=utf-8", ".mjs": "text/javascript; charset=utf-8",
	".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".html": "text/html; charset=utf-8",
}

// page returns the assets. They are read and compressed when they are first asked for, which takes 13 ms.
var page = sync.OnceValue(newAssets)

// newAssets reads the embedded files. It panics if they are invalid, which only a wrong build can cause.
func newAssets() *assets {
	a := &assets{byPath: make(map[string]asset)}
	hash := sha256.New()
	must(fs.WalkDir(files, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || kinds[path.Ext(name)] == "" {
			return err
		}
		data, err := files.ReadFile(name)
		hash.Write([]byte(name))
		hash.Write(data)
		a.byPath[name] = newAsset(name, data)
		return err
	}))
	a.root = "/ui/assets/" + hex.EncodeToString(hash.Sum(nil)[:8]) + "/"
	index := bytes.ReplaceAll(a.byPath["page/index.html"].plain, []byte("{{root}}"), []byte(a.root))
	delete(a.byPath, "page/index.html")
	index = bytes.Replace(index, []byte("{{modules}}"), a.preloads(), 1)
	a.index = newAsset("index.html", index)
	a.policy = "default-src 'none'; script-src 'self' '" + importMapHash(index) + "'; style-src 'self'; connect-src 'self'; " +
		"img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
	return a
}

// preloads are links to all modules, so that a browser does not ask for one after it has read another.
func (a *assets) preloads() []byte {
	var links []string
	for name := range a.byPath {
		if kinds[path.Ext(name)] == kinds[".js"] && !strings.HasSuffix(name, ".min.js") {
			links = append(links, `<link rel="modulepreload" href="`+a.root+name+`">`)
		}
	}
	slices.Sort(links)
	return []byte(strings.Join(links, "\n"))
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}

func newAsset(name string, data []byte) asset {
	var packed bytes.Buffer
	w, err := gzip.NewWriterLevel(&packed, gzip.BestCompression)
	must(err)
	_, err = w.Write(data)
	must(err)
	must(w.Close())
	return asset{kind: kinds[path.Ext(name)], plain: data, packed: packed.Bytes()}
}

// importMapHash returns the hash that allows the page's one inline element: the map from library names to files, which
// browsers accept only inline.
func importMapHash(index []byte) string {
	_, rest, _ := bytes.Cut(index, []byte(`<script type="importmap">`))
	text, _, _ := bytes.Cut(rest, []byte("</script>"))
	sum := sha256.Sum256(text)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

// serve sends one of the files; it returns false if there is none.
func (a *assets) serve(w http.ResponseWriter, r *http.Request) bool {
	name, below := strings.CutPrefix(r.URL.Path, a.root)
	file, there := a.byPath[name]
	if !below || !there {
		return false
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	file.send(w, r)
	return true
}

// serveIndex sends the page itself for any path: the page reads the path.
func (a *assets) serveIndex(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	a.index.send(w, r)
}

func (f *asset) send(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", f.kind)
	w.Header().Set("Vary", "Accept-Encoding")
	body := f.plain
	accepted := strings.Split(r.Header.Get("Accept-Encoding"), ",")
	if slices.ContainsFunc(accepted, func(s string) bool { return strings.TrimSpace(s) == "gzip" }) {
		w.Header().Set("Content-Encoding", "gzip")
		body = f.packed
	}
	w.WriteHeader(http.StatusOK)
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}
