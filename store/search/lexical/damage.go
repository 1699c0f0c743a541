package lexical

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/blevesearch/bleve/v2/index/scorch"
	segment "github.com/blevesearch/scorch_segment_api/v2"
	bolterrors "go.etcd.io/bbolt/errors"
)

// Scorch trusts its files. A segment ends with a checksum of all before it, which nothing compares; root.bolt, which says
// which documents of the segments were taken out, has none for its values. So the segments are read in the background when
// an index has been opened, and until that is done none of them is merged into one whose checksum would be right. Closing
// an index leaves the checksums of its root.bolt files behind.

// Damage is something that is wrong with a file of the index.
type Damage struct{ File, Problem string }

func (d *Damage) Error() string { return d.File + ": " + d.Problem }

// PanicError is what reading the index gives where a damaged file made it panic or fault.
type PanicError struct {
	Value any
	Stack []byte // nil: it is not known
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("reading the lexical index panicked: %v", e.Value)
}

// Contain calls f, which reads the index, and makes a panic of f an error.
func Contain(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // what a cut file had is a fault where it is mapped
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{p, debug.Stack()}
		}
	}()
	return f()
}

const (
	readAtOnce = 256 << 10
	readPause  = 4 * time.Millisecond // after each: 64 MB/s at most
)

// Verify reads the files of all segments and reports those that are not as they were written. It may run beside
// searches and changes. Segments are merged from the first time on that it finds nothing.
func (ix *Index) Verify(ctx context.Context, found func(Damage)) error {
	whole := true
	for _, shard := range ix.shards {
		if err := verifyShard(ctx, shard, func(d Damage) {
			whole = false
			found(d)
		}); err != nil {
			return fmt.Errorf("verify the lexical index: %w", err)
		}
	}
	if whole {
		ix.merging.allow()
	}
	return nil
}

// Verified reports whether all segments that were there when the index was opened have been found to be whole.
func (ix *Index) Verified() bool {
	select {
	case <-ix.merging.open:
		return true
	default:
		return false
	}
}

// Examine reads the files of the index in dir, which no process has open, and reports what is wrong with them. Nothing is
// changed. An index that is in use looks after its files itself.
func Examine(ctx context.Context, dir string, found func(Damage)) error {
	if err := cmp.Or(Whole(dir), compareSums(dir)); err != nil {
		found(asDamage(err, dir))
		return nil
	}
	for i := range shardCount {
		shard, newest, err := load(shardDir(dir, i), map[string]any{"bolt_timeout": "10ms", "read_only": true}, nil)
		if errors.Is(err, bolterrors.ErrTimeout) {
			return nil
		}
		if err != nil {
			found(blame(dir, i, err))
			continue
		}
		if newest != nil {
			err = verifySegments(ctx, pathsOf(newest), found)
			err = errors.Join(err, newest.Close())
		}
		if err := errors.Join(err, shard.Close()); err != nil {
			return err
		}
	}
	return nil
}

// asDamage gives what keeps a file from being opened.
func asDamage(err error, file string) Damage {
	var damage *Damage
	if errors.As(err, &damage) {
		return *damage
	}
	return Damage{file, err.Error()}
}

var segmentNames = regexp.MustCompile(`[0-9a-f]{12}\.zap`)

// blame finds the file that keeps a shard from being opened.
func blame(dir string, i int, err error) Damage {
	dir = shardDir(dir, i)
	if name := segmentNames.FindString(err.Error()); name != "" { // it cannot be opened
		return Damage{filepath.Join(dir, name), err.Error()}
	}
	files, _ := filepath.Glob(filepath.Join(dir, "*.zap"))
	for _, path := range files {
		if problem, err := verifySegment(context.Background(), path); err == nil && problem != "" {
			return Damage{path, problem}
		}
	}
	return Damage{filepath.Join(dir, rootName), err.Error()}
}

func verifyShard(ctx context.Context, shard *scorch.Scorch, found func(Damage)) error {
	files, err := segmentsOf(shard)
	if err != nil {
		return err
	}
	var gone error
	err = verifySegments(ctx, files, func(d Damage) {
		if _, err := os.Stat(d.File); errors.Is(err, fs.ErrNotExist) { // it may have been merged meanwhile
			current, err := segmentsOf(shard)
			if gone = errors.Join(gone, err); !slices.Contains(current, d.File) {
				return
			}
		}
		found(d)
	})
	return errors.Join(err, gone)
}

func verifySegments(ctx context.Context, files []string, found func(Damage)) error {
	for _, path := range files {
		problem, err := verifySegment(ctx, path)
		if err != nil {
			return err
		}
		if problem != "" {
			found(Damage{path, problem})
		}
	}
	return nil
}

// segmentsOf gives the paths of the segments that are on disk.
func segmentsOf(shard *scorch.Scorch) (paths []string, err error) {
	reader, err := shard.Reader()
	if err != nil {
		return nil, err
	}
	snapshot, ok := reader.(*scorch.IndexSnapshot)
	if !ok {
		return nil, errors.Join(fmt.Errorf("a reader of type %T", reader), reader.Close())
	}
	return pathsOf(snapshot), reader.Close()
}

