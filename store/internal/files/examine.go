package files

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
)

// examine reads the files of the database in dir without changing anything.
func examine(dir string, reads thoroughness) (*Survey, error) {
	s := &Survey{dir: dir, values: make(map[uint32]valueLogFile), changed: make(map[string]fileNote)}
	note, err := readStopNote(dir)
	if err != nil {
		s.named = append(s.named, *newDamage(stopNoteFile, "%v; it is made again, and nothing is lost by it", err))
	}
	entries, err := os.ReadDir(filepath.Join(dir, DatabaseDir))
	if errors.Is(err, fs.ErrNotExist) {
		entries, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	tables, memories, values := s.sort(entries)
	budget := int64(math.MaxInt64)
	if reads == atStart {
		budget = startReads
		s.trust(note)
	}
	if note != nil {
		if err := s.compare(note); err != nil {
			return nil, err
		}
	}
	if len(tables)+len(memories)+len(values) == 0 && (note == nil || !note.Clean) {
		return s, nil // a new store
	}
	if note != nil && note.Clean {
		for _, name := range slices.Concat(tables, memories, values) {
			if note.size(name) >= 0 {
				continue
			}
			harmless, err := s.holdsNothing(name)
			if err != nil {
				return nil, err
			}
			if !harmless {
				s.refuse(name, "it was not there when the store was closed")
			}
		}
	}
	if err := s.examineSmall(); err != nil {
		return nil, err
	}
	if err := s.examineValues(values, budget); err != nil {
		return nil, err
	}
	if err := s.examineTables(tables, memories); err != nil {
		return nil, err
	}
	s.examineCommits(note)
	return s, nil
}

// Examine reads all files of the database in dir without changing anything.
func Examine(dir string) (*Survey, error) { return examine(dir, whole) }

// Inspect checks the files of the store in dir without changing anything. It returns the present faults and the
// recorded ones; for a store in use, which checks its own files, only the latter.
func Inspect(dir string) ([]Damage, error) {
	all := Damages(dir)
	unlock, err := LockExisting(dir)
	if errors.Is(err, ErrInUse) || errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, err
	}
	defer unlock()
	s, err := Examine(dir)
	if err != nil {
		return nil, err
	}
	return append(all, s.Damage()...), nil
}
