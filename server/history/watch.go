package history

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"strings"
	"time"
)

// Watch remembers what was imported of a history that is written on, so that files that stay as they are are not read
// again, and those that have grown are read on. It is used by one goroutine, with one program. A nil one remembers nothing.
type Watch struct {
	seen    map[string]stamp
	marks   map[string]*mark
	answers answers // that are on record
}

// stamp is how a file was when it was imported.
type stamp struct {
	size     int64
	modified time.Time
	whole    bool // no answer was held back
}

// NewWatch returns a watch that has seen nothing.
func NewWatch() *Watch {
	return &Watch{seen: make(map[string]stamp), marks: make(map[string]*mark), answers: make(answers)}
}

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
			file.mark = w.marks[file.Path]
			changed = append(changed, file)
		}
	}
	return changed
}

// has reports whether an answer was imported before.
func (w *Watch) has(answer string) (known bool) {
	if w != nil {
		_, known = w.answers[answer]
	}
	return known
}

// took notes that files were imported, with the answers in them. A file that has grown since it was looked at is read again.
func (w *Watch) took(files []File, known answers, marks map[string]*mark) {
	if w == nil {
		return
	}
	maps.Copy(w.answers, known)
	maps.Copy(w.marks, marks)
	for i := range files {
		if info, err := os.Stat(files[i].Path); err == nil && info.Size() == files[i].Size {
			w.seen[files[i].Path] = stamp{info.Size(), info.ModTime(), !files[i].busy}
		}
	}
}

// Watchable are the programs whose history can be watched: those that write files.
func Watchable() []string { return []string{claudeCode.name, codex.name} }

// A history is looked at every few seconds, and less often if that takes long: at most a part of the time is spent on it.
const (
	lookEvery = 5 * time.Second
	lookShare = 20
)

// Repeatedly calls look until ctx ends or look returns false.
func Repeatedly(ctx context.Context, look func() bool) {
	for {
		began := time.Now()
		if !look() {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(max(lookEvery, lookShare*time.Since(began))):
		}
	}
}

// Cleanup is when Claude Code deletes sessions.
type Cleanup struct {
	Days int    // without use
	File string // with the setting
	Next int    // sessions to be deleted within a week
}

// String is without the sessions that are due.
func (c Cleanup) String() string {
	return fmt.Sprintf("Claude Code deletes sessions that are not used for %d days (cleanupPeriodDays in %s)", c.Days, c.File)
}

// What Claude Code does without a setting, and how long before a deletion it is warned of.
const (
	cleanupDays  = 30
	cleanupAhead = 7 * 24 * time.Hour
)

// CleanupOf reads when Claude Code deletes sessions, and counts those that are due soon.
func CleanupOf(ctx context.Context, s *Search, now time.Time) Cleanup {
	c := Cleanup{Days: cleanupDays, File: s.in("CLAUDE_CONFIG_DIR", ".claude", "settings.json")}
	var settings struct {
		Days *int `json:"cleanupPeriodDays"`
	}
	if text, err := os.ReadFile(c.File); err == nil && json.Unmarshal(text, &settings) == nil && settings.Days != nil {
		c.Days = *settings.Days
	}
	files, _ := claudeCode.find(ctx, s)
	for i := range files {
		info, err := os.Stat(files[i].Path)
		if err == nil && isSession(&files[i]) && info.ModTime().AddDate(0, 0, c.Days).Before(now.Add(cleanupAhead)) {
			c.Next++
		}
	}
	return c
}
