package command

import (
	"slices"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/api"
	"github.com/mnemeproxy/mneme/store/record"
)

// The id of a session that several edges name alike is above all others.
func TestSessionsAreListedByWhenTheyBegan(t *testing.T) {
	began := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	var sessions []api.Session
	for n, id := range []string{"sess_zzzzzzzzzwrcbh9qnr3n294j2m", "sess_06h0b2bnqg003dskjf65c7w0hw", "sess_zzzzzzzzzzd8amz0h76rh9hvgc"} {
		sessions = append(sessions, api.Session{Session: record.Session{ID: id, Created: began.Add(time.Duration(n) * time.Minute)}})
	}
	want := []string{sessions[2].ID, sessions[1].ID, sessions[0].ID}
	slices.SortFunc(sessions, newestFirst)
	for i := range sessions {
		if sessions[i].ID != want[i] {
			t.Errorf("entry %d is %s, want %s", i, sessions[i].ID, want[i])
		}
	}
}
