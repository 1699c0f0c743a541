package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/record"
)

// killedStore makes a store with n exchanges in tables and another n in the newest logs, as a killed process leaves it.
func killedStore(t *testing.T, n int) (dir string, ids []string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "store")
	for round := range 2 {
		s, err := Open(Options{Dir: dir})
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			mustAccount(t, s, "acme")
		}
		for i := range n {
			ids = append(ids, capture(t, s, "acme", fmt.Sprintf("question %d of %d", i, round), strings.Repeat("answer ", 100)))
		}
		if round == 1 {
			left := filepath.Join(t.TempDir(), "killed")
			copyStore(t, dir, left)
			dir = left
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return dir, ids
}

// readable counts the exchanges that are listed and can be read.
func readable(t *testing.T, s *Store, ids []string) (n int) {
	t.Helper()
	for _, id := range ids {
		if _, err := s.Archive().Exchange("acme", id); err == nil {
			n++
		}
	}
	return n
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, 0o600)
}

func newestOf(t *testing.T, dir, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, files.DatabaseDir, pattern))
	if err != nil || len(found) == 0 {
		t.Fatalf("there is no %s: %v", pattern, err)
	}
	return found[len(found)-1]
}

func TestAStoreWithoutItsManifestIsNotOpenedAndKeepsItsTables(t *testing.T) {
	for name, harm := range map[string]func(path string) error{
		"missing": os.Remove,
		"cut":     func(path string) error { return os.Truncate(path, 14) },
		"empty":   func(path string) error { return os.Truncate(path, 0) },
		"foreign": func(path string) error {
			other := openStore(t, Options{})
			return copyFile(filepath.Join(other.opts.Dir, files.DatabaseDir, "MANIFEST"), path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, _ := killedStore(t, 5)
			if err := harm(filepath.Join(dir, files.DatabaseDir, "MANIFEST")); err != nil {
				t.Fatal(err)
			}
			before := contents(t, dir)
			_, err := Open(Options{Dir: dir})
			if damage := (*DamageError)(nil); !errors.As(err, &damage) || !strings.Contains(err.Error(), "MANIFEST") || !strings.Contains(err.Error(), "mneme recover") {
				t.Fatalf("the store opens with %v", err)
			}
			for file, was := range contents(t, dir) {
				if before[file] != was {
					t.Errorf("%s has changed", file)
				}
			}
			if _, err := os.Stat(filepath.Join(dir, files.DatabaseDir, "000001.sst")); err != nil {
				t.Error(err)
			}
		})
	}
}

// One flipped bit in the middle of the newest value log costs only that record, and nothing that was acknowledged after it.
func TestOneBitOfTheNewestValueLogCostsNoMoreThanARecord(t *testing.T) {
	dir, ids := killedStore(t, 40)
	path := newestOf(t, dir, "*.vlog")
	if err := flip(t, path); err != nil {
		t.Fatal(err)
	}
	before := summary(t, path)
	s := openStore(t, Options{Dir: dir})
	if n := readable(t, s, ids); n < len(ids)-1 {
		t.Errorf("%d of %d exchanges can be read", n, len(ids))
	}
	found := Damages(dir)
	if len(found) != 1 || !strings.HasSuffix(path, found[0].File) || summary(t, filepath.Join(dir, found[0].Kept)) != before {
		t.Fatalf("this was noted: %+v", found)
	}
	named := false
	if _, err := s.Upkeep().Check(t.Context(), false, func(f Finding) { named = named || f.Subject == found[0].File }); err != nil || !named {
		t.Errorf("the check does not name the file (%v)", err)
	}
}

// One flipped bit in a memory table's log may be that of an erasure. The store does not open, and recovering it costs only
// that record.
func TestOneBitOfTheNewestMemoryLogCostsARecoveryAndNoMoreThanARecord(t *testing.T) {
	dir, ids := killedStore(t, 40)
	path := newestOf(t, dir, "*.mem")
	if err := flip(t, path); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{Dir: dir})
	if damage := (*DamageError)(nil); !errors.As(err, &damage) || !strings.Contains(err.Error(), filepath.Base(path)) || !strings.Contains(err.Error(), "mneme recover") {
		t.Errorf("the store opens with %v", err)
	}
	to := t.TempDir()
	report, err := Recover(t.Context(), Options{Dir: to}, dir)
	if err != nil || len(report.Damage) != 1 || !strings.HasSuffix(path, report.Damage[0].File) {
		t.Fatalf("recovering reports %+v, %v", report, err)
	}
	if n := readable(t, openStore(t, Options{Dir: to}), ids); n < len(ids)-1 {
		t.Errorf("%d of %d exchanges can be read", n, len(ids))
	}
}

// flip flips a bit at a tenth of what was written of a file.
func flip(t *testing.T, path string) error {
	t.Helper()
	return patch(path, written(t, path)/10, func(b []byte) { b[0] ^= 1 })
}

