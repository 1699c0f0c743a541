package commit

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"

	"github.com/mnemeproxy/mneme/store/internal/kv"
)

// A cached record is always the one put last, records put by the present group are cached, and if all of a session is
// cached, there is nothing else in it.
func TestRecentRecordsAreNeverOutOfDate(t *testing.T) {
	large := make([]byte, recentBytes*2/3) // so that generations follow each other quickly
	rapid.Check(t, func(t *rapid.T) {
		var recent recentRecords
		stored := make(map[string][]byte)
		group := make(map[string]bool) // keys that the present group has put
		sessions := make(map[kv.SessionRef]bool)
		put := func(key, value []byte) {
			recent.put(key, value)
			stored[string(key)], group[string(key)] = value, true
		}
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			ref := kv.SessionRef{Account: 1, ID: kv.SessionID{rapid.Byte().Draw(t, "session") % 4}}
			key := kv.HistoryKey(ref.Account, ref.ID, [16]byte{rapid.Byte().Draw(t, "key") % 4})
			switch rapid.IntRange(0, 4).Draw(t, "operation") {
			case 0:
				put(key, []byte(rapid.String().Draw(t, "value")))
			case 1:
				put(key, large)
			case 2:
				put(key, nil)
			case 3:
				recent.age()
				clear(group)
			case 4:
				if !sessions[ref] {
					recent.begin(ref)
				}
			}
			sessions[ref] = true
			for key, want := range stored {
				have, ok := recent.get([]byte(key))
				if ok && (!bytes.Equal(have, want) || (have == nil) != (want == nil)) {
					t.Fatalf("%q is remembered as %d bytes, and was put as %d", key, len(have), len(want))
				}
				if !ok && group[key] {
					t.Fatalf("%q is not remembered in the group that put it", key)
				}
				if ref := (kv.SessionRef{Account: 1, ID: kv.SessionID([]byte(key)[5:21])}); !ok && want != nil && recent.whole(ref) {
					t.Fatalf("%q is not remembered, with all of its session", key)
				}
			}
		}
	})
}
