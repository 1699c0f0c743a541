package history

import (
	"crypto/sha256"
	"errors"
	"io"
	"os"
)

// place is where a line begins.
type place struct {
	offset int64
	line   int // that precede it
}

// mark is where a file that has grown is read on: behind the last answer that was given, with what was known there. Only files
// with a single conversation have marks.
type mark struct {
	place
	thread  thread // without messages
	session Session
	number  int // of answers without an id
	before  [sha256.Size]byte
}

// markBytes is how much in front of a mark has to be as it was.
const markBytes = 4 << 10

// before returns the hash of what is in front of an offset.
func before(file io.ReaderAt, offset int64) (sum [sha256.Size]byte, err error) {
	text := make([]byte, min(offset, markBytes))
	if _, err = file.ReadAt(text, offset-int64(len(text))); err != nil {
		return sum, err
	}
	return sha256.Sum256(text), nil
}

// mark notes that an answer was given of which nothing more comes: what follows it can be read on its own.
func (t *thread) mark(a *answer) {
	r := t.reader
	t.former = a.name
	r.mark = &mark{place: r.at, number: r.number}
	if len(t.input) > 0 {
		r.mark.place = t.from
	}
	r.mark.thread = thread{key: t.key, agent: t.agent, model: t.model, project: t.project, former: t.former}
}

// resume goes to the mark of a file. A file that is another one now, or was truncated, loses its mark and is read whole.
func (r *reader) resume(f *File, file io.Reader) error {
	m := f.mark
	from, ok := file.(*os.File)
	if !ok {
		f.mark = nil
		return nil
	}
	sum, err := before(from, m.offset)
	if errors.Is(err, io.EOF) || err == nil && sum != m.before {
		f.mark = nil
		return nil
	}
	if err != nil {
		return err
	}
	if _, err := from.Seek(m.offset, io.SeekStart); err != nil {
		return err
	}
	r.at, r.number, r.mark = m.place, m.number, m
	t, s := m.thread, m.session
	s.before, s.Exchanges = s.before+s.Exchanges, 0
	t.reader = r
	r.threads[t.key], r.sessions[t.key] = &t, &s
	return nil
}

// note completes the mark behind what was read.
func (r *reader) note(f *File, file io.Reader) error {
	from, ok := file.(*os.File)
	if !ok || r.mark == nil || len(r.threads) != 1 {
		r.mark = nil
		return nil
	}
	if r.mark == f.mark {
		return nil
	}
	r.mark.session = *r.sessions[r.mark.thread.key]
	var err error
	r.mark.before, err = before(from, r.mark.offset)
	return err
}
