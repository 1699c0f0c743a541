package command

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/mnemeproxy/mneme/server/history"
)

// watch imports a history again and again, until interrupted: of files that changed, and of these what is not on record.
// The last answer of a file waits until the file has been quiet for a minute.
func (c *Import) watch(ctx context.Context, s *Env, search *history.Search) (err error) {
	if !slices.Contains(history.Watchable(), c.From) || c.DryRun {
		return fmt.Errorf("--watch goes with --from %s, and not with --dry-run", strings.Join(history.Watchable(), " or --from "))
	}
	if c.From == "claude-code" {
		fmt.Fprintf(s.Err, "mneme: %v; what is imported stays here\n", history.CleanupOf(ctx, search, time.Now()))
	}
	search.Watch = history.NewWatch()
	first, said := true, ""
	history.Repeatedly(ctx, func() bool {
		err = c.importFound(ctx, s, search)
		switch {
		case ctx.Err() != nil:
			err = nil // interrupted, as asked
			return false
		case err != nil && first:
			return false
		case err != nil && err.Error() != said:
			fmt.Fprintf(s.Err, "mneme: %v; trying again\n", err)
		case first:
			fmt.Fprintf(s.Err, "mneme: watching the history of %s; interrupt to end\n", c.From)
		}
		first, said = false, ""
		if err != nil {
			said = err.Error()
		}
		return true
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}
