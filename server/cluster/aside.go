package cluster

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/ship"
)

// Entries and messages that a centre refuses are kept in a folder beside its store, for an operator to inspect. Entries
// of frames were acknowledged to a client, and no other copy may exist: all of them are kept and retried. Unsigned
// messages may come from anybody, so only a bounded number of them is kept.
const (
	asideDir      = "aside"
	entrySuffix   = ".entry"
	messageSuffix = ".message"

	asideMessages = 1000
)

type aside struct{ dir string }

// keepEntry stores an entry durably: without an error it survives a loss of power.
func (a aside) keepEntry(e *ship.Entry) error {
	return a.keep(ship.AppendEntries(nil, []ship.Entry{*e}), entrySuffix)
}

// keepMessage stores a message, unless there are too many.
func (a aside) keepMessage(message []byte) error {
	kept, err := a.list(messageSuffix)
	if err != nil || len(kept) >= asideMessages {
		return err
	}
	return a.keep(message, messageSuffix)
}

// keep writes a file named after the hash of its content, so that duplicates are stored once.
func (a aside) keep(content []byte, suffix string) error {
	if err := os.MkdirAll(a.dir, 0o700); err != nil {
		return fmt.Errorf("keep a refused entry or message: %w", err)
	}
	sum := blake3.Sum256(content)
	name := filepath.Join(a.dir, hex.EncodeToString(sum[:16])+suffix)
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	file, err := os.CreateTemp(a.dir, "new-*") // mode 0600
	if err != nil {
		return fmt.Errorf("keep a refused entry or message: %w", err)
	}
	_, err = file.Write(content)
	if err = errors.Join(err, file.Sync(), file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err != nil {
		_ = os.Remove(file.Name())
		return fmt.Errorf("keep a refused entry or message: %w", err)
	}
	return nil
}

func (a aside) list(suffix string) (names []string, err error) {
	files, err := os.ReadDir(a.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, file := range files {
		if strings.HasSuffix(file.Name(), suffix) {
			names = append(names, file.Name())
		}
	}
	return names, err
}

// eachEntry passes every entry to take, and removes those that take accepts.
func (a aside) eachEntry(take func(*ship.Entry) (taken bool)) error {
	names, err := a.list(entrySuffix)
	for _, name := range names {
		path := filepath.Join(a.dir, name)
		content, readErr := os.ReadFile(path)
		if readErr != nil {
			err = errors.Join(err, readErr)
			continue
		}
		entries, readErr := ship.ReadEntries(content)
		if readErr == nil && len(entries) == 1 && take(&entries[0]) {
			err = errors.Join(err, os.Remove(path))
		}
	}
	return err
}
