package search

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store"
)

// A turn whose record is damaged is not found. All others are, of every account, also when the index is built anew.
func TestADamagedTurnHoldsNoOtherUp(t *testing.T) {
	m := openMemory(t, t.TempDir())
	damaged := m.capture("acme", talk("where is the lock", "here"))
	second := m.capture("acme", talk("where is the key", "there"))
	other := m.capture("globex", talk("where is the key", "there"))
	m.found("acme", "key")
	number, err := m.store.NumberOf("acme")
	m.ok(err)
	m.reopen(func() {
		m.ok(os.RemoveAll(filepath.Join(m.dir, "index")))
		db, err := badger.Open(badger.DefaultOptions(filepath.Join(m.dir, "badger")).WithLogger(nil))
		m.ok(err)
		m.ok(db.Update(func(tx *badger.Txn) error { return tx.Set(turnKey(t, uint32(number), damaged), []byte("damage")) }))
		m.ok(db.Close())
	})
	m.wantFound("acme", "key", second)
	m.wantFound("globex", "key", other)
	m.wantFound("acme", "lock")
	next := m.capture("acme", talk("where is the door", "over there"))
	m.wantFound("acme", "door", next)
}

// turnKey is where the store has the turn of an exchange, see FORMAT.md.
func turnKey(t *testing.T, account uint32, exchange string) []byte {
	t.Helper()
	id, ok := store.ParseExchangeID(exchange)
	if !ok {
		t.Fatalf("%s is no exchange", exchange)
	}
	return append(binary.BigEndian.AppendUint32([]byte{'u'}, account), id[:]...)
}
