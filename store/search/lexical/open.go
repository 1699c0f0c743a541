package lexical

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"golang.org/x/sync/semaphore"

	"github.com/mnemeproxy/mneme/store/internal/wake"
)

// Options configure [Open].
type Options struct {
	// WriteAfter is how long documents may be only in memory; 0: a minute.
	WriteAfter time.Duration

	// Failed is called with errors of the index's goroutines. Any of them may call it at any time until the index is
	// closed.
	Failed func(error)
}

const defaultWriteAfter = time.Minute

// Open opens the index in dir, and creates it if it does not exist. Loss or damage is an error if opening notices it;
// [Index.Verify] finds the rest. Segments are not merged before that.
func Open(dir string, opts Options) (*Index, error) {
	ix := &Index{
		dir: dir, failed: opts.Failed, writeAfter: opts.WriteAfter, merging: gate{open: make(chan struct{})},
		writing: semaphore.NewWeighted(1), merges: semaphore.NewWeighted(1), head: newHead(nil),
		due: wake.New(), grown: wake.New(),
	}
	if ix.writeAfter == 0 {
		ix.writeAfter = defaultWriteAfter
	}
	err := ix.load()
	if errors.Is(err, fs.ErrNotExist) && Whole(dir) != nil {
		err = ix.note()
	}
	if err != nil {
		for _, s := range ix.segments {
			s.release()
		}
		return nil, fmt.Errorf("open the lexical index: %w", err)
	}
	ix.removeStrangers()
	if len(ix.segments) == 0 {
		ix.merging.allow()
	}
	var ctx context.Context
	ctx, ix.cancel = context.WithCancel(context.Background())
	ix.beside.Go(func() { ix.write(ctx) })
	ix.beside.Go(func() { ix.merge(ctx) })
	return ix, nil
}

// listFile lists the segments and their removed documents, and ends with a checksum. Of files that change together it
// is written last.
const listFile = "segments"

const listTitle = "mneme lexical index 5"

func (ix *Index) path(name string) string { return filepath.Join(ix.dir, name) }

// Whole returns a [Damage] if there is no index in dir.
func Whole(dir string) error {
	path := filepath.Join(dir, listFile)
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &Damage{path, "it is missing"}
	}
	return err
}

const segmentExtension = ".seg"

// nextName returns an unused segment name.
func (ix *Index) nextName() string {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.last++
	return fmt.Sprintf("%012x%s", ix.last, segmentExtension)
}

// list returns the content of the list of segments.
func (ix *Index) list() []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\nlast %d\n", listTitle, ix.last)
	if ix.removed || ix.removals > ix.purged {
		b.WriteString("removed\n")
	}
	for _, s := range ix.segments {
		fmt.Fprintf(&b, "segment %s %d %08x\n", s.name, s.size, s.sum)
		for _, account := range sorted(s.gone) {
			numbers, err := s.gone[account].numbers.ToBase64()
			if err != nil {
				panic(err) // it is written to memory
			}
			fmt.Fprintf(&b, "gone %d %s\n", account, numbers)
		}
	}
	fmt.Fprintf(&b, "sum %08x\n", crc32.ChecksumIEEE(b.Bytes()))
	return b.Bytes()
}

// note writes the current list. Then the files of replaced segments are removed.
func (ix *Index) note() error {
	ix.noting.Lock()
	defer ix.noting.Unlock()
	ix.mu.RLock()
	list, replaced := ix.list(), len(ix.replaced)
	ix.mu.RUnlock()
	if err := writeSynced(ix.path(listFile), list); err != nil {
		return err
	}
	ix.mu.Lock()
	done := slices.Clone(ix.replaced[:replaced])
	ix.replaced = slices.Delete(ix.replaced, 0, replaced)
	ix.mu.Unlock()
	for _, s := range done {
		s.obsolete.Store(true)
		s.release()
	}
	return nil
}

// writeSynced replaces a file atomically.
func writeSynced(path string, content []byte) error {
	next := path + ".next"
	file, err := os.OpenFile(next, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(content)
	err = errors.Join(err, file.Sync(), file.Close())
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return err
	}
	if dir, err := os.Open(filepath.Dir(path)); err == nil { // if directories can be synced
		_ = dir.Sync()
		_ = dir.Close()
	}
	return nil
}

var errList = errors.New("it is not as it was written")

// load reads the list, and opens the segments.
func (ix *Index) load() error {
	path := ix.path(listFile)
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := Contain(func() error { return ix.read(content) }); err != nil {
		var damage *Damage
		if errors.As(err, &damage) {
			return damage
		}
		return &Damage{path, err.Error()}
	}
	return nil
}

func (ix *Index) read(content []byte) error {
	content, summed := cutSum(content)
	lines := strings.Split(string(content), "\n")
	if !summed || lines[0] != listTitle {
		return errList
	}
	for _, line := range lines[1:] {
		words := strings.Split(line, " ")
		var err error
		switch {
		case words[0] == "last" && len(words) == 2:
			ix.last, err = strconv.ParseUint(words[1], 10, 64)
		case line == "removed":
			ix.removed = true
		case words[0] == "segment" && len(words) == 4:
			err = ix.readSegment(words[1], words[2], words[3])
		case words[0] == "gone" && len(words) == 3 && len(ix.segments) > 0:
			err = ix.segments[len(ix.segments)-1].readGone(words[1], words[2])
		default:
			err = errList
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// cutSum returns the lines before the checksum; summed reports whether it matches.
func cutSum(content []byte) (lines []byte, summed bool) {
	end := bytes.LastIndex(content, []byte("\nsum "))
	if end < 0 {
		return nil, false
	}
	return content[:end], string(content[end+1:]) == fmt.Sprintf("sum %08x\n", crc32.ChecksumIEEE(content[:end+1]))
}

func (ix *Index) readSegment(name, size, sum string) error {
	bytes, err := strconv.ParseInt(size, 10, 64)
	if err != nil {
		return err
	}
	crc, err := strconv.ParseUint(sum, 16, 32)
	if err != nil {
		return err
	}
	path := ix.path(filepath.Base(name))
	s, err := openSegment(path, name, bytes, uint32(crc))
	if errors.Is(err, fs.ErrNotExist) {
		return &Damage{path, "it is missing"}
	}
	if err == nil {
		ix.segments = append(ix.segments, s)
	}
	return err
}

func (s *segment) readGone(account, encoded string) error {
	number, err := strconv.ParseUint(account, 10, 32)
	if err != nil {
		return err
	}
	content, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return err
	}
	g := &goneSet{numbers: roaring.New()}
	if _, err := g.numbers.ReadFrom(bytes.NewReader(content)); err != nil {
		return err
	}
	err = Contain(func() error {
		d := s.section(uint32(number))
		if d == nil || g.numbers.GetCardinality() > 0 && g.numbers.Maximum() >= d.many {
			return &Damage{s.path, "the list of segments names documents that it does not have"}
		}
		for it := g.numbers.Iterator(); it.HasNext(); {
			l := d.lengths(it.Next())
			g.totals.add(&l)
		}
		return nil
	})
	var panicked *PanicError
	if errors.As(err, &panicked) {
		return &Damage{s.path, "its directory is not as it was written"}
	}
	s.gone[uint32(number)] = g
	return err
}

// removeStrangers removes files that a killed process had not listed or removed yet.
func (ix *Index) removeStrangers() {
	files, _ := filepath.Glob(ix.path("*" + segmentExtension))
	for _, path := range files {
		if !slices.ContainsFunc(ix.segments, func(s *segment) bool { return s.path == path }) {
			_ = os.Remove(path)
		}
	}
}
