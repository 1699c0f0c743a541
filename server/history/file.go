package history

import (
	"archive/zip"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Search says where to look for a history.
type Search struct {
	Path   string                      // a file or a folder; "": where the program keeps its history
	Home   string                      // of the user
	Lookup func(string) (string, bool) // reads the environment
	Temp   string                      // a folder for temporary files until the import is done
	Show   io.Writer                   // receives what is read; may be nil
	Watch  *Watch                      // leaves out files that did not change since it last saw them; may be nil
}

// in returns a path below the directory in a variable, or else below one in the home directory.
func (s *Search) in(variable, other string, path ...string) string {
	if dir, _ := s.Lookup(variable); filepath.IsAbs(dir) {
		return filepath.Join(append([]string{dir}, path...)...)
	}
	return filepath.Join(append([]string{s.Home, other}, path...)...)
}

// File is a file of a history.
type File struct {
	Path  string
	Entry string // in a zip archive; "": the file itself
	Size  int64
	busy  bool  // a program may still write its last answer
	mark  *mark // where to read on; nil: read all
}

// start returns where the file is read from.
func (f *File) start() int64 {
	if f.mark == nil {
		return 0
	}
	return f.mark.offset
}

func (f *File) name() string {
	if f.Entry != "" {
		return f.Path + ": " + f.Entry
	}
	return f.Path
}

func (f *File) open() (io.ReadCloser, error) {
	if f.Entry == "" {
		return os.Open(f.Path)
	}
	archive, err := zip.OpenReader(f.Path)
	if err != nil {
		return nil, err
	}
	entry, err := archive.Open(f.Entry)
	if err != nil {
		return nil, errors.Join(err, archive.Close())
	}
	return &zipped{entry, archive}, nil
}

type zipped struct {
	fs.File
	archive *zip.ReadCloser
}

func (z *zipped) Close() error { return errors.Join(z.File.Close(), z.archive.Close()) }

// under returns the files below a folder, or the one file that root is, oldest path first. There are none if the folder
// does not exist and was not named.
func under(ctx context.Context, s *Search, root string, takes func(path string) bool) (files []File, err error) {
	root = cmp.Or(s.Path, root)
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, fs.ErrNotExist) && path == root && s.Path == "":
			return fs.SkipAll
		case err != nil:
			return err
		case !entry.Type().IsRegular() && path != root, entry.IsDir(), path != root && !takes(path):
			return nil
		}
		info, err := os.Stat(path)
		if err == nil {
			files = append(files, File{Path: path, Size: info.Size()})
		}
		return err
	})
	slices.SortFunc(files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return files, err
}

func hasSuffix(suffix string) func(string) bool {
	return func(path string) bool { return strings.HasSuffix(path, suffix) }
}

// maxPiece bounds a line of a history, and the messages between two answers of a model, in bytes: programs store images
// and whole files there.
const maxPiece = 64 << 20

// eachLine reads lines with their numbers. A line that is too long is an error. A last line that is cut off is left out,
// and its number noted: a program that was killed leaves one, or one that is writing it.
func (r *reader) eachLine(from io.Reader, visit func(line []byte) error) error {
	ctx := r.ctx
	lines := bufio.NewReaderSize(from, 256<<10)
	var long []byte
	for {
		number := r.at.line + 1
		long = long[:0]
		line, err := lines.ReadSlice('\n')
		for errors.Is(err, bufio.ErrBufferFull) {
			if long = append(long, line...); len(long) > maxPiece {
				return fmt.Errorf("line %d is longer than the maximum of %d MiB", number, maxPiece>>20)
			}
			line, err = lines.ReadSlice('\n')
		}
		if len(long) > 0 {
			line = append(long, line...)
			long = line
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("line %d: %w", number, err)
		}
		last := err != nil
		next := place{r.at.offset + int64(len(line)), number}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			err := visit(line)
			switch {
			case errors.Is(err, errNotJSON) && (last || atEnd(lines)) && line[0] == '{':
				r.cut = number
			case err != nil:
				return fmt.Errorf("line %d: %w", number, err)
			}
		}
		if last || ctx.Err() != nil {
			return ctx.Err()
		}
		r.at = next
	}
}

func atEnd(r *bufio.Reader) bool {
	_, err := r.Peek(1)
	return errors.Is(err, io.EOF)
}

// errNotJSON is the error of a line.
var errNotJSON = errors.New("this is not JSON")
