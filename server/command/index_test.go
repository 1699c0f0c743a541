package command

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/server/config"
)

// Embedding costs money, and searches in Postgres use no vectors.
func TestMemoryInPostgresIsNotEmbedded(t *testing.T) {
	cfg := config.Default()
	cfg.Data = t.TempDir()
	cfg.Search.Embedder.Model = "text-embedding-3-small"
	cfg.Centre.Postgres = "postgres://mneme@localhost/mneme"
	m := engineForAccounts(t)
	if _, err := m.Accounts().Create("acme"); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	embedder, err := startIndex(t.Context(), m, &cfg, nil, false, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil || embedder != nil {
		t.Fatalf("an embedder is used: %v, %v", embedder, err)
	}
	if status, err := m.Index().Status(t.Context(), "acme"); err != nil || status.Vectors != nil {
		t.Errorf("there are vectors: %+v, %v", status, err)
	}
	if !strings.Contains(log.String(), "search.embedder is not used") {
		t.Errorf("the log has: %s", &log)
	}
}
