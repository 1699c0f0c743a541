package files

import (
	"os"
	"testing"
)

func TestADirectoryThatOthersMayListIsMadePrivate(t *testing.T) {
	dir, _ := closedWith(t, "a")
	must(t, os.Chmod(dir, 0o755))
	closeAndUnlock(t, openIn(t, dir))
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("it has mode %v, %v", info.Mode(), err)
	}
	must(t, os.Chmod(dir, 0o777|os.ModeSticky)) // shared with others, such as /tmp
	closeAndUnlock(t, openIn(t, dir))
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o777 {
		t.Errorf("a shared directory has mode %v, %v", info.Mode(), err)
	}
}
