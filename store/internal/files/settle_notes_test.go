package files

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"time"
)

func checked(t *testing.T, db *Database) (found []Damage) {
	t.Helper()
	must(t, db.Check(t.Context(), func(d Damage) { found = append(found, d) }))
	return found
}

func appendTo(t *testing.T, path string, content []byte) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	must(t, err)
	_, err = file.Write(content)
	must(t, err)
	must(t, file.Close())
}

// Whatever takes no data with it is reported by one check. The original stays, and the same damage is reported again.
func TestDamageByWhichNothingIsLostIsReportedOnce(t *testing.T) {
	for name, harm := range map[string]func(t *testing.T, dir string){
		"foreign bytes behind a log": func(t *testing.T, dir string) {
			appendTo(t, filepath.Join(dir, DatabaseDir, "000001.vlog"), bytes.Repeat([]byte("foreign"), 100))
		},
		"the note of the last stop": func(t *testing.T, dir string) { appendTo(t, filepath.Join(dir, stopNoteFile), []byte("x")) },
		"the file of commits":       func(t *testing.T, dir string) { appendTo(t, filepath.Join(dir, commitsFile), []byte("x")) },
		"counts of dead bytes": func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, DatabaseDir, discardFile), []byte("foreign"), 0o600))
		},
		"the registry of keys": func(t *testing.T, dir string) {
			must(t, os.WriteFile(filepath.Join(dir, DatabaseDir, registryFile), []byte("foreign"), 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir, values := closedThrice(t)
			for range 2 {
				harm(t, dir)
				db := openIn(t, dir)
				mustHold(t, db, values)
				if noted := Damages(dir); len(noted) != 1 {
					t.Errorf("noted are %+v", noted)
				}
				if found := checked(t, db); len(found) != 1 {
					t.Errorf("the first check finds %+v", found)
				}
				if found := append(checked(t, db), Damages(dir)...); len(found) > 0 {
					t.Errorf("the second check finds %+v", found)
				}
				closeAndUnlock(t, db)
			}
		})
	}
}

// Notes on values stay as long as one of the values that they name is unreadable. Others are settled without a report: the
// values were moved, replaced or erased.
func TestANoteIsSettledOnceTheValuesThatItNamesCanBeRead(t *testing.T) {
	dir, values := closedThrice(t)
	log := filepath.Join(dir, DatabaseDir, "000001.vlog")
	content, err := os.ReadFile(log)
	must(t, err)
	at := bytes.Index(content, values["0 0"])
	content[at+100] ^= 1
	must(t, os.WriteFile(log, content, 0o600))
	db := openIn(t, dir)
	defer closeAndUnlock(t, db)
	noted := Damages(dir)
	if len(noted) != 1 || len(noted[0].Lost) != 1 {
		t.Fatalf("noted are %+v", noted)
	}
	moved := newDamage(filepath.Join(DatabaseDir, "000007.vlog"), "it has been cut, or is missing; 2 values are lost")
	moved.Lost, moved.Found = []string{"record 302031", "an exchange that was erased"}, time.Now().Add(time.Second)
	must(t, moved.note(dir))
	for range 2 {
		if found := checked(t, db); len(found) != 1 || found[0].File != noted[0].File {
			t.Errorf("the check finds %+v", found)
		}
	}
	if left := Damages(dir); len(left) != 1 || left[0].File != noted[0].File {
		t.Errorf("noted are %+v", left)
	}
}

func TestANoteOnATableOrOnLostCommitsStays(t *testing.T) {
	dir, _ := closedWith(t, "a")
	db := openIn(t, dir)
	defer closeAndUnlock(t, db)
	must(t, newDamage(filepath.Join(DatabaseDir, "000001.sst"), "bytes 1 to 2 are damaged").note(dir))
	must(t, newDamage(filepath.Join(DatabaseDir, "00001.mem"), "it was cut; commits 1 to 2: %s", lossOfCommits).note(dir))
	for range 2 {
		if found := checked(t, db); len(found) != 2 {
			t.Errorf("the check finds %+v", found)
		}
	}
}
