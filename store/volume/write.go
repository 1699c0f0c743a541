package volume

import (
	"errors"
	"os"
	"path/filepath"
)

// WriteSynced makes a file of mode 0600 that is there whole or not at all.
func WriteSynced(path string, data []byte) error {
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		return err
	}
	return RenameSynced(path+".new", path)
}

// RenameSynced renames so that a loss of power leaves the one name or the other.
func RenameSynced(from, to string) error {
	if err := os.Rename(from, to); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(to))
}
