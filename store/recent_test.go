package store

import (
	"bytes"
	"testing"

	"pgregory.net/rapid"
)

// Whatever is remembered of a record is what was put last, and what the present group has put is remembered.
func TestRecentRecordsAreNeverOutOfDate(t *testing.T) {
	large := make([]byte, recentBytes*2/3) // so that generations follow each other quickly
	rapid.Check(t, func(t *rapid.T) {
		var recent recentRecords
		stored := make(map[string][]byte)
		group := make(map[string]bool) // keys that the present group has put
		for range rapid.IntRange(1, 60).Draw(t, "operations") {
			key := []byte{spaceMember, rapid.Byte().Draw(t, "key") % 8}
			switch rapid.IntRange(0, 4).Draw(t, "operation") {
			case 0:
				value := []byte(rapid.String().Draw(t, "value"))
				recent.put(key, value)
				stored[string(key)], group[string(key)] = value, true
			case 1:
				recent.put(key, large)
				stored[string(key)], group[string(key)] = large, true
			case 2:
				recent.put(key, nil)
				stored[string(key)], group[string(key)] = nil, true
			case 3:
				recent.remove(key)
				delete(group, string(key))
			case 4:
				recent.age()
				clear(group)
			}
			for key, want := range stored {
				have, ok := recent.get([]byte(key))
				if ok && (!bytes.Equal(have, want) || (have == nil) != (want == nil)) {
					t.Fatalf("%q is remembered as %d bytes, and was put as %d", key, len(have), len(want))
				}
				if !ok && group[key] {
					t.Fatalf("%q is not remembered in the group that put it", key)
				}
			}
		}
	})
}

// A session's record that is remembered decoded goes with the record that is put in its place.
func TestADeletedSessionIsNotRemembered(t *testing.T) {
	s := openStore(t, Options{})
	mustAccount(t, s, "acme")
	x, err := s.Exchange("acme", capture(t, s, "acme", `{"n":1}`, "one"))
	if err != nil {
		t.Fatal(err)
	}
	id, _ := parseSessionID(x.Session)
	err = s.update(t.Context(), func(g *gathering, w *write) error {
		ref := sessionRef{1, id}
		if g.sessionAt(ref) == nil {
			t.Error("the session is not there")
		}
		if g.put(w, sessionKey(ref.account, ref.id), nil); g.sessionAt(ref) != nil {
			t.Error("a deleted session is still there")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
