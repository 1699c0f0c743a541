package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/mnemeproxy/mneme/server/history"
)

// watchEvery is how often a history that is watched is looked at.
const watchEvery = 5 * time.Second

// watch imports a history again and again, until interrupted: of files that changed, and of these what is not on record.
// The last answer of a file waits until the file has been quiet for a minute.
func (c *Import) watch(ctx context.Context, s *Env, search *history.Search) error {
	if c.From != "claude-code" && c.From != "codex" || c.DryRun {
		return errors.New("--watch goes with --from claude-code or --from codex, and not with --dry-run")
	}
	if c.From == "claude-code" {
		warnOfCleanup(s, search)
	}
	search.Watch = history.NewWatch()
	for first := true; ; first = false {
		err := c.importFound(ctx, s, search)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // interrupted, as asked
		case err != nil && first:
			return err
		case err != nil:
			fmt.Fprintf(s.Err, "mneme: %v; trying again\n", err)
		case first:
			fmt.Fprintf(s.Err, "mneme: watching the history of %s; interrupt to end\n", c.From)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(watchEvery):
		}
	}
}

// defaultCleanup is after how many days Claude Code deletes sessions that its settings say nothing about.
const defaultCleanup = 30

// warnOfCleanup says when Claude Code deletes its sessions.
func warnOfCleanup(s *Env, search *history.Search) {
	dir, _ := search.Lookup("CLAUDE_CONFIG_DIR")
	if dir == "" {
		dir = filepath.Join(search.Home, ".claude")
	}
	days := defaultCleanup
	var settings struct {
		Days *int `json:"cleanupPeriodDays"`
	}
	if text, err := os.ReadFile(filepath.Join(dir, "settings.json")); err == nil && json.Unmarshal(text, &settings) == nil && settings.Days != nil {
		days = *settings.Days
	}
	fmt.Fprintf(s.Err, "mneme: Claude Code deletes sessions that are not used for %d days (cleanupPeriodDays in %s); what is imported stays here\n", days, filepath.Join(dir, "settings.json"))
}
