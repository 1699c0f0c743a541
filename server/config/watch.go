package config

import (
	"os"
	"slices"
)

// Watch polls files for changes. It follows links, so it notices a file that is rewritten, replaced, or behind a
// changed link, on every file system.
type Watch struct {
	names []string
	taken []os.FileInfo // nil for a file that did not exist
	last  []os.FileInfo
}

// NewWatch starts from the files' present state: what changes while they are read after it is noticed. Empty names are
// ignored.
func NewWatch(names ...string) *Watch {
	w := new(Watch)
	w.Follow(names...)
	return w
}

// Take takes the files' present state. It comes before they are read, so that no change is missed.
func (w *Watch) Take() {
	w.taken = w.look()
	w.last = slices.Clone(w.taken)
}

// Follow watches these files instead. Those that were watched before are not taken again: a change since then still counts.
func (w *Watch) Follow(names ...string) {
	next := Watch{names: slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == "" })}
	next.Take()
	for i, name := range next.names {
		if before := slices.Index(w.names, name); before >= 0 {
			next.taken[i] = w.taken[before]
		}
	}
	*w = next
}

// Files returns the files that the configuration was read from, and the ones it names.
func (c *Config) Files(sources Sources) []string {
	tls := c.TLS.Files()
	return []string{FileName(sources), c.ModelsFile, tls.Certificate, tls.Key, tls.ClientCA}
}

// Changed reports, once, whether the files have changed since they were last taken, and takes them. A file that is
// still being written does not count until two checks have found it the same.
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
		infos[i], _ = os.Stat(name) // the error shows when the file is read
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
