package command

import (
	"os"
	"path/filepath"
	"testing"
)

// The doctor sees an index that cannot be built, and one that has come back.
func TestTheDoctorLooksAtTheSearchIndex(t *testing.T) {
	t.Setenv("MNEME_CONFIG", "")
	dir := t.TempDir()
	recordExchanges(t, dir, 1)
	index := filepath.Join(dir, "index")
	if err := os.WriteFile(index, nil, 0o600); err != nil { // a file where the directory should be
		t.Fatal(err)
	}
	doctor := &Doctor{Place: Place{Data: dir}}
	want := func(state string) {
		t.Helper()
		if found := doctor.examineIndex(t.Context()); len(found) != 1 || found[0].State != state {
			t.Errorf("%+v, want one that is %s", found, state)
		}
	}
	want(problem)
	if err := os.Remove(index); err != nil {
		t.Fatal(err)
	}
	doctor.examineIndex(t.Context()) // which begins another one
	want(good)
}
