package config

import (
	"os"
	"slices"
)

// Watch polls files for changes. It looks at the files that names lead to, so that a file
// written in place, one put in its place and one behind a link that is turned elsewhere are all noticed, on every file
// system.
type Watch struct {
	names []string
	taken []os.FileInfo // nil for a file that was not there
	last  []os.FileInfo
}

// NewWatch takes the files as they are now. Empty names are left out.
func NewWatch(names ...string) *Watch {
	w := &Watch{names: slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })}
	w.taken = w.look()
	w.last = w.taken
	return w
}

// Files are the files that the configuration was read from, and the ones it names.
func (c *Config) Files(sources Sources) []string {
	tls := c.TLS.Files()
	return []string{FileName(sources), c.ModelsFile, tls.Certificate, tls.Key, tls.ClientCA}
}

// Changed reports whether the files are others than those that were taken, once: it takes them. One that is still being
// written is not: files count when two looks found them the same.
func (w *Watch) Changed() bool {
	now := w.look()
	settled := same(now, w.last)
	w.last = now
	if !settled || same(now, w.taken) {
		return false
	}
	w.taken = now
	return true
}

func (w *Watch) look() []os.FileInfo {
	infos := make([]os.FileInfo, len(w.names))
	for i, name := range w.names {
		infos[i], _ = os.Stat(name) // what cannot be looked at is said when it is read
	}
	return infos
}

func same(a, b []os.FileInfo) bool {
	return slices.EqualFunc(a, b, func(a, b os.FileInfo) bool {
		if a == nil || b == nil {
			return a == nil && b == nil
		}
		return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime())
	})
}
