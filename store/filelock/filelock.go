// Package filelock locks a file for one process at a time.
package filelock

import (
	"errors"
	"os"
)

// ErrHeld says that another process holds the lock, or this one does already.
var ErrHeld = errors.New("the lock is held")

// Lock opens a file, makes it if there is none, and locks it, or fails with [ErrHeld] at once. Closing the file gives the
// lock back; so does the end of the process, however it ends.
func Lock(name string) (*os.File, error) {
	file, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lock(file); err != nil {
		_ = file.Close()
		return nil, err
	}
	return file, nil
}