func TestADeletedLogIsDetected(t *testing.T) {
	dir, _ := killedStore(t, 5)
	if err := os.Remove(newestOf(t, dir, "*.mem")); err != nil {
		t.Fatal(err)
	}
	_, err := Open(Options{Dir: dir})
	if damage := (*DamageError)(nil); !errors.As(err, &damage) || !strings.Contains(err.Error(), "commits") {
		t.Errorf("the store opens with %v", err)
	}
}

// After a power failure, the last commits may be missing: that is reported, and the store opens.
func TestCommitsLostInAPowerFailureAreNamed(t *testing.T) {
	dir, _ := killedStore(t, 5)
	if err := os.Remove(newestOf(t, dir, "*.mem")); err != nil {
		t.Fatal(err)
	}
	text := `{"version":1,"clean":false,"boot":"another"}`
	sum := blake3.Sum256([]byte(text))
	if err := os.WriteFile(filepath.Join(dir, "stop.json"), fmt.Appendf(nil, "%s\n%x\n", text, sum[:16]), 0o600); err != nil {
		t.Fatal(err)
	}
	openStore(t, Options{Dir: dir})
	if found := Damages(dir); len(found) != 1 || !strings.Contains(found[0].Problem, "the machine went down") {
		t.Errorf("this was noted: %+v", found)
	}
}

func TestAFileThatChangedWhileTheStoreWasClosedIsNoticed(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, dir string){
		"a log that does not belong to it": func(t *testing.T, dir string) {
			other, _ := killedStore(t, 1)
			if err := copyFile(newestOf(t, other, "*.mem"), filepath.Join(dir, files.DatabaseDir, "00007.mem")); err != nil {
				t.Fatal(err)
			}
		},
		"a value log that is gone": func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, files.DatabaseDir, "000001.vlog")); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			for range 2 {
				s, err := Open(Options{Dir: dir})
				if err != nil {
					t.Fatal(err)
				}
				if len(s.Accounts().List()) == 0 {
					mustAccount(t, s, "acme")
				}
				capture(t, s, "acme", "question", strings.Repeat("answer ", 100))
				if err := s.Close(); err != nil {
					t.Fatal(err)
				}
			}
			harm(t, dir)
			if _, err := Open(Options{Dir: dir}); err == nil {
				t.Error("the store opens")
			}
		})
	}
}

func TestOnlyItsUserCanAccessTheFilesOfAStore(t *testing.T) {
	dir, _ := killedStore(t, 1)
	path := filepath.Join(dir, files.DatabaseDir, "000001.vlog")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("a file that others could read is %v (%v)", info.Mode(), err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, name := range filesOf(t, dir) {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s is %v (%v)", name, info.Mode(), err)
		}
	}
}

// Erased exchanges and revoked keys do not come back when what can be read is recovered.
func TestWhatWasErasedStaysErasedInARecoveredStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	s, err := Open(Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	mustAccount(t, s, "acme")
	secret, key, err := s.Keys().Create("acme", AllScopes, "revoked")
	if err != nil {
		t.Fatal(err)
	}
	gone, stays := capture(t, s, "acme", "gone", "a"), capture(t, s, "acme", "stays", "b")
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if s, err = Open(Options{Dir: dir}); err != nil {
		t.Fatal(err)
	}
	erase(t, s, "acme", record.Selection{Exchanges: []string{gone}})
	if err := s.Keys().Revoke(key.ID); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, files.DatabaseDir, "MANIFEST")); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(t.TempDir(), "recovered")
	if _, err := Recover(t.Context(), Options{Dir: to}, dir); err != nil {
		t.Fatal(err)
	}
	r := openStore(t, Options{Dir: to})
	if _, err := r.Archive().Exchange("acme", gone); err == nil {
		t.Error("an exchange that was erased is back")
	}
	if _, err := r.Archive().Exchange("acme", stays); err != nil {
		t.Error(err)
	}
	if _, err := r.Keys().Authenticate(secret); err == nil {
		t.Error("a key that was revoked is valid again")
	}
}

// A value log is rewritten only if all of it can be read, because everything after damage would be lost.
func TestADamagedValueLogIsNotRewritten(t *testing.T) {
	for _, damaged := range []bool{false, true} {
		dir, ids := killedStore(t, 20)
		counts := filepath.Join(dir, files.DatabaseDir, "DISCARD")
		if err := patch(counts, 0, func(b []byte) { copy(b, []byte{7: 1, 11: 0xff, 15: 0xff}) }); err != nil { // all of it is dead
			t.Fatal(err)
		}
		s := openStore(t, Options{Dir: dir})
		path := filepath.Join(dir, files.DatabaseDir, "000001.vlog")
		if damaged {
			if err := patch(path, 400, func(b []byte) { b[0] ^= 1 }); err != nil {
				t.Fatal(err)
			}
		}
		s.keeper.Space.GiveBack(t.Context())
		if _, err := os.Stat(path); os.IsNotExist(err) == damaged {
			t.Errorf("damaged %t: the value log is there: %t", damaged, err == nil)
		}
		left := len(ids)
		if damaged {
			left-- // with the value that was patched
		}
		if n := readable(t, s, ids); n < left {
			t.Errorf("damaged %t: %d of %d exchanges can be read, want %d", damaged, n, len(ids), left)
		}
	}
}
