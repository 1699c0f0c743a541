package volume_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/mnemeproxy/mneme/store/volume"
)

func TestAVolumeHasSpaceAndItsFilesTakeSome(t *testing.T) {
	dir := t.TempDir()
	space, err := volume.SpaceOf(dir)
	if err != nil || space.Total <= 0 || space.Free < 0 || space.Free > space.Total {
		t.Errorf("%+v, %v", space, err)
	}
	if _, err := volume.SpaceOf(filepath.Join(dir, "missing")); err == nil {
		t.Error("a directory that is not there has space")
	}
	path := filepath.Join(dir, "f")
	if err := os.WriteFile(path, make([]byte, 10_000), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if taken := volume.Taken(info); taken < 10_000 || taken > 1<<20 {
		t.Errorf("a file of 10,000 bytes takes %d", taken)
	}
	if err := volume.SyncDir(dir); err != nil {
		t.Error(err)
	}
}
