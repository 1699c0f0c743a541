package store

import (
	"unsafe"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// What a generation of recent records may hold: entries, and bytes of their values.
const (
	recentEntries = 8 << 10
	recentBytes   = 2 << 20
)

// recentRecords remembers what the writer has put lately, so that it does not look up in the database what it has written
// a moment ago: each exchange is opened, ended, digested and indexed within a second. Nothing else writes to these records,
// so what the writer has put is what is there, or will be with the group that is being gathered. When the younger of two
// generations is full, the older is forgotten.
type recentRecords struct {
	young, older generation

	sessions map[sessionRef]*sessionRecord // some of the records in young, decoded. Who changes one puts it
}

type generation struct {
	records map[string][]byte       // by key; nil is a deletion
	size    int                     // bytes of their values
	begun   map[sessionRef]struct{} // sessions of which nothing was there before this generation
}

// get gives what was put under a key; ok is false when that is not remembered. The value must not be changed.
func (r *recentRecords) get(key []byte) (value []byte, ok bool) {
	if value, ok = r.young.records[string(key)]; !ok {
		value, ok = r.older.records[string(key)]
	}
	return value, ok
}

// put remembers a record. Neither its key nor its value may be changed afterwards.
func (r *recentRecords) put(key, value []byte) {
	r.prepare()
	r.young.records[unsafe.String(unsafe.SliceData(key), len(key))] = value
	r.young.size += len(value)
	if key[0] == kv.SpaceSession {
		if account, id, ok := kv.SplitSessionKey(key); ok {
			delete(r.sessions, sessionRef{account, id})
		}
	}
}

func (r *recentRecords) prepare() {
	if r.young.records == nil {
		r.young = generation{records: make(map[string][]byte), begun: make(map[sessionRef]struct{})}
		r.sessions = make(map[sessionRef]*sessionRecord)
	}
}

// begin notes that a session is new: there is nothing of it but what is put from now on.
func (r *recentRecords) begin(ref sessionRef) {
	r.prepare()
	r.young.begun[ref] = struct{}{}
}

// whole reports whether all that there is of a session is remembered.
func (r *recentRecords) whole(ref sessionRef) bool {
	_, young := r.young.begun[ref]
	_, older := r.older.begun[ref]
	return young || older
}

// age makes room for the next group. What was put by this one is still remembered.
func (r *recentRecords) age() {
	if len(r.young.records) > recentEntries || r.young.size > recentBytes {
		*r = recentRecords{older: r.young}
	}
}
