package history

import (
	"maps"
	"os"
	"strings"
	"time"
)

// Watch remembers what was imported of a history that is written on, so that files that stay as they are are not read
// again. It is used by one goroutine, with one program. A nil one remembers nothing.
type Watch struct {
	seen   map[string]stamp
	before answers
}

// stamp is how a file was when it was imported.
type stamp struct {
	size     int64
	modified time.Time
	whole    bool // no answer was held back
}

// NewWatch returns a watch that has seen nothing.
func NewWatch() *Watch { return &Watch{seen: make(map[string]stamp), before: make(answers)} }

// quiet is for how long a file stays as it is before its last answer counts as complete: programs write an answer block by
// block.
const quiet = time.Minute

// conversation names the files that are read together: a session of Claude Code, and its subagents.
func conversation(path string) string {
	path, _, _ = strings.Cut(path, "/subagents/")
	return strings.TrimSuffix(path, ".jsonl")
}

// changed returns the files of conversations with a file that changed since it was taken.
func (w *Watch) changed(files []File, now time.Time) (changed []File) {
	if w == nil {
		return files
	}
	stamps := make(map[string]stamp)
	due := make(map[string]bool)
	for i := range files {
		info, err := os.Stat(files[i].Path)
		if err != nil {
			continue // it is gone
		}
		files[i].busy = now.Sub(info.ModTime()) < quiet
		at := stamp{info.Size(), info.ModTime(), !files[i].busy}
		stamps[files[i].Path] = at
		if w.seen[files[i].Path] != at {
			due[conversation(files[i].Path)] = true
		}
	}
	for _, file := range files {
		if _, there := stamps[file.Path]; there && due[conversation(file.Path)] {
			changed = append(changed, file)
		}
	}
	return changed
}

// answers returns those that were taken before.
func (w *Watch) answers() answers {
	if w == nil {
		return make(answers)
	}
	return maps.Clone(w.before)
}

// took notes that files were imported. One that has grown since it was looked at is read again.
func (w *Watch) took(files []File, known answers) {
	if w == nil {
		return
	}
	w.before = known
	for i := range files {
		if info, err := os.Stat(files[i].Path); err == nil && info.Size() == files[i].Size {
			w.seen[files[i].Path] = stamp{info.Size(), info.ModTime(), !files[i].busy}
		}
	}
}
