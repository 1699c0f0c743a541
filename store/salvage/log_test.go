package salvage

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
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

// Badger reads past a mended place. What follows damage that is too short for a filler moves to the end.
func TestMendedDamageOfAnySizeIsReadPast(t *testing.T) {
	first, second := record("a", 1, 0, "first value"), record("b", 2, 0, "second value")
	for stray := 1; stray <= 40; stray++ {
		path, mended := writeLog(t, bytes.Repeat([]byte{0xee}, stray), first, second), filepath.Join(t.TempDir(), "mended")
		if err := MendValues(path, mended); err != nil {
			t.Fatal(err)
		}
		found := make(map[string]string)
		l, err := ReadLog(mended, func(r *Record) error {
			found[string(r.Key)] = string(r.Value)
			return nil
		})
		if err != nil || !l.Whole() || l.Tail != TailEmpty || found["a"] != "first value" || found["b"] != "second value" {
			t.Errorf("after %d stray bytes the mended log has %q, and is %+v, %v", stray, found, l, err)
		}
		if stray >= minRecord && l.Size != HeaderSize+int64(stray+len(first)+len(second)) {
			t.Errorf("after %d stray bytes the mended log has %d bytes", stray, l.Size)
		}
	}
}

// Every eighth byte claims a record of 32 MiB, or every seventh one of half a MiB: what is summed in vain is bounded, and the
// record behind is found.
func TestBytesThatClaimLargeRecordsAreReadInBoundedWork(t *testing.T) {
	for name, claim := range map[string][]byte{
		"32 MiB":  {0, 1, 8, 0x80, 0x80, 0x80, 0x10, 0},
		"512 KiB": {0, 1, 8, 0x80, 0x80, 0x20, 0},
	} {
		t.Run(name, func(t *testing.T) {
			path := writeLog(t, bytes.Repeat(claim, 100_000), record("a", 1, 0, "value"))
			if err := os.Truncate(path, 64<<20); err != nil {
				t.Fatal(err)
			}
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			w := &window{file: file, size: 64 << 20}
			at, err := w.resume(HeaderSize)
			if want := int64(HeaderSize + 100_000*len(claim)); err != nil || at != want {
				t.Errorf("the record is found at %d, and is at %d; %v", at, want, err)
			}
			if w.vain > maxVain+64<<20 {
				t.Errorf("%d bytes were summed in vain", w.vain)
			}
		})
	}
}

func TestARecordIsVerifiedByChecksumsOfBeginnings(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	data := make([]byte, 300_000)
	for i := range data {
		data[i] = byte(random.Uint32())
	}
	var stretches []Stretch
	for range 100 {
		from := random.Int64N(int64(len(data)) - 20)
		total := 5 + random.Int64N(min(int64(len(data))-from-5, 100_000))
		stretches = append(stretches, Stretch{from, from + total})
	}
	stretches = append(stretches, Stretch{0, sumStep + 4}, Stretch{sumStep, 2*sumStep + 4}, Stretch{0, int64(len(data))})
	for _, s := range stretches {
		body := data[s.From : s.To-4]
		was := bytes.Clone(data[s.To-4 : s.To])
		binary.BigEndian.PutUint32(data[s.To-4:], crc32.Checksum(body, castagnoli))
		path := filepath.Join(t.TempDir(), "data")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		v := &sums{file: file}
		if ok, err := v.sound(s.From, s.size()); !ok || err != nil {
			t.Errorf("%+v is not sound: %v", s, err)
		}
		if ok, err := v.sound(s.From+1, s.size()-1); ok || err != nil {
			t.Errorf("a byte less than %+v is sound: %v", s, err)
		}
		file.Close()
		copy(data[s.To-4:], was)
	}
}
