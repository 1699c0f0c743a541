package lexical

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"runtime/debug"
	"sync"
	"time"
)

// A segment ends with a checksum of everything before it, and the list of segments repeats that checksum. Searches do
// not check it: segments are read in the background when an index has been opened. Until that is done, none of them is
// merged, because the result would have a correct checksum.

// Damage is a fault in a file of the index.
type Damage struct{ File, Problem string }

func (d *Damage) Error() string { return d.File + ": " + d.Problem }

// PanicError is the error for reading a damaged file that caused a panic or fault.
type PanicError struct {
	Value any
	Stack []byte // nil: unknown
}

func (e *PanicError) Error() string {
	return fmt.Sprintf("reading the lexical index panicked: %v", e.Value)
}

// Contain calls f, which reads the index, and turns a panic of f into an error.
func Contain(f func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true)) // reading the mapping of a truncated file is a fault
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

// Verify reads the files of the index and reports those that have changed since they were written. It may run
// concurrently with searches and changes. Segments are merged once it has found nothing.
func (ix *Index) Verify(ctx context.Context, found func(Damage)) error {
	ix.mu.RLock()
	segments := make([]*segment, len(ix.segments))
	for i, s := range ix.segments {
		s.users.Add(1) // so that the file stays
		segments[i] = s
	}
	ix.mu.RUnlock()
	defer func() {
		for _, s := range segments {
			s.release()
		}
	}()
	whole := true
	damaged := func(d Damage) {
		whole = false
		found(d)
	}
	if err := ix.verifyList(); err != nil {
		damaged(Damage{ix.path(listFile), err.Error()})
	}
	if err := verifySegments(ctx, segments, damaged); err != nil {
		return fmt.Errorf("verify the lexical index: %w", err)
	}
	if whole {
		ix.merging.allow()
	}
	return nil
}

func (ix *Index) verifyList() error {
	ix.noting.Lock()
	defer ix.noting.Unlock()
	content, err := os.ReadFile(ix.path(listFile))
	if err != nil {
		return err
	}
	if _, summed := cutSum(content); !summed {
		return errList
	}
	return nil
}

// Verified reports whether all segments from the opening of the index have been found intact.
func (ix *Index) Verified() bool {
	select {
	case <-ix.merging.open:
		return true
	default:
		return false
	}
}

// Examine reads the files of the index in dir, which no process has open, and reports their damage. It changes nothing.
func Examine(ctx context.Context, dir string, found func(Damage)) error {
	ix := &Index{dir: dir}
	err := Whole(dir)
	if err == nil {
		err = ix.load()
	}
	defer func() {
		for _, s := range ix.segments {
			s.release()
		}
	}()
	var damage *Damage
	if errors.As(err, &damage) {
		found(*damage)
		return nil
	}
	if err != nil {
		return err
	}
	return verifySegments(ctx, ix.segments, found)
}

func verifySegments(ctx context.Context, segments []*segment, found func(Damage)) error {
	for _, s := range segments {
		problem, err := s.verify(ctx)
		if err != nil {
			return err
		}
		if problem != "" {
			found(Damage{s.path, problem})
		}
	}
	return nil
}

// verify reads the file, not its mapping; "": it is intact.
func (s *segment) verify(ctx context.Context) (problem string, err error) {
	file, err := os.Open(s.path)
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
	if info.Size() != s.size {
		return fmt.Sprintf("it has %d bytes, and was written with %d", info.Size(), s.size), nil
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
	if binary.BigEndian.Uint32(buf) != s.sum || sum.Sum32() != s.sum {
		return "its checksum is not that of its content", nil
	}
	return "", nil
}

func unreadableAt(at int64, err error) string {
	return fmt.Sprintf("it cannot be read at byte %d: %v", at, err)
}

// gate keeps segments from being merged until they have been verified.
type gate struct {
	once sync.Once
	open chan struct{}
}

func (g *gate) allow() { g.once.Do(func() { close(g.open) }) }
