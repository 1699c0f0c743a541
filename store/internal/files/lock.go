package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/mnemeproxy/mneme/store/filelock"
)

const (
	// DatabaseDir is the directory of the database in the store directory.
	DatabaseDir = "badger"

	// LockFile is the lock file in the store directory.
	LockFile = "lock"
)

// ErrInUse is returned if another process has the store.
var ErrInUse = errors.New("the store is open in another process")

// lockDir locks the store. The kernel releases the lock when the process ends, however it ends.
func lockDir(dir string) (*os.File, error) {
	file, err := filelock.Lock(filepath.Join(dir, LockFile))
	switch {
	case errors.Is(err, filelock.ErrHeld):
		return nil, fmt.Errorf("%s: %w", dir, ErrInUse)
	case err != nil:
		return nil, fmt.Errorf("lock the store: %w", err)
	}
	return file, nil
}

// LockExisting locks a store that must not change.
func LockExisting(dir string) (unlock func(), err error) {
	if _, err := os.Stat(filepath.Join(dir, DatabaseDir)); err != nil {
		return nil, fmt.Errorf("there is no store in %s: %w", dir, err)
	}
	if _, err := os.Stat(filepath.Join(dir, LockFile)); errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	return func() { _ = lock.Close() }, nil
}

// keepPrivate removes other users' permissions: Badger creates its files by the process's umask.
func keepPrivate(dir string) error {
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil || info.Mode().Perm()&0o077 == 0 || path == dir || !info.Mode().IsRegular() && !info.IsDir() {
			return nil //nolint:nilerr // a file that is gone meanwhile
		}
		return os.Chmod(path, info.Mode().Perm()&0o700)
	})
}

// keepDirPrivate is keepPrivate for the store's directory itself, which may be another user's, or shared.
func (d *Database) keepDirPrivate() {
	info, err := os.Stat(d.dir)
	if err != nil || info.Mode().Perm()&0o077 == 0 {
		return
	}
	if err = errors.ErrUnsupported; info.Mode()&fs.ModeSticky == 0 {
		err = os.Chmod(d.dir, info.Mode()&^0o077)
	}
	if err != nil {
		d.log.Warn("other users can list the store directory, though not read its files: give it mode 0700", "dir", d.dir, "error", err)
	}
}
