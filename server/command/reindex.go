package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/mnemeproxy/mneme/server/admin"
)

// Reindex is "mneme reindex".
type Reindex struct {
	Place `embed:""`
}

// progressInterval is how often a command looks how far the server is.
const progressInterval = 100 * time.Millisecond

// Run throws the search index away, builds it anew from what was captured, and shows how far that is. A server that runs
// goes on serving meanwhile; searches find what is indexed so far.
func (c *Reindex) Run(ctx context.Context, s *Surroundings) error {
	return c.manageIndex(ctx, func(client *admin.Client) error {
		if err := client.Reindex(ctx); err != nil {
			return err
		}
		accounts, err := client.Accounts(ctx)
		if err != nil || len(accounts) == 0 {
			return err
		}
		return s.watchIndex(ctx, client, accounts[0].Name)
	})
}

// watchIndex shows how far the index is until it has caught up. How far is the same for every account.
func (s *Surroundings) watchIndex(ctx context.Context, client *admin.Client, account string) error {
	var bar *progressbar.ProgressBar
	var most uint64
	for {
		stats, err := client.Stats(ctx, account)
		if err != nil {
			return err
		}
		if stats.Index == nil {
			return errors.New("the server keeps no search index")
		}
		most = max(most, stats.Index.Lag)
		if isTerminal(s.Err) {
			if bar == nil {
				bar = progressbar.NewOptions64(int64(most), progressbar.OptionSetWriter(s.Err),
					progressbar.OptionSetDescription("indexing"), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
			}
			bar.ChangeMax64(int64(most))
			_ = bar.Set64(int64(most - stats.Index.Lag))
		}
		if stats.Index.Lag == 0 {
			if bar != nil {
				_ = bar.Finish()
			}
			fmt.Fprintf(s.Out, "indexed; the index takes %s\n", amount(stats.Index.Bytes))
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(progressInterval):
		}
	}
}
