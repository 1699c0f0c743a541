package search

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// The files of the index are derived from the record, so that damage of them is no loss: it is logged, noted for the next
// check, and the index is built again. Damage that opening does not see is found by reading the files in the background
// once the index is open, again when reading it fails, and by each check.

// doubtPause is how long to leave files alone that were verified because of a doubt: what fails again and again is not
// always damaged. A full disk is one such thing.
const doubtPause = 10 * time.Second

const maxNoticed = 100

// damages is what is known to be wrong with the files of the index.
type damages struct {
	doubt chan struct{} // has a value when the files are to be verified
	mu    sync.Mutex
	found []store.Finding // since the index was opened
	ended error           // why a part of it has ended that cannot be started again
}

// suspect has the files of the index verified soon, without waiting for that.
func (x *Index) suspect() {
	select {
	case x.damages.doubt <- struct{}{}:
	default:
	}
}

// partFailed is called with the failures of the index's goroutines.
func (x *Index) partFailed(err error) {
	var panicked *lexical.PanicError
	if errors.As(err, &panicked) {
		x.damages.mu.Lock()
		x.damages.ended = err
		x.damages.mu.Unlock()
	}
	x.suspect()
}

// notice logs damage, and keeps it for the next check.
func (x *Index) notice(file, problem string) {
	x.log.Error("the search index is damaged and is built again", "file", file, "problem", problem)
	name := file
	if in, err := filepath.Rel(filepath.Dir(x.dir), file); err == nil {
		name = in
	}
	x.damages.mu.Lock()
	defer x.damages.mu.Unlock()
	if len(x.damages.found) < maxNoticed {
		x.damages.found = append(x.damages.found, store.Finding{
			Subject: name, Problem: problem + "; the search index is built again, and nothing is lost by it", Repaired: true,
		})
	}
}

// noticeUnopened is notice for an index that could not be opened.
func (x *Index) noticeUnopened(err error) {
	var damage *lexical.Damage
	if errors.As(err, &damage) {
		x.notice(damage.File, damage.Problem)
		return
	}
	x.notice(x.lexicalDir(), err.Error())
}

// verifyInDoubt verifies the files of an index that was opened, and those that something failed on.
func (x *Index) verifyInDoubt(ctx context.Context) {
	for pause := time.Duration(0); ; pause = doubtPause {
		select {
		case <-ctx.Done():
			return
		case <-x.damages.doubt:
		}
		if err := x.verify(ctx); err != nil && ctx.Err() == nil {
			x.log.Error("the files of the search index could not be verified", "error", err)
		}
		sleep(ctx, pause)
	}
}

// verify reads all files of the index, and begins another one if one is damaged.
func (x *Index) verify(ctx context.Context) error {
	damaged, err := x.readFiles(ctx)
	if errors.Is(err, errMissing) { // it is being tried to build one
		return nil
	}
	x.damages.mu.Lock()
	ended := x.damages.ended
	x.damages.ended = nil
	x.damages.mu.Unlock()
	for _, d := range damaged {
		x.notice(d.File, d.Problem)
	}
	if len(damaged) == 0 && ended != nil {
		x.notice(x.lexicalDir(), ended.Error())
	}
	if len(damaged) == 0 && ended == nil {
		return err
	}
	return x.Rebuild(ctx)
}

// verifiedOnce has an index verified that has not been since it was opened: until then nothing of it is merged.
func (x *Index) verifiedOnce(ctx context.Context) error {
	release, err := x.acquire(ctx)
	if err != nil {
		return err
	}
	verified := x.lexical.Verified()
	release()
	if verified {
		return nil
	}
	return x.verify(ctx)
}

func (x *Index) readFiles(ctx context.Context) (damaged []lexical.Damage, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.life, cancel)()
	select {
	case <-x.opened: // opening an index can take purging too
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	x.purging.Lock()
	defer x.purging.Unlock()
	release, err := x.acquire(ctx)
	if err != nil {
		return nil, err
	}
	defer release()
	err = x.lexical.Verify(ctx, func(d lexical.Damage) { damaged = append(damaged, d) })
	return damaged, err
}

// Verify reads all files of the index, and reports the damage of them that was found since it was opened. A damaged index
// is built again; Verify does not wait for that.
func (x *Index) Verify(ctx context.Context, found func(store.Finding)) error {
	err := x.verify(ctx)
	x.damages.mu.Lock()
	defer x.damages.mu.Unlock()
	for _, f := range x.damages.found {
		found(f)
	}
	return err
}

// Examine reads the files of the index in a directory of [Options], which no process has open, and reports what is wrong
// with them. Nothing is changed.
func Examine(ctx context.Context, dir string, found func(lexical.Damage)) error {
	dir = lexicalDir(dir)
	switch _, err := os.Stat(filepath.Join(dir, completeMark)); {
	case errors.Is(err, fs.ErrNotExist): // there is none, or it has only been begun: the next start builds it
		return nil
	case err != nil:
		return err
	}
	return lexical.Examine(ctx, dir, found)
}

// contain makes a panic of a search an error, and has the files verified where they could not be read.
func (x *Index) contain(search func() error) error {
	err := lexical.Contain(search)
	var panicked *lexical.PanicError
	if errors.As(err, &panicked) {
		x.log.Error("a search failed; the files of the index are verified", "error", err, "stack", string(panicked.Stack))
		err = unreadable(err)
	}
	if errors.Is(err, errUnreadable) {
		x.suspect()
	}
	return err
}
