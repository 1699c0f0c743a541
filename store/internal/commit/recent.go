package commit

import (
	"unsafe"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// Capacity of a generation of recent records: entries, and bytes of their values.
const (
	recentEntries = 8 << 10
	recentBytes   = 2 << 20
)

// recentRecords caches what the writer has put lately, so that it does not look up what it has just written: each
// exchange is opened, ended, digested and indexed within a second. Only the writer writes these records, so the cache
// always has the current value, or the one that the current group will write. When the younger of two generations is
// full, the older is dropped.
type recentRecords struct {
	young, older generation
}

type generation struct {
	records map[string][]byte          // by key; nil is a deletion
	size    int                        // bytes of their values
	begun   map[kv.SessionRef]struct{} // sessions that did not exist before this generation
}

// get returns what was put under a key; ok is false if it is not cached. The value must not be changed.
func (r *recentRecords) get(key []byte) (value []byte, ok bool) {
	if value, ok = r.young.records[string(key)]; !ok {
		value, ok = r.older.records[string(key)]
	}
	return value, ok
}

// put caches a record. Neither its key nor its value may be changed afterwards.
func (r *recentRecords) put(key, value []byte) {
	r.prepare()
	r.young.records[unsafe.String(unsafe.SliceData(key), len(key))] = value
	r.young.size += len(value)
}

func (r *recentRecords) prepare() {
	if r.young.records == nil {
		r.young = generation{records: make(map[string][]byte), begun: make(map[kv.SessionRef]struct{})}
	}
}

// begin notes that a session is new: all its records are put from now on.
func (r *recentRecords) begin(ref kv.SessionRef) {
	r.prepare()
	r.young.begun[ref] = struct{}{}
}

// whole reports whether all records of a session are cached.
func (r *recentRecords) whole(ref kv.SessionRef) bool {
	_, young := r.young.begun[ref]
	_, older := r.older.begun[ref]
	return young || older
}

// age makes room for the next group. This group's records stay cached. Maps are used again, because growing one takes
// half as long as filling it.
func (r *recentRecords) age() {
	if len(r.young.records) > recentEntries || r.young.size > recentBytes {
		r.young, r.older = r.older, r.young
		clear(r.young.records)
		clear(r.young.begun)
		r.young.size = 0
	}
}
