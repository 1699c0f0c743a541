package store

import (
	"errors"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/record"
)

// Operations see what earlier operations have put, including those of their own group, and then what is stored.

// entry is a key and its value on their way to the store; a nil value deletes.
type entry struct{ key, value []byte }

// get looks up a key among the recent records and then in the store; nil if it is in neither. The value must not be
// changed.
func (g *commitGroup) get(key []byte) []byte {
	if key[0] == kv.SpaceSession {
		if r := g.store.ahead.atKey(key); r != nil {
			return record.Encode(r)
		}
	}
	if value, ok := g.recent.get(key); ok {
		return value
	}
	value, err := kv.Get(g.read(), key)
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) && g.err == nil {
		g.err = err
	}
	return value
}

// getOf is get for records of a session, whose keys begin with its id.
func (g *commitGroup) getOf(ref kv.SessionRef, key []byte) []byte {
	if value, ok := g.recent.get(key); ok || g.recent.whole(ref) {
		return value
	}
	return g.get(key)
}

// has reports whether get would find a value.
func (g *commitGroup) has(key []byte) bool {
	if value, ok := g.recent.get(key); ok {
		return value != nil
	}
	_, err := g.read().Get(key)
	if err != nil && !errors.Is(err, badger.ErrKeyNotFound) && g.err == nil {
		g.err = err
	}
	return err == nil
}

// put adds a record to an operation and makes it visible to later operations.
func (g *commitGroup) put(w *operation, key, value []byte) {
	g.recent.put(key, value)
	if key[0] == kv.SpaceSession {
		g.store.ahead.leave(key)
	}
	if w.records == nil {
		w.records = g.recordRoom()
	}
	w.records = append(w.records, entry{key, value})
}

// putID puts an id under a key.
func (g *commitGroup) putID(w *operation, key []byte, id kv.TimeID) { g.put(w, key, g.keep(id[:])) }

// recordRoom returns room for the records of an operation; it belongs to the group until that is reset.
func (g *commitGroup) recordRoom() []entry {
	const few = 8 // an exchange that begins or ends puts about seven
	if cap(g.records)-len(g.records) < few {
		g.records = make([]entry, 0, 64*few)
	}
	n := len(g.records)
	g.records = g.records[:n+few]
	return g.records[n : n : n+few]
}
