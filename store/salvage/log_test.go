package salvage

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

func writeLog(t *testing.T, parts ...[]byte) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "000001.mem")
	if err := os.WriteFile(path, append(make([]byte, HeaderSize), bytes.Join(parts, nil)...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func record(key string, version uint64, meta byte, value string) []byte {
	return appendRecord(nil, &Entry{Key: []byte(key), Version: version, Value: []byte(value)}, meta)
}

// Garbage collection of value logs writes entries of earlier versions, each a commit by itself. Nothing follows the last one
// in a log that a start has cut to its content.
func TestAnEntryThatGarbageCollectionWroteIsAWholeCommit(t *testing.T) {
	path := writeLog(t,
		record("a", 7, metaCommit, "1"), record("!badger!txn", 7, metaEnd, "7"),
		record("b", 3, metaPointer, "place in a log"), record("c", 3, metaPointer, "another place"))
	var got []string
	l, err := ReadCommits(path, func(c Commit) error {
		if !c.Ended {
			t.Errorf("%s is not ended", c.Entries[0].Key)
		}
		for i := range c.Entries {
			got = append(got, string(c.Entries[i].Key))
		}
		return nil
	})
	if err != nil || !l.Whole() || len(got) != 3 {
		t.Errorf("the log has %v, and is %+v, %v", got, l, err)
	}
}
