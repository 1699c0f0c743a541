package command

import (
	"context"
	"log/slog"
	"time"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/background/summary"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/telemetry"
	"github.com/mnemeproxy/mneme/store/catalog"
	"github.com/mnemeproxy/mneme/store/engine"
)

// startSummaries has the configured model summarize sessions, with the credentials of a store; nil if none is
// configured.
func startSummaries(cfg *config.Config, sessions summary.Sessions, m *engine.Engine, routes *router.Router, observed *telemetry.Process, log *slog.Logger) (*summary.Writer, error) {
	settings, ok := cfg.Summarizing()
	if !ok {
		return nil, nil //nolint:nilnil // no model summarizes
	}
	writer, err := summary.Start(summary.Options{Settings: settings, Sessions: sessions, Credentials: m.Credentials().Get, Router: routes, Log: log})
	if err != nil {
		return nil, err
	}
	observed.WatchSummaries(writer.Usage)
	if shared, is := sessions.(catalog.Summaries); is {
		observed.WatchUnsummarized(shared.Waiting)
	}
	return writer, nil
}

// releaseTimeout is how long shutdown may wait for the database. Claims that are not released expire.
const releaseTimeout = 5 * time.Second

// releaseSummaries lets other processes summarize what this one has claimed. Its writer must be closed.
func releaseSummaries(kept *catalog.Catalog) {
	ctx, cancel := context.WithTimeout(context.Background(), releaseTimeout)
	defer cancel()
	_ = catalog.SummariesOf(kept).Release(ctx)
}
