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
	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// The files of the index are derived, so damage to them is no loss: it is logged, recorded for the next check, and the
// index is rebuilt. Damage that opening does not notice is found by reading the files in the background after opening,
// again when a read fails, and by each check.

// doubtPause is the pause before files are verified again because of a failure: a recurring failure is not always
// damage. A full disk is one example.
const doubtPause = 10 * time.Second

const maxNoticed = 100

// damages is the known damage to the index.
type damages struct {
	doubt wake.Signal // the files have to be verified
	mu    sync.Mutex
	found []store.Finding // since the index was opened
	ended error           // why a part of the index has ended and cannot be restarted
}

// suspect requests verification of the index, without waiting for it.
func (x *Index) suspect() { x.damages.doubt.Notify() }

// partFailed handles failures of the index's goroutines.
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

// verifyInDoubt verifies the files of a newly opened index, and those of a failed operation.
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

// verify reads all files of the index, and starts a new one if one is damaged.
func (x *Index) verify(ctx context.Context) error {
	damaged, err := x.readFiles(ctx)
	if errors.Is(err, errMissing) { // a new one is already being attempted
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

// verifiedOnce verifies an index that has not been verified since it was opened: until then nothing of it is merged.
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
	case <-x.opened: // opening an index may need purging too
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

// Verify reads all files of the index, and reports the damage found since it was opened. A damaged index is rebuilt;
// Verify does not wait for that.
func (x *Index) Verify(ctx context.Context, found func(store.Finding)) error {
	err := x.verify(ctx)
	x.damages.mu.Lock()
	defer x.damages.mu.Unlock()
	for _, f := range x.damages.found {
		found(f)
	}
	return err
}

// Examine reads the files of the index in a directory of [Options] that no process has open, and reports their damage.
// It changes nothing.
func Examine(ctx context.Context, dir string, found func(lexical.Damage)) error {
	dir = lexicalDir(dir)
	switch _, err := os.Stat(filepath.Join(dir, completeMark)); {
	case errors.Is(err, fs.ErrNotExist): // there is none, or it is incomplete: the next start builds it
		return nil
	case err != nil:
		return err
	}
	return lexical.Examine(ctx, dir, found)
}

// contain turns a panic of a search into an error, and has unreadable files verified.
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
