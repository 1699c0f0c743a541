package files

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/salvage"
)

// The file of commits is beside the database and shows whether the database is complete. It has the version of the last
// acknowledged commit; the same commit writes an entry that is never removed, so that the two can be compared.
const commitsFile = "commits"

// CommitKey is the key of that entry.
var CommitKey = kv.NameKey(kv.SpaceMeta, "commit")

// commitFile holds the version of the last commit.
type commitFile struct {
	file *os.File
}

func (c *commitFile) open(dir string) (err error) {
	c.file, err = os.OpenFile(filepath.Join(dir, commitsFile), os.O_CREATE|os.O_RDWR, 0o600)
	return err
}

// write replaces the version in one write, which the end of the process cannot split.
func (c *commitFile) write(version uint64) error {
	if c.file == nil {
		return nil
	}
	var b [12]byte
	binary.BigEndian.PutUint64(b[:], version)
	binary.BigEndian.PutUint32(b[8:], crc32.ChecksumIEEE(b[:8]))
	_, err := c.file.WriteAt(b[:], 0)
	return err
}

func (c *commitFile) close() error {
	if c.file == nil {
		return nil
	}
	return c.file.Close()
}

// noteCommits starts with the database's last commit.
func (d *Database) noteCommits() error {
	var version uint64
	err := d.View(func(tx *badger.Txn) error {
		item, err := tx.Get(CommitKey)
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err == nil {
			version = item.Version()
		}
		return err
	})
	return errors.Join(err, d.commits.write(version))
}

// lastCommit returns the version of the last acknowledged commit; 0: unknown.
func lastCommit(dir string) (uint64, error) {
	b, err := os.ReadFile(filepath.Join(dir, commitsFile))
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(b) == 0 {
		return 0, nil
	}
	if err == nil && (len(b) != 12 || crc32.ChecksumIEEE(b[:8]) != binary.BigEndian.Uint32(b[8:])) {
		err = errStopNote
	}
	if err != nil {
		return 0, err
	}
	return binary.BigEndian.Uint64(b), nil
}

// examineCommits checks that all acknowledged commits are there: up to the last one, and in the logs of memory tables
// before it. A machine crash may lose some, unless the store is opened with durability power; a killed process loses
// none. Without them erased data may be back, so the store is not opened unless the machine went down.
func (s *Survey) examineCommits(note *stopNote) {
	last, err := lastCommit(s.dir)
	if err != nil {
		s.named = append(s.named, *newDamage(commitsFile, "%v; it is made again, and nothing is lost by it", err))
	}
	if len(s.Fatal) > 0 {
		return
	}
	down := note != nil && !note.Clean && (note.Boot == "" || note.Boot != bootID())
	for _, name := range s.holed {
		s.lacks(name, "commits in it are lost", down)
	}
	if last <= s.newest {
		return
	}
	for _, name := range s.torn { // they would be truncated as unfinished, but were finished
		s.replace(name, salvage.MendCommits, "it is damaged after its last whole commit")
	}
	missing := fmt.Sprintf("commits %d to %d, which were acknowledged, are in none of its files", s.newest+1, last)
	cut := slices.IndexFunc(s.mendable, func(m mendable) bool { return filepath.Ext(m.File) == ".mem" })
	switch {
	case cut >= 0:
		s.lacks(filepath.Base(s.mendable[cut].File), missing, down)
	case len(s.Fatal) > 0: // its log is named
	case down:
		s.name("", "%s: %s: the machine went down before they were on disk", missing, lossOfCommits)
	default:
		s.refuse("", "%s: %s: a log (*.mem) is missing, or was cut", missing, lossOfCommits)
	}
}

const lossOfCommits = "what they recorded is lost, and what they erased is not erased"

// lacks notes that a mendable log lacks acknowledged commits: the store is not opened, unless the machine went down.
func (s *Survey) lacks(name, commits string, down bool) {
	at := slices.IndexFunc(s.mendable, func(m mendable) bool { return filepath.Base(m.File) == name })
	m := &s.mendable[at]
	m.Problem += fmt.Sprintf("; %s: %s", commits, lossOfCommits)
	if !down {
		s.refuse(name, "%s", m.Problem)
		s.mendable = slices.Delete(s.mendable, at, at+1)
	}
}

// NoteCommit records the version of a commit that is about to be acknowledged, with the entry of [CommitKey].
func (d *Database) NoteCommit(version uint64) error { return d.commits.write(version) }
