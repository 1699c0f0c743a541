package identity

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/internal/kv/kvtest"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		goleak.IgnoreTopFunction("github.com/golang/glog.(*fileSink).flushDaemon"),
		goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// harness is what a store has of this package, on a database of its own.
type harness struct {
	db          *kvtest.DB
	master      *MasterKey
	accounts    *AccountTable
	keys        *KeyTable
	credentials *Credentials
	audit       *AuditLog
	dir         string
	closed      func() error
}

type options struct {
	dir           string // "": a new one
	clock         func() time.Time
	key, previous []byte
}

func openHarness(t testing.TB, o options) *harness {
	t.Helper()
	h, err := tryHarness(t, o)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// tryHarness opens as a store does: with the right master key, and a rotation that was cut is brought to its end.
func tryHarness(t testing.TB, o options) (*harness, error) {
	t.Helper()
	if o.dir == "" {
		o.dir = t.TempDir()
	}
	if o.clock == nil {
		o.clock = time.Now
	}
	h, database, log := &harness{dir: o.dir}, filepath.Join(o.dir, "badger"), slog.New(slog.DiscardHandler)
	var err error
	if h.master, err = OpenMasterKey(o.dir, database, o.key, o.previous); err != nil {
		return nil, err
	}
	h.db = kvtest.Open(t, database)
	if err := h.prove(); err != nil {
		return nil, errors.Join(err, h.db.Close())
	}
	if h.accounts, err = LoadAccounts(h.db); err != nil {
		t.Fatal(err)
	}
	if h.keys, err = LoadKeys(h.db, h.accounts, o.clock, log); err != nil {
		t.Fatal(err)
	}
	h.credentials = NewCredentials(h.db, h.accounts, h.master, nil, log)
	h.audit = NewAuditLog(h.db, time.Hour, log)
	if h.master.Changing() {
		if err := h.master.Finish(h.rotation()); err != nil {
			t.Fatal(err)
		}
	}
	h.keys.Start()
	h.closed = sync.OnceValue(func() error {
		h.keys.Stop()
		return h.db.Close()
	})
	t.Cleanup(func() { _ = h.closed() })
	return h, nil
}

// prove compares the master key with the proof in the database, or puts one there.
func (h *harness) prove() error {
	var proof []byte
	if err := h.db.Update(context.Background(), func(tx kv.Txn) error {
		if proof = tx.Get(ProofKey); proof == nil {
			proof = h.master.Proof()
			tx.Put(ProofKey, proof)
		}
		return nil
	}); err != nil {
		return err
	}
	return h.master.Check(proof)
}

func (h *harness) rotation() Rotation {
	return Rotation{DB: h.db, Accounts: h.accounts, Sync: h.db.Sync, Note: func([]byte) error { return nil }}
}

func (h *harness) close(t testing.TB) {
	t.Helper()
	if err := h.closed(); err != nil {
		t.Fatal(err)
	}
}

func (h *harness) mustAccount(t testing.TB, name string) {
	t.Helper()
	if _, err := h.accounts.Accounts().Create(name); err != nil {
		t.Fatal(err)
	}
}

// wantKind fails unless err is a [codec.Error] of the kind.
func wantKind(t testing.TB, err error, kind codec.Kind) {
	t.Helper()
	var e *codec.Error
	if !errors.As(err, &e) || e.Kind != kind {
		t.Fatalf("got error %v, want one of kind %s", err, kind)
	}
}
