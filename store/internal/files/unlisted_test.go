package files

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A process that is killed while it merges tables leaves some that the manifest does not list, and all that is in them is in
// listed ones. A start looks there alone: damage in other tables, which it trusts, is found once it serves.
func TestAStartReadsOnlyTheBlocksThatCanHoldWhatUnlistedTablesHold(t *testing.T) {
	const unlisted = "000999.sst"
	for _, harm := range []struct {
		name    string
		rotten  []string
		foreign bool // the unlisted table is of another database
		refuses string
	}{
		{name: "damage elsewhere", rotten: []string{"000001.sst", "000003.sst"}},
		{name: "damage where it looks", rotten: []string{"000002.sst"}, refuses: "000002.sst"},
		{name: "data that is nowhere else", foreign: true, refuses: unlisted + ", which holds data that is nowhere else"},
	} {
		t.Run(harm.name, func(t *testing.T) {
			db := inUse(t, "a", "b", "c")
			from := db.path("000002.sst")
			if harm.foreign {
				from = inUse(t, "b1").path("000001.sst")
			}
			must(t, copyFile(from, db.path(unlisted)))
			for _, name := range harm.rotten {
				rot(t, db.path(name))
			}
			s, err := examine(db.dir, atStart)
			must(t, err)
			if !slices.Equal(s.Leftover, []string{unlisted}) || len(s.unread) != 3 {
				t.Errorf("left over are %v, and to be read once it serves %v", s.Leftover, s.unread)
			}
			if found := fmt.Sprint(s.Fatal); !strings.Contains(found, harm.refuses) || (len(s.Fatal) == 0) != (harm.refuses == "") {
				t.Errorf("it finds %v, want %q", found, harm.refuses)
			}
		})
	}
}
