package store

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dgraph-io/badger/v4"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/salvage"
	"github.com/mnemeproxy/mneme/store/volume"
)

// The database is opened only when all its files are accounted for. Badger deletes tables that its manifest does not
// list, begins an empty database where there is no manifest, cuts a log off at the first record that is wrong, and
// passes over blocks that it cannot read. So its files are read before it sees them.
//
// What a killed process leaves is normal: a record at the end of a log that was not finished, and tables that were not
// listed yet or not removed yet. Logs that are damaged are mended, with the file as it was found kept beside it, so that
// what can be read is served and what is lost has a name. All other damage keeps the store from being opened.

// Damage is something that is wrong with a file of the store.
type Damage struct {
	File    string    `json:"file"` // in the store directory
	Problem string    `json:"problem"`
	Found   time.Time `json:"found"`
	Kept    string    `json:"kept,omitempty"` // where in the store directory the file lies as it was found; "": where it was
	Lost    []string  `json:"lost,omitempty"` // what was lost by it, as far as that is known
}

const (
	damagedDir  = "damaged"  // files as they were found, and a note on each
	leftoverDir = "leftover" // tables that a killed process has left over, until the store is closed

	maxNamed = 1000 // of what is lost by one damage
)

func (d *Damage) String() string { return d.File + ": " + d.Problem }

// DamageError says why a store is not opened.
type DamageError struct {
	Dir    string
	Damage []Damage
}

func (e *DamageError) Error() string {
	d := e.Damage[0]
	more := ""
	if n := len(e.Damage) - 1; n > 0 {
		more = fmt.Sprintf(" (and %d more)", n)
	}
	return fmt.Sprintf("%s is damaged: %s%s; nothing was changed. Put the file back, restore a backup with mneme restore, or get out what can be read with mneme recover",
		filepath.Join(e.Dir, d.File), d.Problem, more)
}

