package command

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// writeFile writes the output of from to a new file, which gets its name once it is complete; "-" is standard output. Of one
// that ends early, what is useful stays under the name of [partOf].
func (s *Env) writeFile(ctx context.Context, name, what string, from io.Reader) (size int64, err error) {
	if name == "-" {
		return s.copyShown(ctx, s.Out, from, what, -1)
	}
	part := partOf(name)
	file, err := os.OpenFile(part, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return 0, err
	}
	size, err = s.copyShown(ctx, file, from, what, -1)
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(part, name)
	}
	if err == nil {
		return size, nil
	}
	err = fmt.Errorf("%s was not written: %w", name, err)
	if r, can := from.(interface{ useful() int64 }); can && r.useful() > 0 {
		return 0, errors.Join(err, os.Truncate(part, r.useful()))
	}
	return 0, errors.Join(err, os.Remove(part))
}

// partOf is the name of a file until it is complete.
func partOf(name string) string { return name + ".part" }

// shownReader opens a file for reading with a progress bar; "-" is standard input.
func (s *Env) shownReader(name, what string) (io.ReadCloser, error) {
	if name == "-" {
		return io.NopCloser(s.In), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	size := int64(-1)
	if info, err := file.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	bar := s.progress(what, size)
	return &shownFile{Reader: io.TeeReader(file, bar), close: func() error { return errors.Join(bar.Finish(), file.Close()) }}, nil
}

type shownFile struct {
	io.Reader
	close func() error
}

func (f *shownFile) Close() error { return f.close() }
