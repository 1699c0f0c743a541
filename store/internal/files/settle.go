package files

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/volume"
)

// settle prepares the database for opening: it sets damaged files aside and replaces them with mended ones.
func (s *Survey) settle() error {
	if len(s.Fatal) > 0 {
		return &DamageError{s.dir, s.Fatal}
	}
	for _, name := range s.Leftover {
		if err := os.MkdirAll(filepath.Join(s.dir, leftoverDir), 0o700); err != nil {
			return err
		}
		if err := os.Rename(s.path(name), filepath.Join(s.dir, leftoverDir, name)); err != nil {
			return err
		}
	}
	for i := range s.mendable {
		if err := s.mendable[i].replace(s.dir); err != nil {
			return fmt.Errorf("keep %s aside as it was found: %w", s.mendable[i].File, err)
		}
	}
	return nil
}

// replace keeps the original before anything replaces the file. After an interruption the file is still in place.
func (m *mendable) replace(dir string) error {
	path := filepath.Join(dir, m.File)
	info, err := os.Stat(path)
	if err != nil {
		return err
	}
	mended := path + ".mended"
	if m.mend != nil {
		if err := m.mend(path, mended); err != nil {
			return err
		}
	}
	if info.Size() > 0 {
		if err := m.keep(dir); err != nil {
			return err
		}
	}
	if m.mend == nil {
		return os.Remove(path)
	}
	return volume.RenameSynced(mended, path)
}

// report records what was found, once the database is open and the losses are known.
func (s *Survey) report(db *Database) {
	lost := make(map[string][]string)
	count := make(map[string]int)
	for _, d := range db.unreadable(s.dangling) {
		file := filepath.Join(DatabaseDir, fmt.Sprintf("%06d.vlog", d.file))
		if count[file]++; len(lost[file]) < MaxNamed {
			lost[file] = append(lost[file], kv.SubjectOf(d.key))
		}
	}
	found := s.named
	for i := range s.mendable {
		if m := &s.mendable[i]; m.Problem != emptyLog {
			found = append(found, m.Damage)
		}
	}
	for file, subjects := range lost {
		slices.Sort(subjects)
		i := slices.IndexFunc(found, func(d Damage) bool { return d.File == file })
		if i < 0 {
			found = append(found, *newDamage(file, "it has been cut, or is missing, or the log (*.mem) that says where its values were moved to is"))
			i = len(found) - 1
		}
		found[i].Lost = slices.Compact(subjects)
		found[i].Problem += fmt.Sprintf("; %d values are lost", count[file])
	}
	for i := range found {
		found[i].report(db.dir, db.log)
	}
}
