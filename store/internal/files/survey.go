package files

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/store/salvage"
)

// Survey is what was found out about the files of a database before it is opened.
type Survey struct {
	Fatal    []Damage // keep it from being opened
	Leftover []string // tables that a killed process had not listed yet, or not removed yet

	dir      string // the store's
	mendable []mendable
	named    []Damage // serve as they are
	dangling []dangling
	newest   uint64   // version
	torn     []string // logs of memory tables whose last record a killed process may not have finished

	changed map[string]fileNote // files that are not as they were when the store was closed, as they were then

	trusted    map[string]settledFile // files that are as a note has them
	distrusted bool                   // a value log is not, so that all tables are read
	unread     []string               // tables that were passed over

	values   map[uint32]valueLogFile
	maxValue uint32 // the newest value log
}

// mendable is a file that a mended one takes the place of.
type mendable struct {
	Damage
	mend func(from, to string) error // nil: Badger makes a new one
}

type valueLogFile struct {
	size int64
	bad  []salvage.Stretch // before size
}

// dangling is an entry that leads to a value that cannot be read. Whether that is lost is known when it is known whether
// the entry is the last word on its key.
type dangling struct {
	key     []byte
	version uint64
	file    uint32
}

// startReads is how much a start reads of the value logs that it cannot know to be as they were left: small stores are read
// whole.
const startReads = 256 << 20

// How much of the files is read.
type thoroughness bool

const (
	atStart thoroughness = false // what is not known to be as it was left, of older value logs no more than startReads
	whole   thoroughness = true
)

// Examine reads all files of the database in dir, and changes nothing.
func Examine(dir string) (*Survey, error) { return examine(dir, whole) }

// Damage is all that is wrong with the files.
func (s *Survey) Damage() []Damage {
	all := slices.Clone(s.Fatal)
	for _, m := range s.mendable {
		all = append(all, m.Damage)
	}
	return append(all, s.named...)
}

// examine reads the files of the database in dir. Nothing is changed.
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
	var tables, memories, values []string
	for _, e := range entries {
		if kind := filepath.Ext(e.Name()); kind == ".sst" || kind == ".mem" || kind == ".vlog" {
			if _, err := fileNumber(e.Name()); err != nil {
				s.refuse(e.Name(), "it has no name of a file of the store, and does not belong here")
				continue
			}
			switch kind {
			case ".sst":
				tables = append(tables, e.Name())
			case ".mem":
				memories = append(memories, e.Name())
			default:
				values = append(values, e.Name())
				number, _ := fileNumber(e.Name())
				s.maxValue = max(s.maxValue, number)
			}
		}
	}
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
			if note.size(name) < 0 {
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

func (s *Survey) path(name string) string { return filepath.Join(s.dir, DatabaseDir, name) }

// refuse keeps the store from being opened because of a file of the database.
func (s *Survey) refuse(name, format string, args ...any) {
	file := filepath.Join(DatabaseDir, name)
	if !slices.ContainsFunc(s.Fatal, func(d Damage) bool { return d.File == file }) {
		s.Fatal = append(s.Fatal, *newDamage(file, format, args...))
	}
}

func (s *Survey) replace(name string, mend func(from, to string) error, format string, args ...any) {
	file := filepath.Join(DatabaseDir, name)
	if !slices.ContainsFunc(s.mendable, func(m mendable) bool { return m.File == file }) {
		s.mendable = append(s.mendable, mendable{*newDamage(file, format, args...), mend})
	}
}

func (s *Survey) name(name, format string, args ...any) {
	s.named = append(s.named, *newDamage(filepath.Join(DatabaseDir, name), format, args...))
}

func fileNumber(name string) (uint32, error) {
	n, err := strconv.ParseUint(strings.TrimSuffix(name, filepath.Ext(name)), 10, 31)
	return uint32(n), err
}
