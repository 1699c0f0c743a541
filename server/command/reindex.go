package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/store/search"
)

// Reindex is "mneme reindex".
type Reindex struct {
	Target `embed:""`
	What   string `arg:"" optional:"" default:"words" enum:"words,vectors,all" help:"What to rebuild: words, vectors or all (default: ${default})."`
}

// progressInterval is how often a command checks the server's progress.
const progressInterval = 100 * time.Millisecond

// Run rebuilds the search index from the record and shows its progress. A running server keeps serving; searches find
// what is indexed so far and use the old vectors until the new ones are complete. If it is interrupted, the server
// continues, at once or at its next start.
func (c *Reindex) Run(ctx context.Context, s *Env) error {
	vectors := c.What != admin.Words
	return c.manageIndex(ctx, vectors, func(client *admin.Client) error {
		accounts, err := client.Accounts().List(ctx)
		if err != nil || len(accounts) == 0 {
			return err
		}
		account := accounts[0].Name // the index makes the same progress for every account
		if err := client.Upkeep().Reindex(ctx, c.What); err != nil {
			return err
		}
		status, err := s.watchIndex(ctx, client, account, vectors)
		if err != nil {
			return err
		}
		fmt.Fprintf(s.Out, "indexed; the index takes %s\n", amount(status.Bytes))
		if v := status.Vectors; vectors && v != nil {
			fmt.Fprintf(s.Out, "the vectors are those of %s\n", v.Embedder)
		}
		return nil
	})
}

// watchIndex shows the progress of the index, and of the vectors if wanted, until both have caught up.
func (s *Env) watchIndex(ctx context.Context, client *admin.Client, account string, vectors bool) (*search.Status, error) {
	var words, embedded steps
	defer words.end()
	defer embedded.end()
	for {
		stats, err := client.Memory().Stats(ctx, account)
		if err != nil {
			return nil, err
		}
		if stats.Index == nil {
			return nil, errors.New("the server has no search index")
		}
		words.most = max(words.most, stats.Index.Lag)
		words.show(s, "indexing", words.most-stats.Index.Lag)
		v := stats.Index.Vectors
		if vectors && v != nil && stats.Index.Lag == 0 {
			embedded.most = max(v.Total, v.Done)
			embedded.show(s, "embedding", v.Done)
			if v.Error != "" && !s.ShowsProgress() {
				return nil, fmt.Errorf("the vectors cannot be built: %s; the server keeps trying", v.Error)
			}
		}
		if stats.Index.Lag == 0 && !(vectors && v != nil && (v.Building || v.Lag > 0)) {
			return stats.Index, nil
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(progressInterval):
		}
	}
}

// steps is a progress bar that counts things.
type steps struct {
	most uint64
	bar  *progressbar.ProgressBar // nil until there is something to show
}

// show shows how many are done; without a terminal on standard error it shows nothing.
func (p *steps) show(s *Env, what string, done uint64) {
	if !s.ShowsProgress() || p.most == 0 {
		return
	}
	if p.bar == nil {
		p.bar = progressbar.NewOptions64(int64(p.most), progressbar.OptionSetWriter(s.Err),
			progressbar.OptionSetDescription(what), progressbar.OptionShowCount(), progressbar.OptionClearOnFinish())
	}
	p.bar.ChangeMax64(int64(p.most))
	_ = p.bar.Set64(int64(done))
}

func (p *steps) end() {
	if p.bar != nil {
		_ = p.bar.Finish()
	}
}
