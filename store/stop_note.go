package store

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/internal/kv"
	"github.com/mnemeproxy/mneme/store/salvage"
	"github.com/mnemeproxy/mneme/store/volume"
)

// Two files stand beside the database, so that it can be seen whether all of it is there. The note of the last stop says
// that the store is in use, or what its files were like when it was closed. The file of commits has the version of the last
// commit that was acknowledged; the same commit carries an entry that is never removed ("m" "commit"), so that what the
// database has can be compared.

const (
	stopNoteFile = "stop.json"
	commitsFile  = "commits"

	commitKey = "commit" // meta key, written with each commit

	noteVersion  = 1
	noteEdges    = 64 << 10 // bytes of a large file's ends that are summed
	noteWhole    = 2 << 20  // smaller files are summed whole
	noteChecksum = 16       // bytes
)

// stopNote is how the store was left.
type stopNote struct {
	Version int        `json:"version"`
	Clean   bool       `json:"clean"` // it was closed; else it is in use, or was killed
	Boot    string     `json:"boot,omitempty"`
	Proof   []byte     `json:"proof,omitempty"` // of the master key (see sealer.proof); none while the key is being changed
	Files   []fileNote `json:"files,omitempty"` // of the database, where it was closed

	Settled []settledFile `json:"settled,omitempty"` // of the database, closed or in use
}

type fileNote struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
	Sum  string `json:"sum"`
}

// size gives what the note says of a file; -1: nothing.
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

// readStopNote gives nil where there is no note, as of a store of an earlier version.
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

// noteStop describes the files of a database that was closed; tables are those it had last.
func noteStop(dir string, proof []byte, tables []badger.TableInfo) error {
	n := &stopNote{Clean: true, Proof: proof, Settled: settledFiles(dir, tables, math.MaxUint32)}
	entries, err := os.ReadDir(filepath.Join(dir, databaseDir))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !isDataFile(e.Name()) {
			continue
		}
		f, err := describe(filepath.Join(dir, databaseDir, e.Name()))
		if err != nil {
			return err
		}
		n.Files = append(n.Files, f)
	}
	return writeStopNote(dir, n)
}

func isDataFile(name string) bool {
	switch name {
	case badger.ManifestFilename, registryFile, discardFile:
		return true
	}
	return slices.Contains([]string{".sst", ".vlog", ".mem"}, filepath.Ext(name))
}

// describe sums a file, or the ends of a large one: the middle of tables and logs has checksums of its own.
func describe(path string) (fileNote, error) {
	file, err := os.Open(path)
	if err != nil {
		return fileNote{}, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fileNote{}, err
	}
	size := info.Size()
	sum := blake3.New()
	if size <= noteWhole {
		_, err = io.Copy(sum, file)
	} else {
		_, err = io.Copy(sum, io.MultiReader(io.NewSectionReader(file, 0, noteEdges), io.NewSectionReader(file, size-noteEdges, noteEdges)))
	}
	return fileNote{filepath.Base(path), size, hex.EncodeToString(sum.Sum(nil)[:noteChecksum])}, err
}

// compare looks whether the files are as they were when the store was closed.
func (s *survey) compare(note *stopNote) error {
	for _, was := range note.Files {
		if _, trusted := s.trusted[was.Name]; trusted {
			continue
		}
		derived := was.Name == registryFile || was.Name == discardFile
		is, err := describe(s.path(was.Name))
		switch {
		case errors.Is(err, fs.ErrNotExist) && derived:
			s.name(was.Name, "it was missing; it is made again, and nothing is lost by it")
		case errors.Is(err, fs.ErrNotExist):
			s.refuse(was.Name, "it is missing")
		case err != nil:
			return err
		case is == was:
		case derived:
			s.replace(was.Name, nil, "it is not as it was written; it is made again, and nothing is lost by it")
		default:
			s.changed[was.Name] = was
		}
	}
	return nil
}

// commitFile holds the version of the last commit.
type commitFile struct {
	file *os.File
}

func (c *commitFile) open(dir string) (err error) {
	c.file, err = os.OpenFile(filepath.Join(dir, commitsFile), os.O_CREATE|os.O_RDWR, 0o600)
	return err
}

// write replaces the version, in one piece that no end of the process divides.
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

// noteCommits begins with the last commit that the database has.
func (s *core) noteCommits() error {
	var version uint64
	err := s.view(func(tx *badger.Txn) error {
		item, err := tx.Get(kv.NameKey(kv.SpaceMeta, commitKey))
		if errors.Is(err, badger.ErrKeyNotFound) {
			return nil
		}
		if err == nil {
			version = item.Version()
		}
		return err
	})
	return errors.Join(err, s.last.write(version))
}

// lastCommit gives the version of the last commit that was acknowledged; 0: it is not known.
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

// examineCommits looks whether the last commit that was acknowledged is there. A machine that went down may have taken the
// last ones with it, unless the store is opened with durability power; a process that was killed takes none.
func (s *survey) examineCommits(note *stopNote) {
	last, err := lastCommit(s.dir)
	if err != nil {
		s.named = append(s.named, *s.damage(commitsFile, "%v; it is made again, and nothing is lost by it", err))
		return
	}
	if last <= s.newest || len(s.fatal) > 0 {
		return
	}
	for _, name := range s.torn { // they would be cut off as unfinished, and were finished
		s.replace(name, salvage.MendCommits, "what stands behind its last whole commit is damaged")
	}
	const missing = "commits %d to %d, which were acknowledged, are in none of its files"
	for i := range s.mendable {
		if m := &s.mendable[i]; filepath.Ext(m.File) == ".mem" {
			m.Problem += fmt.Sprintf("; "+missing, s.newest+1, last)
			return
		}
	}
	if note == nil || note.Clean || note.Boot != "" && note.Boot == bootID() {
		s.refuse("", missing+": a log (*.mem) is missing, or was cut", s.newest+1, last)
		return
	}
	s.name("", missing+": the machine went down before they were on disk", s.newest+1, last)
}

// bootID is the same until the machine is started again; "": it cannot be known.
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(id))
}
