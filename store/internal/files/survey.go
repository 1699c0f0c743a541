package files

import (
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/mnemeproxy/mneme/store/salvage"
)

// Survey is the result of examining the files of a database before it is opened.
type Survey struct {
	Fatal    []Damage // faults that prevent opening
	Leftover []string // tables that a killed process had not listed or removed yet

	dir      string // the store's
	mendable []mendable
	named    []Damage // faults with which it can still serve
	dangling []dangling
	newest   uint64   // version
	torn     []string // logs of memory tables whose last record may be unfinished after a kill
	holed    []string // logs of memory tables that are damaged before the last record that can be read

	changed map[string]fileNote // files that have changed since the store was closed, as they were then

	trusted    map[string]settledFile // files that match a note
	distrusted bool                   // a value log does not match, so all tables are read
	unread     []string               // skipped tables

	values   map[uint32]valueLogFile
	maxValue uint32 // the newest value log
}

// mendable is a file to be replaced by a mended one.
type mendable struct {
	Damage
	mend func(from, to string) error // nil: Badger makes a new one
}

type valueLogFile struct {
	size int64
	bad  []salvage.Stretch // before size
}

// startReads is how much a start reads of value logs that may have changed: small stores are read completely.
const startReads = 256 << 20

// How much of the files is read.
type thoroughness bool

const (
	atStart thoroughness = false // what may have changed; of older value logs at most startReads
	whole   thoroughness = true
)

// Damage returns all faults of the files.
func (s *Survey) Damage() []Damage {
	all := slices.Clone(s.Fatal)
	for _, m := range s.mendable {
		all = append(all, m.Damage)
	}
	return append(all, s.named...)
}

// sort returns the names of the tables, of the logs of memory tables, and of the value logs.
func (s *Survey) sort(entries []fs.DirEntry) (tables, memories, values []string) {
	for _, e := range entries {
		name, kind := e.Name(), filepath.Ext(e.Name())
		if kind != ".sst" && kind != ".mem" && kind != ".vlog" {
			continue
		}
		number, err := fileNumber(name)
		if err != nil {
			s.refuse(name, "it has no name of a file of the store, and does not belong here")
			continue
		}
		switch kind {
		case ".sst":
			tables = append(tables, name)
		case ".mem":
			memories = append(memories, name)
		default:
			values = append(values, name)
			s.maxValue = max(s.maxValue, number)
		}
	}
	return tables, memories, values
}

func (s *Survey) path(name string) string { return filepath.Join(s.dir, DatabaseDir, name) }

// refuse prevents the store from opening because of a file of the database.
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