// survey is what was found out about the files of a database before it is opened.
type survey struct {
	dir      string   // the store's
	fatal    []Damage // keep it from being opened
	mendable []mendable
	named    []Damage // serve as they are
	leftover []string // tables
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

// examine reads the files of the database in dir. Nothing is changed.
func examine(dir string, reads thoroughness) (*survey, error) {
	s := &survey{dir: dir, values: make(map[uint32]valueLogFile), changed: make(map[string]fileNote)}
	note, err := readStopNote(dir)
	if err != nil {
		s.named = append(s.named, *s.damage(stopNoteFile, "%v; it is made again, and nothing is lost by it", err))
	}
	entries, err := os.ReadDir(filepath.Join(dir, databaseDir))
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

func (s *survey) path(name string) string { return filepath.Join(s.dir, databaseDir, name) }

func (s *survey) damage(file, format string, args ...any) *Damage {
	return &Damage{File: file, Problem: fmt.Sprintf(format, args...), Found: time.Now().UTC()}
}

// refuse keeps the store from being opened because of a file of the database.
func (s *survey) refuse(name, format string, args ...any) {
	file := filepath.Join(databaseDir, name)
	if !slices.ContainsFunc(s.fatal, func(d Damage) bool { return d.File == file }) {
		s.fatal = append(s.fatal, *s.damage(file, format, args...))
	}
}

func (s *survey) replace(name string, mend func(from, to string) error, format string, args ...any) {
	file := filepath.Join(databaseDir, name)
	if !slices.ContainsFunc(s.mendable, func(m mendable) bool { return m.File == file }) {
		s.mendable = append(s.mendable, mendable{*s.damage(file, format, args...), mend})
	}
}

func (s *survey) name(name, format string, args ...any) {
	s.named = append(s.named, *s.damage(filepath.Join(databaseDir, name), format, args...))
}

func fileNumber(name string) (uint32, error) {
	n, err := strconv.ParseUint(strings.TrimSuffix(name, filepath.Ext(name)), 10, 31)
	return uint32(n), err
}

// What Badger keeps beside its data, and makes again where it is not there.
const (
	registryFile = "KEYREGISTRY" // keys of an encryption that is not used
	discardFile  = "DISCARD"     // how much of each value log is dead
)

// examineSmall looks at files that nothing is lost by, but that Badger stumbles over.
func (s *survey) examineSmall() error {
	registry, err := os.ReadFile(s.path(registryFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && (len(registry) != 28 || string(registry[16:]) != "Hello Badger") {
		s.replace(registryFile, nil, "it is not as it was written; it is made again, and nothing is lost by it")
	}
	discard, err := os.ReadFile(s.path(discardFile))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err == nil && !soundDiscards(discard) {
		s.replace(discardFile, nil, "it is not as it was written; it is made again, and nothing is lost by it")
	}
	return nil
}

// soundDiscards reports whether the counts of dead bytes, 16 bytes for a value log, ascend by its number and end with zeros.
func soundDiscards(data []byte) bool {
	if len(data) < 1<<20 || len(data)%16 != 0 {
		return len(data) == 0
	}
	last, ended := uint64(0), false
	for at := 0; at < len(data); at += 16 {
		number, dead := beUint64(data[at:]), beUint64(data[at+8:])
		switch {
		case number == 0:
			ended = true
			if dead != 0 {
				return false
			}
		case ended, number <= last, number > 1<<32, dead > 1<<40:
			return false
		}
		last = max(last, number)
	}
	return true
}

func beUint64(b []byte) (v uint64) {
	for _, c := range b[:8] {
		v = v<<8 | uint64(c)
	}
	return v
}

// examineValues reads the value logs that are not trusted: the newest, which Badger would cut off, of the others the newest as
// far as they have no more than budget bytes, those that have changed since the store was closed, and the heads of all.
func (s *survey) examineValues(names []string, budget int64) error {
	for _, name := range slices.Backward(names) { // the names have as many digits each, until there are a million
		number, _ := fileNumber(name)
		info, err := os.Stat(s.path(name))
		if err != nil {
			return err
		}
		if _, trusted := s.trusted[name]; trusted {
			s.values[number] = valueLogFile{size: info.Size()}
			continue
		}
		was, changed := s.changed[name]
		newest := number == s.maxValue
		if budget -= info.Size(); !newest && !changed && budget < 0 {
			if err := s.examineHead(name, number, info.Size()); err != nil {
				return err
			}
			continue
		}
		if newest { // its file is larger than what was written, until it is full
			budget += info.Size()
		}
		l, err := salvage.ReadLog(s.path(name), func(*salvage.Record) error { return nil })
		if err != nil {
			return err
		}
		s.values[number] = valueLogFile{l.End, l.Bad}
		switch {
		case !l.Whole(), l.Size < salvage.HeaderSize:
			s.distrusted = true
			s.replace(name, salvage.MendValues, "%s", logProblem(&l))
		case changed:
			s.distrusted = true
			s.replace(name, salvage.MendValues, "it has %d bytes, and had %d when the store was closed; %d records can be read", l.Size, was.Size, l.Records)
		}
	}
	return nil
}

func (s *survey) examineHead(name string, number uint32, size int64) error {
	file, err := os.Open(s.path(name))
	if err != nil {
		return err
	}
	defer file.Close()
	s.values[number] = valueLogFile{size: size}
	head := make([]byte, 8)
	if n, _ := file.ReadAt(head, 0); n < len(head) || beUint64(head) != 0 {
		s.distrusted = true
		s.replace(name, salvage.MendValues, "its head is damaged")
	}
	return nil
}

// emptyLog is a log of no bytes, as a process leaves it that is killed while it makes one.
const emptyLog = "it is empty"

func logProblem(l *salvage.Log) string {
	switch {
	case len(l.Bad) > 1:
		return fmt.Sprintf("it is damaged at %d places, from byte %d on; %d records can be read", len(l.Bad), l.Bad[0].From, l.Records)
	case len(l.Bad) == 1:
		return fmt.Sprintf("bytes %d to %d are damaged; %d other records can be read", l.Bad[0].From, l.Bad[0].To, l.Records)
	case l.Header:
		return "its head is damaged; nothing is lost by it"
	case l.Size == 0:
		return emptyLog
	}
	return fmt.Sprintf("what stands behind its last record, at byte %d, is not what was written; %d records can be read", l.End, l.Records)
}

// examineTables reads the logs of memory tables and the tables that are not trusted, and compares the tables with the manifest.
func (s *survey) examineTables(tables, memories []string) error {
	manifest, err := salvage.ReadManifest(s.path(badger.ManifestFilename))
	if errors.Is(err, fs.ErrNotExist) {
		s.refuse(badger.ManifestFilename, "it is missing, and says which files are the store's data")
		return nil
	}
	if err != nil {
		s.refuse(badger.ManifestFilename, "%v", err)
		return nil
	}
	unlisted := make(map[string]string) // version and key to table
	known := make(map[uint64]bool)
	for _, name := range tables {
		number, _ := fileNumber(name)
		known[uint64(number)] = true
		if _, listed := manifest.Tables[uint64(number)]; listed {
			continue
		}
		s.leftover = append(s.leftover, name)
		if _, removed := manifest.Removed[uint64(number)]; removed {
			continue
		}
		if _, err := salvage.ReadTable(s.path(name), func(e *salvage.Entry) error {
			unlisted[versionedKey(e)] = name
			return nil
		}); err != nil {
			return err
		}
	}
	visit := func(e *salvage.Entry) error {
		if len(unlisted) > 0 {
			delete(unlisted, versionedKey(e))
		}
		s.follow(e)
		return nil
	}
	for number := range manifest.Tables {
		if !known[number] {
			s.refuse(fmt.Sprintf("%06d.sst", number), "it is missing")
		}
	}
	for _, name := range tables {
		if slices.Contains(s.leftover, name) || len(unlisted) == 0 && s.passesOver(name) {
			continue
		}
		t, err := salvage.ReadTable(s.path(name), visit)
		if err != nil {
			return err
		}
		s.newest = max(s.newest, t.Newest)
		if !t.Whole() {
			s.refuse(name, "%s", t.Problem())
		}
	}
	for _, name := range memories {
		if err := s.examineMemory(name, visit); err != nil {
			return err
		}
	}
	for _, table := range unlisted {
		s.refuse(badger.ManifestFilename, "it does not list %s, which holds data that is nowhere else", table)
		break
	}
	for _, was := range s.changed {
		if filepath.Ext(was.Name) != ".vlog" {
			s.refuse(was.Name, "it is not as it was when the store was closed")
		}
	}
	if manifest.Cut > 0 {
		s.replace(badger.ManifestFilename, copyFile, "its last %d bytes are incomplete; all tables are accounted for", manifest.Cut)
	}
	return nil
}

func versionedKey(e *salvage.Entry) string { return fmt.Sprintf("%016x%s", e.Version, e.Key) }

func (s *survey) examineMemory(name string, visit func(*salvage.Entry) error) error {
	l, err := salvage.ReadCommits(s.path(name), func(commit []salvage.Entry) error {
		for i := range commit {
			s.newest = max(s.newest, commit[i].Version)
			if err := visit(&commit[i]); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	switch {
	case !l.Whole(), l.Size < salvage.HeaderSize:
		s.replace(name, salvage.MendCommits, "%s", logProblem(&l))
	case l.Tail == salvage.TailTorn:
		s.torn = append(s.torn, name)
	}
	return nil
}

// follow looks whether there is a value where an entry leads.
func (s *survey) follow(e *salvage.Entry) {
	p, ok := e.Pointer()
	if !ok {
		return
	}
	if p.File > s.maxValue { // Badger would give its number to a new file, and what leads here would lead into that
		s.refuse(fmt.Sprintf("%06d.vlog", p.File), "it is missing")
		return
	}
	f, there := s.values[p.File]
	from, to := int64(p.Offset), int64(p.Offset)+int64(p.Size)
	if there && to <= f.size && !slices.ContainsFunc(f.bad, func(b salvage.Stretch) bool { return from < b.To && to > b.From }) {
		return
	}
	if p.File == s.maxValue && to > f.size { // what Badger would cut off as unfinished was finished
		s.replace(fmt.Sprintf("%06d.vlog", p.File), salvage.MendValues, "it ends at byte %d, and values are missing behind that", f.size)
	}
	s.dangling = append(s.dangling, dangling{slices.Clone(e.Key), e.Version, p.File})
}

// settle makes the database fit to be opened: it keeps damaged files aside and puts mended ones in their place.
func (s *survey) settle() error {
	if len(s.fatal) > 0 {
		return &DamageError{s.dir, s.fatal}
	}
	for _, name := range s.leftover {
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

// replace keeps the file aside before anything takes its place. An interruption leaves the file where it was.
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

// keep keeps the file as it was found. Another one has to take its place, not other bytes.
func (d *Damage) keep(dir string) error {
	return d.keepBy(dir, func(from, to string) error {
		if os.Link(from, to) == nil { // some file systems know no links
			return nil
		}
		return copyFile(from, to)
	})
}

// keepCopy is keep for a file of the open database, which cuts files to nothing before it removes them.
func (d *Damage) keepCopy(dir string) error { return d.keepBy(dir, copyFile) }

func (d *Damage) keepBy(dir string, put func(from, to string) error) error {
	if err := os.MkdirAll(filepath.Join(dir, damagedDir), 0o700); err != nil {
		return err
	}
	kept := filepath.Join(damagedDir, d.Found.Format("20060102T150405.000")+"-"+filepath.Base(d.File))
	if err := put(filepath.Join(dir, d.File), filepath.Join(dir, kept)); err != nil {
		return err
	}
	d.Kept = kept
	return nil
}

// copyFile is also how a file is mended that its reader cuts off: the one that is kept stays as it was.
func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = out.ReadFrom(in)
	return errors.Join(err, out.Sync(), out.Close())
}

// tell puts on record what was found, once the database is open and knows what was lost.
func (s *survey) tell(st *core) {
	lost := make(map[string][]string)
	count := make(map[string]int)
	if len(s.dangling) > 0 {
		_ = st.view(func(tx *badger.Txn) error {
			for _, d := range s.dangling {
				item, err := tx.Get(d.key)
				if err != nil || item.Version() != d.version {
					continue
				}
				file := filepath.Join(databaseDir, fmt.Sprintf("%06d.vlog", d.file))
				if count[file]++; len(lost[file]) < maxNamed {
					lost[file] = append(lost[file], subjectOf(d.key))
				}
			}
			return nil
		})
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
			found = append(found, *s.damage(file, "it has been cut, or is missing"))
			i = len(found) - 1
		}
		found[i].Lost = slices.Compact(subjects)
		found[i].Problem += fmt.Sprintf("; %d values are lost", count[file])
	}
	for i := range found {
		found[i].tell(st.opts.Dir, st.log)
	}
}

// tell puts a damage of the store in dir on record.
func (d *Damage) tell(dir string, log *slog.Logger) {
	log.Error("the store is damaged", "file", d.File, "problem", d.Problem, "kept", d.Kept, "lost", d.Lost)
	if err := d.note(dir); err != nil {
		log.Error("a damage of the store could not be noted", "file", d.File, "error", err)
	}
}

// subjectOf names what a key belongs to.
func subjectOf(key []byte) string {
	if len(key) > 5 {
		rest := key[5:]
		switch key[0] {
		case kv.SpaceExchange, kv.SpaceOpen, kv.SpaceRequest, kv.SpaceResponse, kv.SpaceBelongs, kv.SpaceOutbox, kv.SpaceTurn:
			if len(rest) >= len(kv.ExchangeID{}) {
				return kv.ExchangeID(rest[:len(kv.ExchangeID{})]).String()
			}
		case kv.SpaceVector:
			if n := len(rest) - len(kv.ExchangeID{}); n >= 0 {
				return kv.ExchangeID(rest[n:]).String()
			}
		case kv.SpaceSession, kv.SpaceMember, kv.SpaceMove, kv.SpaceSummary, kv.SpaceSessionChange, kv.SpaceUnsummarized:
			if len(rest) >= len(kv.SessionID{}) {
				return kv.SessionID(rest[:len(kv.SessionID{})]).String()
			}
		case kv.SpaceBlock:
			return fmt.Sprintf("block %x", rest)
		case kv.SpaceNode:
			return fmt.Sprintf("node %x", rest)
		}
	}
	switch {
	case len(key) > 1 && key[0] == kv.SpaceAccount:
		return "account " + string(key[1:])
	case len(key) > 1 && key[0] == kv.SpaceKey:
		return "service key " + string(key[1:])
	}
	return fmt.Sprintf("record %x", key)
}

// note keeps a damage on record until somebody takes the note away.
func (d *Damage) note(dir string) error {
	for _, other := range Damages(dir) {
		if other.File == d.File && other.Problem == d.Problem {
			return nil
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, damagedDir), 0o700); err != nil {
		return err
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return err
	}
	name := d.Found.Format("20060102T150405.000") + "-" + filepath.Base(d.File) + ".json"
	return volume.WriteSynced(filepath.Join(dir, damagedDir, name), append(text, '\n'))
}

// Damages gives what was found to be wrong with the files of the store in dir and was noted. A note stays until it is
// taken out of the directory "damaged", where the files lie as they were found.
func Damages(dir string) (all []Damage) {
	notes, _ := filepath.Glob(filepath.Join(dir, damagedDir, "*.json"))
	for _, path := range notes {
		text, err := os.ReadFile(path)
		var d Damage
		if err != nil || json.Unmarshal(text, &d) != nil {
			name, _ := filepath.Rel(dir, path)
			d = Damage{File: name, Problem: "this note on damage cannot be read"}
		}
		all = append(all, d)
	}
	return all
}

// Examine looks at the files of the store in dir and changes nothing. It gives what is wrong with them now, and what was
// noted before; of a store that is in use, which looks after its files itself, only that.
func Examine(dir string) ([]Damage, error) {
	all := Damages(dir)
	unlock, err := lockExisting(dir)
	if errors.Is(err, ErrInUse) || errors.Is(err, fs.ErrNotExist) {
		return all, nil
	}
	if err != nil {
		return all, err
	}
	defer unlock()
	s, err := examine(dir, whole)
	if err != nil {
		return all, err
	}
	all = append(all, s.fatal...)
	for _, m := range s.mendable {
		all = append(all, m.Damage)
	}
	return append(all, s.named...), nil
}
