package files

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/salvage"
	"github.com/mnemeproxy/mneme/store/volume"
)

// The note of the last stop is beside the database. It says that the store is in use, or describes its files when it
// was closed.

const (
	stopNoteFile = "stop.json"

	noteVersion  = 1
	noteEdges    = 64 << 10 // bytes of a large file's ends that are summed
	noteWhole    = 2 << 20  // smaller files are summed whole
	noteChecksum = 16       // bytes
)

// stopNote is the state in which the store was left.
type stopNote struct {
	Version int        `json:"version"`
	Clean   bool       `json:"clean"` // it was closed; otherwise it is in use, or was killed
	Boot    string     `json:"boot,omitempty"`
	Format  int        `json:"format,omitempty"` // of the store
	Proof   []byte     `json:"proof,omitempty"`  // of the master key (see [Key]); none while the key is being changed
	Files   []fileNote `json:"files,omitempty"`  // of the database, if it was closed

	Settled []settledFile `json:"settled,omitempty"` // of the database, closed or in use
}

type fileNote struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	Sum  string `json:"sum"`
}

// size returns the noted size of a file; -1: none.
func (n *stopNote) size(name string) int64 {
	if n != nil {
		for _, f := range n.Files {
			if f.Name == name {
				return f.Size
			}
		}
	}
	return -1
}

var errStopNote = errors.New("it is not as it was written")

