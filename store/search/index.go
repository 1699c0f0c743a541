package search

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/internal/wake"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Index follows the turns of a store and finds them. It is closed before the store is.
type Index struct {
	store   *store.Store
	feed    store.Feed
	dir     string
	log     *slog.Logger
	vectors *vectors // nil: there are none
	forget  bool     // nil: there are none

	writeAfter    time.Duration // see [Options]
	searchTimeout time.Duration // limit on a search; longer in tests, for a stalled machine

	mu      sync.RWMutex // read-locked while lexical is searched, locked while it is replaced
	lexical *lexical.Index

	opened   chan struct{} // closed when lexical exists, or missing says why it does not
	progress broadcast     // after each batch
	building atomic.Bool   // a lost or outdated index is being rebuilt
	rebuild  chan chan error
	unbegun  bool                  // run's own: the replacement of the index is incomplete
	missing  atomic.Pointer[error] // why there is no complete index; nil: there is one
	hurry    wake.Signal           // a caller waits for the newest turns

	unwritten atomic.Pointer[unwritten] // of lexical
	written   wake.Signal               // some of it is on disk
	aboutTurn *semaphore.Weighted       // held to index what is written about sessions

	purging sync.Mutex // held while files are purged or verified, and while the index is replaced: searches wait for neither

	damages damages
	beside  besides

	life   context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{}
}

// Options configure [Open].
type Options struct {
	Dir      string       // of the derived data
	Embedder Embedder     // makes the vectors of turns and queries; nil: searches use words and names only
	Log      *slog.Logger // nil: discard

	// Former returns an embedder by an earlier identity, so that searches can use its vectors while those of Embedder
	// are being built; nil if it is unavailable. May be nil.
	Former func(identity string) Embedder

	// VectorMemory is roughly how many bytes the vectors of searched accounts may take in memory; 0: 512 MiB.
	VectorMemory int64

	// WriteAfter is how long indexed turns may be only in memory; 0: a minute. What a killed process had there is
	// indexed again at the next start.
	WriteAfter time.Duration

	// LeaveVectors says that another process has the embedder: the vectors stay unchanged, and changes are kept for it.
	// Otherwise nothing is kept while Embedder is nil.
	LeaveVectors bool
}

const defaultVectorMemory = 512 << 20

// errClosed is the error of searches while the store closes.
var errClosed = codec.Errorf(codec.KindStorage, "the search index is not open; the store is being closed")

// errMissing is the error of searches if the index cannot be opened.
var errMissing = codec.Errorf(codec.KindStorage, "the search index cannot be built at present; it is tried again, and the log of the proxy says why it cannot. Everything is on record meanwhile")

// unavailable returns why there is no index; nil if there is one.
func (x *Index) unavailable() error {
	if x.missing.Load() != nil {
		return errMissing
	}
	return nil
}

func (x *Index) lexicalDir() string { return lexicalDir(x.dir) }

// completeMark is a file in the directory of an index for which all turns have been put into the log.
const completeMark = "complete"

// begin replaces the index with an empty one, for which all turns and sessions are processed again. If the process ends
// in between, it starts over.
func (x *Index) begin(ctx context.Context) error {
	x.unbegun = true
	if err := x.aboutTurn.Acquire(ctx, 1); err != nil {
		return err
	}
	defer x.aboutTurn.Release(1)
	if err := x.replace(); err != nil {
		return err
	}
	x.building.Store(true)
	turns, err := x.feed.Repeat(ctx, store.StageWords)
	if err != nil {
		return err
	}
	if _, err := x.feed.Repeat(ctx, store.StageSessions); err != nil {
		return err
	}
	if turns > 0 {
		x.log.Info("the search index is being built", "turns", turns)
	}
	if err := os.WriteFile(filepath.Join(x.lexicalDir(), completeMark), nil, 0o600); err != nil {
		return fmt.Errorf("mark the index as begun: %w", err)
	}
	x.unbegun = false
	return nil
}

// Rebuild discards the index and rebuilds it in the background; it returns when that has started.
func (x *Index) Rebuild(ctx context.Context) error {
	asked := make(chan error, 1)
	select {
	case x.rebuild <- asked:
		return <-asked
	case <-ctx.Done():
		return ctx.Err()
	case <-x.done:
		return errClosed
	}
}

func isNotFound(err error) bool {
	var e *codec.Error
	return errors.As(err, &e) && e.Kind == codec.KindNotFound
}

// unlessNotFound returns err, or nil if it is [codec.KindNotFound].
func unlessNotFound(err error) error {
	if isNotFound(err) {
		return nil
	}
	return err
}

func lexicalDir(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("lexical-%d", lexical.Version))
}

// size returns the bytes of text in documents.
func size(documents []lexical.Document) (bytes int) {
	for i := range documents {
		bytes += len(documents[i].Text) + len(documents[i].Names)
	}
	return bytes
}
