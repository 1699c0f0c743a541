package command

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/catalog/postgrestest"
	"github.com/mnemeproxy/mneme/store/engine"
)

// A centre that is given a database goes on with the receipts that it has.
func TestReceiptsMoveWithTheMemoryIntoTheDatabase(t *testing.T) {
	cfg := config.Default()
	cfg.Centre.Postgres = config.Secret(postgrestest.Start(t, false).Database(t))
	m := engineForAccounts(t)
	if _, err := m.Accounts().Create("acme"); err != nil {
		t.Fatal(err)
	}
	asked, err := m.Archive().Erase(t.Context(), "acme", store.Selection{All: true}, false)
	if err != nil {
		t.Fatal(err)
	}
	kept, err := openCatalog(t.Context(), &cfg, m, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer kept.Close()
	if _, err := kept.Erasure("acme", asked.ID); err != nil {
		t.Error(err)
	}
}

// engineForAccounts is the store of a centre whose memory is elsewhere.
func engineForAccounts(t *testing.T) *engine.Engine {
	t.Helper()
	m, err := engine.Open(store.Options{Dir: t.TempDir(), MinFreeDisk: -1, MasterKey: bytes.Repeat([]byte{1}, 32)}, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = m.Close() })
	return m
}
