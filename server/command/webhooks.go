package command

import (
	"log/slog"
	"path/filepath"
	"time"

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

// telling returns a function that sends webhooks about erasures.
func telling(hooks *webhook.Sender) func(account string, e *record.Erasure) error {
	return func(account string, e *record.Erasure) error {
		hooks.Tell(webhook.Erasure, time.Now(), webhook.ErasureAccepted{Account: account, Erasure: e.ID})
		return nil
	}
}