// readStopNote returns nil if there is no note, as in a store of an earlier version.
func readStopNote(dir string) (*stopNote, error) {
	data, err := os.ReadFile(filepath.Join(dir, stopNoteFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	text, sum, ok := bytes.Cut(data, []byte("\n"))
	var n stopNote
	if !ok || !bytes.Equal(bytes.TrimSpace(sum), hexSum(text)) || json.Unmarshal(text, &n) != nil {
		return nil, errStopNote
	}
	return &n, nil
}

func writeStopNote(dir string, n *stopNote) error {
	n.Version, n.Boot = noteVersion, bootID()
	text, err := json.Marshal(n)
	if err != nil {
		return err
	}
	return volume.WriteSynced(filepath.Join(dir, stopNoteFile), slices.Concat(text, []byte("\n"), hexSum(text), []byte("\n")))
}

func hexSum(data []byte) []byte {
	sum := blake3.Sum256(data)
	return hex.AppendEncode(nil, sum[:noteChecksum])
}

// noteStop describes the files of the closed database; tables are its last ones.
func (d *Database) noteStop(proof []byte, tables []badger.TableInfo) error {
	n := &stopNote{Clean: true, Format: d.format, Proof: proof, Settled: settledFiles(d.dir, tables, math.MaxUint32)}
	entries, err := os.ReadDir(d.path(""))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !isDataFile(e.Name()) {
			continue
		}
		f, err := describe(d.path(e.Name()), math.MaxInt64)
		if err != nil {
			return err
		}
		n.Files = append(n.Files, f)
	}
	return writeStopNote(d.dir, n)
}

func isDataFile(name string) bool {
	switch name {
	case badger.ManifestFilename, registryFile, discardFile:
		return true
	}
	return slices.Contains([]string{".sst", ".vlog", ".mem"}, filepath.Ext(name))
}

// describe checksums a file up to a size, or the ends of a large one: the middle of tables and logs has checksums of its
// own.
func describe(path string, upTo int64) (fileNote, error) {
	file, err := os.Open(path)
	if err != nil {
		return fileNote{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fileNote{}, err
	}
	size := min(info.Size(), upTo)
	sum := blake3.New()
	if size <= noteWhole {
		_, err = io.Copy(sum, io.NewSectionReader(file, 0, size))
	} else {
		_, err = io.Copy(sum, io.MultiReader(io.NewSectionReader(file, 0, noteEdges), io.NewSectionReader(file, size-noteEdges, noteEdges)))
	}
	return fileNote{filepath.Base(path), size, hex.EncodeToString(sum.Sum(nil)[:noteChecksum])}, err
}

// compare checks that the files are as they were when the store was closed. A program that opened the database since and
// refused the store for its format has removed value logs that hold nothing, and may have counted dead bytes again.
func (s *Survey) compare(note *stopNote) error {
	settled := make(map[string]settledFile, len(note.Settled))
	for _, was := range note.Settled {
		settled[was.Name] = was
	}
	for _, was := range note.Files {
		if _, trusted := s.trusted[was.Name]; trusted {
			continue
		}
		derived := was.Name == registryFile || was.Name == discardFile
		is, err := describe(s.path(was.Name), math.MaxInt64)
		switch {
		case errors.Is(err, fs.ErrNotExist) && derived:
			s.name(was.Name, "it was missing; it is made again, and nothing is lost by it")
		case errors.Is(err, fs.ErrNotExist) && filepath.Ext(was.Name) == ".vlog" && was.Size <= salvage.HeaderSize:
		case errors.Is(err, fs.ErrNotExist):
			s.refuse(was.Name, "it is missing")
		case err != nil:
			return err
		case is == was:
			s.trustSummed(was, settled)
		case was.Name == discardFile: // it is checked by itself
		case derived:
			s.replace(was.Name, nil, "it is not as it was written; it is made again, and nothing is lost by it")
		default:
			s.changed[was.Name] = was
		}
	}
	return nil
}

// trustSummed trusts a table that is too young to be trusted by its time, if all of it is summed.
func (s *Survey) trustSummed(table fileNote, settled map[string]settledFile) {
	was, ok := settled[table.Name]
	if ok && s.trusted != nil && filepath.Ext(table.Name) == ".sst" && table.Size <= noteWhole {
		s.trusted[table.Name] = was
	}
}

// holdsNothing reports whether a log has no record, and nothing else was written to it: a program that opened the
// database and was refused, or killed, leaves such logs.
func (s *Survey) holdsNothing(name string) (bool, error) {
	if kind := filepath.Ext(name); kind != ".vlog" && kind != ".mem" {
		return false, nil
	}
	l, err := salvage.ReadLog(s.path(name), func(*salvage.Record) error { return nil })
	return l.Records == 0 && l.Whole() && l.Tail == salvage.TailEmpty, err
}

// onlyExtended reports whether a value log that was read holds what it held when the store was closed, followed by zeros.
func (s *Survey) onlyExtended(was fileNote, l *salvage.Log) (bool, error) {
	if l.Tail != salvage.TailEmpty || l.End > was.Size {
		return false, nil
	}
	is, err := describe(s.path(was.Name), was.Size)
	return is == was, err
}

// bootID is constant until the machine restarts; "": unknown.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}

// NotedProof returns the proof of the key with which the store in dir was last opened; nil: unknown.
func NotedProof(dir string) []byte {
	note, err := readStopNote(dir)
	if err != nil || note == nil { // the survey reports an unreadable note
		return nil
	}
	return note.Proof
}

// NotedFormat returns the format of the store in dir; 0: unknown.
func NotedFormat(dir string) int {
	note, err := readStopNote(dir)
	if err != nil || note == nil {
		return 0
	}
	return note.Format
}

// NoteKey records the proof of another key.
func (d *Database) NoteKey(proof []byte) error {
	d.noted = nil
	return writeStopNote(d.dir, &stopNote{Format: d.format, Proof: proof})
}

// noteInUse records that the store is open, and so that it was not closed if no later note follows. A note that says so
// already stays unchanged: proofs of the same key differ.
func (d *Database) noteInUse(key Key) error {
	note := &stopNote{Format: d.format}
	if key != nil && !key.Changing() {
		was, err := readStopNote(d.dir)
		if err == nil && was != nil && !was.Clean && was.Format == d.format && was.Boot == bootID() && was.Proof != nil && key.Check(was.Proof) == nil {
			return nil
		}
		note.Proof = key.Proof()
	}
	return writeStopNote(d.dir, note)
}
