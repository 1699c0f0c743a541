package command

import (
	"testing"

	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/store/search/localhash"
)

// A memory in Postgres has the vectors of all exchanges. Embedding those of the centre's own store as well would cost twice.
func TestACentreOnPostgresEmbedsNoExchangeTwice(t *testing.T) {
	cfg := config.Default()
	cfg.Data = t.TempDir()
	cfg.Centre.Postgres = "postgres://mneme@localhost/mneme"
	m := engineForAccounts(t)
	if _, err := m.Accounts().Create("acme"); err != nil {
		t.Fatal(err)
	}
	hasher, err := localhash.New(256)
	if err != nil {
		t.Fatal(err)
	}
	if err := startIndex(t.Context(), m, &cfg, nil, localhash.Embedder{Hasher: hasher}, false, nil); err != nil {
		t.Fatal(err)
	}
	if status, err := m.Index().Status(t.Context(), "acme"); err != nil || status.Vectors != nil {
		t.Errorf("there are vectors: %+v, %v", status, err)
	}
}
