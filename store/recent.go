package store

// What is remembered of the records that the writer has put: entries of a generation, and bytes of their values.
const (
	recentEntries = 8 << 10
	recentBytes   = 2 << 20
)

// recentRecords remembers what the writer has put lately, so that it does not look up in the database what it has written
// a moment ago: each exchange is opened, ended, digested and indexed within a second. Nothing else writes to these records,
// so what the writer has put is what is there, or will be with the group that is being gathered. It holds two generations:
// when the younger is full, the older is forgotten.
type recentRecords struct {
	young, older map[string][]byte // by key; nil is a deletion
	size         int               // bytes of values in young

	// Sessions of young records, decoded. Who changes one puts it.
	sessions map[sessionRef]*sessionRecord
}

// get gives what was put under a key; ok is false when that is not remembered. The value must not be changed.
func (r *recentRecords) get(key []byte) (value []byte, ok bool) {
	if value, ok = r.young[string(key)]; !ok {
		value, ok = r.older[string(key)]
	}
	return value, ok
}

func (r *recentRecords) put(key, value []byte) {
	if r.young == nil {
		r.young, r.sessions = make(map[string][]byte), make(map[sessionRef]*sessionRecord)
	}
	r.young[string(key)] = value
	r.size += len(value)
	if key[0] == spaceSession {
		if account, id, ok := splitExchangeKey(key); ok { // ids of sessions have the same length
			delete(r.sessions, sessionRef{account, sessionID(id)})
		}
	}
}

// remove forgets one record.
func (r *recentRecords) remove(key []byte) {
	delete(r.young, string(key))
	delete(r.older, string(key))
}

// age makes room for the next group. What was put by this one is still remembered.
func (r *recentRecords) age() {
	if len(r.young) > recentEntries || r.size > recentBytes {
		*r = recentRecords{older: r.young}
	}
}
