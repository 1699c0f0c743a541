package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zeebo/blake3"

	"github.com/mnemeproxy/mneme/store/internal/files"
	"github.com/mnemeproxy/mneme/store/record"
)

// allDamages makes the damage tests go through every place; without it they take a few (make damage).
const allDamages = "MNEME_TEST_DAMAGE"

// harmed is a store and what was acknowledged of it.
type harmed struct {
	dir    string
	said   map[string]string // request and answer by exchange
	erased []string
}

// departure is how a process leaves the store.
type departure int

const (
	closed departure = iota
	killed
	rewritten // killed after value logs were rewritten
)

// newHarmed makes a store of several tables and value logs with two accounts.
func newHarmed(t *testing.T, as departure) *harmed {
	t.Helper()
	h := &harmed{filepath.Join(t.TempDir(), "store"), make(map[string]string), nil}
	random := rand.New(rand.NewPCG(1, 2))
	dir := h.dir
	for round := range 3 {
		s, err := Open(Options{Dir: h.dir, Digest: digestTest})
		if err != nil {
			t.Fatal(err)
		}
		if round == 0 {
			mustAccount(t, s, "acme")
			mustAccount(t, s, "other")
		}
		for n := range 25 {
			account := [...]string{"acme", "other"}[n%2]
			request := fmt.Sprintf("request %d %d %x", round, n, random.Uint64())
			answer := strings.Repeat(fmt.Sprintf("answer %x ", random.Uint64()), 1+random.IntN(200))
			id := capture(t, s, account, request, answer)
			if n == 7 || as == rewritten && n%2 > 0 {
				erase(t, s, account, record.Selection{Exchanges: []string{id}})
				h.erased = append(h.erased, id)
				continue
			}
			h.said[id] = request + answer
		}
		(&talk{t, s}).idle()
		if as == killed && round == 2 {
			dir = filepath.Join(t.TempDir(), "killed")
			copyStore(t, h.dir, dir)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if as == rewritten {
		dir = filepath.Join(t.TempDir(), "rewritten")
		rewriteLogs(t, h.dir, dir)
	}
	h.dir = dir
	return h
}

// rewriteLogs merges the tables of a store, rewrites its value logs, and copies it as a kill leaves it then.
func rewriteLogs(t *testing.T, dir, to string) {
	t.Helper()
	s := openStore(t, Options{Dir: dir, Digest: digestTest})
	if logs, err := s.keeper.Space.Rewrite(t.Context(), 0.01); logs == 0 || err != nil {
		t.Fatalf("%d value logs were rewritten: %v", logs, err)
	}
	copyStore(t, dir, to)
}

// copyStore copies a directory; files stay sparse.
func copyStore(t *testing.T, from, to string) {
	t.Helper()
	err := filepath.WalkDir(from, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(from, path)
		if e.IsDir() {
			return os.MkdirAll(filepath.Join(to, name), 0o700)
		}
		in, err := os.Open(path)
		if err != nil {
			return err
		}
		defer in.Close()
		info, err := in.Stat()
		if err != nil {
			return err
		}
		out, err := os.OpenFile(filepath.Join(to, name), os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		for at := int64(0); at < info.Size(); {
			data, err := in.Seek(at, 3) // SEEK_DATA
			if err != nil {
				break
			}
			hole, err := in.Seek(data, 4) // SEEK_HOLE
			if err != nil {
				return err
			}
			if _, err := io.Copy(io.NewOffsetWriter(out, data), io.NewSectionReader(in, data, hole-data)); err != nil {
				return err
			}
			at = hole
		}
		return errors.Join(out.Truncate(info.Size()), out.Close())
	})
	if err != nil {
		t.Fatal(err)
	}
}

// written is how much of a file was written.
func written(t *testing.T, path string) int64 {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 64<<10)
	end := int64(0)
	for at := int64(0); at < info.Size(); {
		data, err := file.Seek(at, 3)
		if err != nil {
			break
		}
		n, _ := file.ReadAt(buf, data)
		if used := len(bytes.TrimRight(buf[:n], "\x00")); used > 0 {
			end = data + int64(used)
		}
		at = data + int64(n)
	}
	return end
}

// harm is something that happens to a file.
type harm struct {
	name string
	do   func(path string) error
}

func patch(path string, at int64, change func([]byte)) error {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	b := make([]byte, 4096)
	n, _ := file.ReadAt(b, at)
	change(b[:n])
	_, err = file.WriteAt(b[:n], at)
	return errors.Join(err, file.Close())
}

// harmsOf returns what can happen to a file of which size bytes were written.
func harmsOf(size int64, cuts, flips int) []harm {
	harms := []harm{
		{"deleted", os.Remove},
		{"garbage at the end", func(path string) error {
			file, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
			if err != nil {
				return err
			}
			_, err = file.Write(bytes.Repeat([]byte("garbage"), 100))
			return errors.Join(err, file.Close())
		}},
		{"three bytes", func(path string) error {
			return patch(path, size*2/5, func(b []byte) {
				for i := range min(3, len(b)) {
					b[i] ^= 0x5a
				}
			})
		}},
		{"a page of zeros", func(path string) error { return patch(path, size/3&^4095, func(b []byte) { clear(b) }) }},
	}
	for n := range cuts {
		at := size * int64(n+1) / int64(cuts+1)
		if n == 1 {
			at = 0
		}
		harms = append(harms, harm{fmt.Sprintf("cut at %d", at), func(path string) error { return os.Truncate(path, at) }})
	}
	random := rand.New(rand.NewPCG(3, 4))
	for n := range flips {
		at := size*int64(n)/int64(flips) + random.Int64N(max(1, size/int64(flips)))
		bit := byte(1) << random.IntN(8)
		harms = append(harms, harm{fmt.Sprintf("bit %#x of byte %d", bit, at), func(path string) error {
			return patch(path, at, func(b []byte) { b[0] ^= bit })
		}})
	}
	return harms
}

// TestNoDamageOfAFileIsHidden harms each file of a store in each way. The store then says that it is damaged and changes
// nothing, or it serves all that can be read and names the rest; and a new store is made out of what can be read.
func TestNoDamageOfAFileIsHidden(t *testing.T) {
	cuts, flips, every := 2, 3, 4 // of the few harms each file has every fourth, so that each comes to some file
	if os.Getenv(allDamages) != "" {
		cuts, flips, every = 20, 200, 1
	}
	for n, as := range []departure{closed, killed, rewritten} {
		h := newHarmed(t, as)
		for i, name := range filesOf(t, h.dir) {
			size := written(t, filepath.Join(h.dir, name))
			t.Run([...]string{"closed", "killed", "rewritten"}[as]+"/"+name, func(t *testing.T) {
				t.Parallel() // not each harm for itself: a parallel test keeps its store until all have ended
				for j, harm := range harmsOf(size, cuts, flips) {
					if (n+i+j)%every == 0 {
						t.Run(harm.name, func(t *testing.T) { h.try(t, name, harm) })
					}
				}
			})
		}
	}
}

// A log that was cut, or is damaged between its records, may lack an erasure. The store does not open then, and what was
// erased is not served.
func TestAStoreWhoseLogLacksAnErasureDoesNotOpen(t *testing.T) {
	dir := t.TempDir()
	s := openStore(t, Options{Dir: dir})
	mustAccount(t, s, "acme")
	id := capture(t, s, "acme", "question", "answer")
	log := newestOf(t, dir, "*.mem")
	before := written(t, log)
	erase(t, s, "acme", record.Selection{Exchanges: []string{id}})
	after := written(t, log)
	capture(t, s, "acme", "another question", "answer")
	for name, harm := range map[string]func(path string) error{
		"cut between records":   func(path string) error { return os.Truncate(path, before) },
		"cut inside a record":   func(path string) error { return os.Truncate(path, before+10) },
		"cut inside the commit": func(path string) error { return os.Truncate(path, after-10) },
		"zeros between records": func(path string) error { return overwrite(path, before, make([]byte, after-before)) },
	} {
		t.Run(name, func(t *testing.T) {
			left := filepath.Join(t.TempDir(), "killed")
			copyStore(t, dir, left)
			if err := harm(filepath.Join(left, files.DatabaseDir, filepath.Base(log))); err != nil {
				t.Fatal(err)
			}
			_, err := Open(Options{Dir: left})
			if damage := (*DamageError)(nil); !errors.As(err, &damage) || !strings.Contains(err.Error(), ".mem") || !strings.Contains(err.Error(), "what they erased") {
				t.Errorf("the store opens with %v", err)
			}
			report, err := Recover(t.Context(), Options{Dir: filepath.Join(t.TempDir(), "recovered")}, left)
			if err != nil || len(report.Damage) != 1 || !strings.Contains(report.Damage[0].Problem, "what they erased") {
				t.Errorf("recovering reports %+v, %v", report, err)
			}
		})
	}
}

func overwrite(path string, at int64, with []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(with, at)
	return errors.Join(err, file.Close())
}

func filesOf(t *testing.T, dir string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if name, _ := filepath.Rel(dir, path); err == nil && !e.IsDir() && name != files.LockFile && e.Name() != "LOCK" {
			names = append(names, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func (h *harmed) try(t *testing.T, name string, harm harm) {
	dir := filepath.Join(t.TempDir(), "store")
	copyStore(t, h.dir, dir)
	if err := harm.do(filepath.Join(dir, name)); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	s, err := Open(Options{Dir: dir, Digest: digestTest})
	if err != nil {
		h.refused(t, dir, name, harm, before, err)
		return
	}
	lost := h.unreadable(t, s)
	found := Damages(dir)
	var findings []Finding
	report, err := s.Upkeep().Check(t.Context(), false, func(f Finding) { findings = append(findings, f) })
	if err != nil {
		t.Errorf("the check failed: %v", err)
	}
	if len(lost) > 0 && len(found) == 0 {
		t.Errorf("%d exchanges cannot be read, and nothing was said at the start: %v", len(lost), lost[:1])
	}
	if len(lost)+len(found) > 0 && report.Findings == 0 {
		t.Errorf("%d exchanges cannot be read, %v was noted, and the check finds nothing", len(lost), found)
	}
	for _, id := range h.erased {
		if _, err := s.Archive().Exchange("", id); err == nil {
			t.Errorf("%s was erased, and is back", id)
		}
	}
	// A log that lacks where values were moved is only known by the value log that they were in.
	moved := filepath.Ext(name) == ".mem"
	if len(found) > 0 && !slices.ContainsFunc(found, func(d Damage) bool { return d.File == name || moved && strings.Contains(d.Problem, "*.mem") }) {
		t.Errorf("%s was harmed, and this was noted: %v", name, found)
	}
	if len(found) == 0 && len(lost) > 0 {
		t.Errorf("%v are lost, and no file is named", lost)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	h.kept(t, dir, name, before, found)
	h.recovered(t, dir, name, harm)
}

// refused looks that a store which is not opened says why, and is as it was.
func (h *harmed) refused(t *testing.T, dir, name string, harm harm, before map[string]string, err error) {
	t.Helper()
	if !strings.Contains(err.Error(), filepath.Base(name)) && !strings.Contains(err.Error(), filepath.Base(filepath.Dir(name))) {
		t.Errorf("the error does not name %s: %v", name, err)
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("the error has several lines: %v", err)
	}
	for file, was := range before {
		if summary(t, filepath.Join(dir, file)) != was {
			t.Errorf("the store was not opened, and %s has changed", file)
		}
	}
	h.recovered(t, dir, name, harm)
}

// kept looks that a damaged file is still there, as it was or where the note says.
func (h *harmed) kept(t *testing.T, dir, name string, before map[string]string, found []Damage) {
	t.Helper()
	for _, d := range found {
		if d.Kept == "" {
			continue
		}
		if summary(t, filepath.Join(dir, d.Kept)) != before[d.File] {
			t.Errorf("%s is not kept as it was found", d.File)
		}
	}
}

// recovered looks that all that is not in what was harmed comes out again.
func (h *harmed) recovered(t *testing.T, dir, name string, harm harm) {
	t.Helper()
	before := contents(t, dir)
	to := filepath.Join(t.TempDir(), "recovered")
	report, err := Recover(t.Context(), Options{Dir: to, Digest: digestTest}, dir)
	if err != nil {
		t.Errorf("nothing was recovered: %v", err)
		return
	}
	for file, was := range before {
		if summary(t, filepath.Join(dir, file)) != was {
			t.Errorf("recovering has changed %s", file)
		}
	}
	s := openStore(t, Options{Dir: to, Digest: digestTest})
	lost := h.unreadable(t, s)
	for _, f := range report.Findings {
		lost = append(lost, f.Subject)
	}
	mustBeSoundBut(t, s, lost)
	lost = h.unreadable(t, s)
	most := 0 // exchanges that have a key in the block of 4 KiB of a table, or a record of a log, that was harmed
	if kind := filepath.Ext(name); kind == ".sst" || kind == ".mem" || kind == ".vlog" {
		if most = 40; harm.name == "deleted" || strings.HasPrefix(harm.name, "cut") || strings.HasPrefix(harm.name, "a page") {
			most = len(h.said)
		}
	}
	if len(lost) > most {
		t.Errorf("%d of %d exchanges are not recovered, at most %d may be lost; the report is %+v", len(lost), len(h.said), most, report)
	}
	if len(lost) > 0 && len(report.Damage)+len(report.Findings) == 0 {
		t.Errorf("%v are not recovered, and the report does not say so", lost)
	}
}

func mustBeSoundBut(t *testing.T, s *Store, lost []string) {
	t.Helper()
	_, err := s.Upkeep().Check(t.Context(), false, func(f Finding) {
		if !slices.Contains(lost, f.Subject) {
			t.Errorf("the recovered store is not sound: %+v", f)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// unreadable returns the exchanges that cannot be read; those that can be read are compared with what was acknowledged.
func (h *harmed) unreadable(t *testing.T, s *Store) (lost []string) {
	t.Helper()
	for id, said := range h.said {
		x, err := s.Archive().Exchange("", id)
		if err != nil {
			lost = append(lost, id)
			continue
		}
		if got := string(x.RawRequest) + string(x.RawResponse); got != said && x.Outcome == record.OutcomeComplete {
			t.Errorf("%s says %.80q, and said %.80q", id, got, said)
		}
	}
	return lost
}

// contents sums the files of a directory.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	for _, name := range filesOf(t, dir) {
		all[name] = summary(t, filepath.Join(dir, name))
	}
	return all
}

// summary sums what was written of a file; "": it is not there.
func summary(t *testing.T, path string) string {
	t.Helper()
	if _, err := os.Stat(path); err != nil {
		return ""
	}
	data := make([]byte, written(t, path))
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	_, _ = file.ReadAt(data, 0)
	sum := blake3.Sum256(data)
	return string(sum[:])
}
