package command

import (
	"context"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/mnemeproxy/mneme/server"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/webhook"
	"github.com/mnemeproxy/mneme/store/record"
)

// startWebhooks starts the sender of webhooks for the configured receivers; nil if there are none.
func startWebhooks(cfg *config.Config, log *slog.Logger) (*webhook.Sender, error) {
	if len(cfg.Webhooks) == 0 {
		return nil, nil
	}
	hooks := make([]webhook.Hook, len(cfg.Webhooks))
	for i, w := range cfg.Webhooks {
		hooks[i] = w.Hook()
	}
	return webhook.Start(webhook.Options{Hooks: hooks, Dir: filepath.Join(cfg.Data, "webhooks"), Log: log})
}

// tellErasure sends webhooks about an erasure.
func tellErasure(hooks *webhook.Sender, account string, e *record.Erasure) {
	hooks.Tell(webhook.Erasure, time.Now(), webhook.ErasureAccepted{Account: account, Erasure: e.ID})
}

// tellingArchive sends webhooks about the erasures of a centre, which are in its database. The store of a server announces
// its own.
type tellingArchive struct {
	server.Archive
	hooks *webhook.Sender
}

func (a tellingArchive) Erase(ctx context.Context, account string, sel record.Selection, dryRun bool) (*record.Erasure, error) {
	e, err := a.Archive.Erase(ctx, account, sel, dryRun)
	if err == nil && !dryRun {
		tellErasure(a.hooks, account, e)
	}
	return e, err
}