func pathsOf(snapshot *scorch.IndexSnapshot) (paths []string) {
	for _, s := range snapshot.Segments() {
		if onDisk, ok := s.Segment().(segment.PersistedSegment); ok {
			paths = append(paths, onDisk.Path())
		}
	}
	return paths
}

// verifySegment reads a file that ends with the CRC-32 of what is before; "": it is whole.
func verifySegment(ctx context.Context, path string) (problem string, err error) {
	file, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "it is missing", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return "", err
	}
	if info.Size() < crc32.Size {
		return fmt.Sprintf("it has %d bytes, which is no segment", info.Size()), nil
	}
	sum, end, buf := crc32.NewIEEE(), info.Size()-crc32.Size, make([]byte, readAtOnce)
	for at := int64(0); at < end; at += readAtOnce {
		n, err := file.ReadAt(buf[:min(readAtOnce, end-at)], at)
		if err != nil {
			return unreadableAt(at, err), nil
		}
		_, _ = sum.Write(buf[:n])
		if n < readAtOnce {
			break
		}
		select {
		case <-time.After(readPause):
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
	if _, err := file.ReadAt(buf[:crc32.Size], end); err != nil {
		return unreadableAt(end, err), nil
	}
	if binary.BigEndian.Uint32(buf) != sum.Sum32() {
		return "its checksum is not that of its content", nil
	}
	return "", nil
}

func unreadableAt(at int64, err error) string {
	return fmt.Sprintf("it cannot be read at byte %d: %v", at, err)
}

// sumsFile is in the directory of an index that was closed.
const sumsFile = "sums"

// sums gives a line for each root.bolt in dir, with its checksum, and one with the checksum of all lines.
func sums(dir string) (lines []byte, err error) {
	for i := range shardCount {
		sum, err := sumOf(rootFile(dir, i))
		if err != nil {
			return nil, err
		}
		lines = append(lines, sumLine(fmt.Sprintf("%02d", i), sum)...)
	}
	return append(lines, sumLine("--", crc32.ChecksumIEEE(lines))...), nil
}

// writeSums is for an index that was closed. Without them the index is opened like one whose process was killed.
func writeSums(dir string) {
	path := filepath.Join(dir, sumsFile)
	lines, err := sums(dir)
	if err == nil {
		err = os.WriteFile(path, lines, 0o600)
	}
	if err != nil {
		_ = os.Remove(path)
	}
}

func sumOf(path string) (uint32, error) {
	file, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	sum := crc32.NewIEEE()
	_, err = io.Copy(sum, file)
	return sum.Sum32(), err
}

// compareSums finds a root.bolt in dir that is not as it was when the index was closed. There are no sums of an index
// whose process was killed.
func compareSums(dir string) error {
	path := filepath.Join(dir, sumsFile)
	were, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	are, err := sums(dir)
	if err != nil || bytes.Equal(were, are) {
		return err
	}
	const line = len("00 01234567\n") // each of as many bytes, and of them as many as there are shards
	if end := shardCount * line; len(were) != end+line || !bytes.Equal(were[end:], sumLine("--", crc32.ChecksumIEEE(were[:end]))) {
		return &Damage{path, "it is not as it was written"}
	}
	i := 0
	for bytes.Equal(were[i*line:(i+1)*line], are[i*line:(i+1)*line]) {
		i++
	}
	return &Damage{rootFile(dir, i), "it is not as it was when the index was closed"}
}

func sumLine(name string, sum uint32) []byte { return fmt.Appendf(nil, "%s %08x\n", name, sum) }

// gate keeps segments from being merged until they have been verified.
type gate struct {
	once sync.Once
	open chan struct{}
}

func (g *gate) allow() { g.once.Do(func() { close(g.open) }) }

// Scorch reports what its goroutines do to functions that are registered by name for the whole process.
const callbacks = "mneme"

var owners sync.Map // of a shard, and of its path: its *Index

func init() {
	scorch.RegistryEventCallbacks[callbacks] = func(e scorch.Event) bool {
		owner, ok := owners.Load(e.Scorch)
		if !ok {
			return true
		}
		switch e.Kind {
		case scorch.EventKindPreMergeCheck, scorch.EventKindPersisterProgress, scorch.EventKindPurgerCheck:
			debug.SetPanicOnFault(true) // of the merger and the persister, which call this and recover from panics
		}
		switch ix := owner.(*Index); e.Kind {
		case scorch.EventKindCloseStart:
			ix.merging.allow()
		case scorch.EventKindPreMergeCheck:
			<-ix.merging.open
			if ix.closing.Load() { // the merger asks again until it is told to end, which is soon
				time.Sleep(time.Millisecond)
				return false
			}
		}
		return true
	}
	scorch.RegistryAsyncErrorCallbacks[callbacks] = func(err error, path string) {
		if ix, ok := owners.Load(path); ok {
			if errors.Is(err, scorch.ErrAsyncPanic) {
				err = &PanicError{Value: err}
			}
			ix.(*Index).failed(err)
		}
	}
}
