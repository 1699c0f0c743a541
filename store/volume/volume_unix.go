//go:build unix

package volume

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// SpaceOf is the space of the volume that holds dir.
func SpaceOf(dir string) (Space, error) {
	var s unix.Statfs_t
	if err := unix.Statfs(dir, &s); err != nil {
		return Space{}, err
	}
	block := int64(s.Bsize) //nolint:unconvert // the type differs between systems
	return Space{Total: int64(s.Blocks) * block, Free: int64(s.Bavail) * block}, nil
}

// statBlock is the unit of stat's block count, whatever the volume's own block size is.
const statBlock = 512

// Taken is what a file takes on its volume in bytes, which is less than its length where it has holes.
func Taken(file fs.FileInfo) int64 {
	if stat, ok := file.Sys().(*syscall.Stat_t); ok {
		return stat.Blocks * statBlock
	}
	return file.Size()
}

// SyncDir makes sure that the names of the files in dir survive a loss of power.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
