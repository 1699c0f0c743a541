package files

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/salvage"
)

// A finished table is never written again, and neither is a value log once there is a newer one: they are settled. The
// notes beside the database list them with the time of their last change, so that a start only reads files that may
// have changed. The skipped tables are read once the store serves, which finds bits lost by the volume.

// settledFile is a file of the database when a note was written.
type settledFile struct {
	Name     string `json:"name"`
	Size     int64  `json:"size,omitempty"`     // 0: of a value log that is still being written
	Modified int64  `json:"modified,omitempty"` // nanoseconds since 1970; 0: too recent for a later change to be visible
	Newest   uint64 `json:"newest,omitempty"`   // version in a table
}

// settleAge is how old a change must be for the next one to have another time: file systems have a resolution of up to
// two seconds.
const settleAge = 3 * time.Second

// settledFiles lists tables, and the value logs in dir; those from number writing on are still being written.
func settledFiles(dir string, tables []badger.TableInfo, writing uint32) (all []settledFile) {
	young := time.Now().Add(-settleAge)
	describe := func(name string) (f settledFile, ok bool) {
		info, err := os.Stat(filepath.Join(dir, DatabaseDir, name))
		if err != nil {
			return f, false // no longer needed
		}
		f = settledFile{Name: name, Size: info.Size()}
		if info.ModTime().Before(young) {
			f.Modified = info.ModTime().UnixNano()
		}
		return f, true
	}
	for i := range tables {
		if f, ok := describe(tableName(tables[i].ID)); ok {
			f.Newest = tables[i].MaxVersion
			all = append(all, f)
		}
	}
	logs, _ := filepath.Glob(filepath.Join(dir, DatabaseDir, "*.vlog"))
	for _, path := range logs {
		f, ok := describe(filepath.Base(path))
		if !ok || f.Size <= salvage.HeaderSize { // Badger removes logs without a record
			continue
		}
		if number, err := fileNumber(f.Name); err != nil || number >= writing {
			f.Size, f.Modified = 0, 0
		}
		all = append(all, f)
	}
	return all
}

func tableName(id uint64) string { return fmt.Sprintf("%06d.sst", id) }

// trust finds the files that match the note, which need not be read. If a value log does not match, every table is
// read, because entries may lead there. After a machine crash, written data may be missing although the times match.
func (s *Survey) trust(note *stopNote) {
	if note == nil || !note.Clean && (note.Boot == "" || note.Boot != bootID()) {
		return
	}
	s.trusted = make(map[string]settledFile, len(note.Settled))
	for _, was := range note.Settled {
		info, err := os.Stat(s.path(was.Name))
		unchanged := err == nil && info.Size() == was.Size && info.ModTime().UnixNano() == was.Modified
		switch {
		case unchanged:
			s.trusted[was.Name] = was
		case filepath.Ext(was.Name) != ".vlog":
		case err != nil, was.Size > 0 && info.Size() != was.Size, was.Modified != 0:
			s.distrusted = true
		}
	}
}

// passesOver reports whether a start can skip a table.
func (s *Survey) passesOver(name string) bool {
	was, ok := s.trusted[name]
	if !ok || s.distrusted {
		return false
	}
	s.newest = max(s.newest, was.Newest)
	s.unread = append(s.unread, name)
	return true
}

// NoteSettled records for a store in use what a start after a kill need not read, unless the last note says the same. It
// must not be called concurrently.
func (d *Database) NoteSettled() error {
	settled := settledFiles(d.dir, d.tables.sound(), newestValueLog(d.dir))
	if d.noted != nil && slices.Equal(settled, d.noted) {
		return nil
	}
	note, err := readStopNote(d.dir)
	if err != nil || note == nil {
		return err
	}
	note.Settled = settled
	if err := writeStopNote(d.dir, note); err != nil {
		return err
	}
	d.noted = settled
	return nil
}

func newestValueLog(dir string) (newest uint32) {
	logs, _ := filepath.Glob(filepath.Join(dir, DatabaseDir, "*.vlog"))
	for _, path := range logs {
		if number, err := fileNumber(filepath.Base(path)); err == nil {
			newest = max(newest, number)
		}
	}
	return newest
}
