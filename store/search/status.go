package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Status is the state of the index.
type Status struct {
	Lag       uint64 `json:"lag_seq"`            // changes that searches do not see yet
	Building  bool   `json:"building,omitempty"` // the index is being rebuilt
	Documents uint64 `json:"documents"`          // of the account
	Bytes     int64  `json:"bytes"`              // on disk, of all accounts
	Error     string `json:"error,omitempty"`    // why there is no index at present; then only Lag is known besides

	Vectors *VectorStatus      `json:"vectors,omitempty"` // nil: there is no embedder
	Stages  []store.StageStats `json:"stages,omitempty"`  // what runs after the answers, for all accounts
}

// VectorStatus is the state of the vectors: of all accounts, except for the first two fields.
type VectorStatus struct {
	Documents  uint64 `json:"documents"` // of the account that have a vector
	Bytes      int64  `json:"bytes"`     // size of these on disk
	Embedder   string `json:"embedder"`  // its identity
	Generation uint32 `json:"generation"`
	Serving    string `json:"serving,omitempty"` // the embedder whose vectors searches use, if it is another one
	Building   bool   `json:"building,omitempty"`
	Done       uint64 `json:"done"`            // turns in the generation
	Total      uint64 `json:"total"`           // number of turns
	Memory     int64  `json:"memory_bytes"`    // used by vectors of recently searched accounts
	Lag        uint64 `json:"lag_seq"`         // changes that have no vector yet
	Error      string `json:"error,omitempty"` // why embedding has stopped
}

// lag returns how many changes the index is behind.
func (x *Index) lag() uint64 {
	lag, _ := x.feed.Lag(store.StageWords)
	return lag
}

// Lag returns how many changes searches by words and by vectors do not see yet.
func (x *Index) Lag() (words, vectors uint64) {
	if x.vectors != nil {
		vectors = x.vectors.lag()
	}
	return x.lag(), vectors
}

// Vectors returns the state of the vectors for the operator: without the figures of an account, and with the reason why one of
// the accounts cannot be embedded. It is nil if there is no embedder. Generation is 0 until the vectors are opened.
func (x *Index) Vectors() *VectorStatus {
	if x.vectors == nil {
		return nil
	}
	told := x.vectors.status.Load()
	if told == nil {
		return &VectorStatus{}
	}
	s := *told
	if reason := x.vectors.resting.reason(); s.Error == "" && reason != nil {
		s.Error = describe(reason)
	}
	return &s
}

// acquire waits until the index is open, and keeps it open until release is called.
func (x *Index) acquire(ctx context.Context) (release func(), err error) {
	select {
	case <-x.opened:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	x.mu.RLock()
	if x.lexical == nil {
		x.mu.RUnlock()
		return nil, cmp.Or(x.unavailable(), error(errClosed))
	}
	return x.mu.RUnlock, nil
}

func unreadable(cause error) error {
	if errors.Is(cause, context.Canceled) || errors.Is(cause, context.DeadlineExceeded) {
		return cause
	}
	err := codec.Errorf(codec.KindStorage, "the search index cannot be read; it is built again if its files are damaged, else build it again with: mneme reindex")
	err.Cause = fmt.Errorf("%w: %w", errUnreadable, cause)
	return err
}

var errUnreadable = errors.New("the search index cannot be read")

// Wait returns when searches find everything that had ended in the account before the call, or when ctx is done. It does not wait
// for what ends during the call, so that it returns for a busy account too.
func (x *Index) Wait(ctx context.Context, account string) error {
	select {
	case <-x.opened: // only an open index knows what is left to index
	case <-ctx.Done():
		return ctx.Err()
	case <-x.done:
		return errClosed
	}
	if _, err := x.store.Accounts().Number(account); err != nil {
		return err
	}
	for _, s := range [...]store.Stage{store.StageDigest, store.StageWords, store.StageSessions} {
		last := x.feed.Coming() // includes what the previous stage has made
		for next := x.progress.next(); x.feed.Position(s) < last; next = x.progress.next() {
			if err := x.pause(ctx, next); err != nil {
				return err
			}
		}
	}
	return nil
}

// WaitVectors is Wait for vectors. It does not wait for turns from before the embedder was configured.
func (x *Index) WaitVectors(ctx context.Context, account string) error {
	if err := x.Wait(ctx, account); err != nil || x.vectors == nil {
		return err
	}
	last := x.feed.Last()
	for {
		next := x.vectors.progress.next()
		if x.vectors.settled.Load() >= last {
			return nil
		}
		select {
		case <-next:
		case <-ctx.Done():
			return ctx.Err()
		case <-x.vectors.done:
			return errClosed
		}
	}
}

// RebuildVectors begins to make all vectors again in the background. Meanwhile searches use the former ones.
func (x *Index) RebuildVectors(ctx context.Context) error {
	if x.vectors == nil {
		return codec.Errorf(codec.KindConflict, "no embedder is configured; there are no vectors to build")
	}
	asked := make(chan error, 1)
	select {
	case x.vectors.renew <- asked:
		return <-asked
	case <-ctx.Done():
		return ctx.Err()
	case <-x.vectors.done:
		return errClosed
	}
}

// pause waits until the index has made progress, or until it is time to check the digester, which sends no signal here. While
// there is no index it fails at once.
func (x *Index) pause(ctx context.Context, progress <-chan struct{}) error {
	if err := x.unavailable(); err != nil {
		return err
	}
	const look = 2 * time.Millisecond
	x.hurry.Notify()
	select {
	case <-progress:
		return nil
	case <-time.After(look):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-x.done:
		return errClosed
	}
}

// broadcast wakes all waiting goroutines.
type broadcast struct {
	mu sync.Mutex
	c  chan struct{}
}

// next returns a channel that is closed at the next signal.
func (b *broadcast) next() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c == nil {
		b.c = make(chan struct{})
	}
	return b.c
}

func (b *broadcast) signal() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.c != nil {
		close(b.c)
		b.c = nil
	}
}

// Status returns the state of the index for an account.
func (x *Index) Status(ctx context.Context, account string) (Status, error) {
	number, err := x.store.Accounts().Number(account)
	if err != nil {
		return Status{}, err
	}
	release, err := x.acquire(ctx)
	if errors.Is(err, errMissing) {
		return Status{Lag: x.lag(), Error: errMissing.Message, Stages: x.feed.Stats()}, nil
	}
	if err != nil {
		return Status{}, err
	}
	defer release()
	totals, err := x.lexical.Totals(uint32(number))
	if err != nil {
		return Status{}, unreadable(err)
	}
	status := Status{Lag: x.lag(), Building: x.building.Load(), Documents: totals.Documents, Bytes: lexical.Bytes(x.dir), Stages: x.feed.Stats()}
	if x.vectors != nil {
		status.Vectors, err = x.vectors.statusOf(ctx, number)
	}
	return status, err
}
