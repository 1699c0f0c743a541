package files

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/mnemeproxy/mneme/store/salvage"
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

// Garbage collection writes a key again under the same version. An entry that leads elsewhere is not the same.
func TestAnEntryOfAnUnlistedTableIsNotFoundInOneThatLeadsElsewhere(t *testing.T) {
	dir, tables := closedWith(t, "a")
	u := newUnlistedTables()
	must(t, u.add(tables[0], "000009.sst"))
	var entries []salvage.Entry
	_, err := salvage.ReadTable(tables[0], func(e *salvage.Entry) error {
		c := *e
		c.Key, c.Value = bytes.Clone(e.Key), bytes.Clone(e.Value)
		entries = append(entries, c)
		return nil
	})
	must(t, err)
	moved := entries[1]
	moved.Value = []byte("elsewhere")
	for i := range entries {
		if i == 1 {
			u.strike(&moved)
		} else {
			u.strike(&entries[i])
		}
	}
	if u.rest() == "" {
		t.Error("the entry counts as found in one with another value")
	}
	u.strike(&entries[1])
	if name := u.rest(); name != "" {
		t.Errorf("%s in %s still lacks entries", name, dir)
	}
}
