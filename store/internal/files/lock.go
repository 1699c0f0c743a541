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
	// DatabaseDir is where the database lies in the store directory.
	DatabaseDir = "badger"

	// LockFile is the file of the lock in the store directory.
	LockFile = "lock"
)

// ErrInUse is given where another process has the store.
var ErrInUse = errors.New("the store is open in another process")

// lockDir takes the store's lock. The kernel frees it when the process ends, however it ends.
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

// LockExisting keeps others out of a store that is to stay as it is.
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

// keepPrivate takes from other users what they could read of the store: Badger makes its files as the process's umask says.
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
