package search

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search/lexical"
)

// Index follows the turns of a store and finds them. It is closed before the store is.
type Index struct {
	store   *store.Store
	feed    store.Feed
	dir     string
	log     *slog.Logger
	vectors *vectors // nil: there are none
	forget  bool     // there will be none

	writeAfter    time.Duration // see [Options]
	searchTimeout time.Duration // how long a search may take; longer in tests, for a machine that stands still

	mu      sync.RWMutex // held for reading while lexical is searched, for writing while another takes its place
	lexical *lexical.Index

	opened   chan struct{} // closed when lexical is there, or missing says why it is not
	progress broadcast     // after each batch
	building atomic.Bool   // an index that was lost, or is of another version, is being rebuilt
	rebuild  chan chan error
	unbegun  bool                  // run's own: another index was to take the place of the former one, and has not done so whole
	missing  atomic.Pointer[error] // why there is no whole index; nil: there is one
	hurry    chan struct{}         // somebody waits for what has just been said

	unwritten atomic.Pointer[unwritten] // of lexical
	written   chan struct{}             // some of it is on disk
	sessions  changedSessions

	purging sync.Mutex // held while files are purged or verified, and while another index takes its place: searches wait for neither

	damages damages
	beside  besides

	life   context.Context // ends with Close
	cancel context.CancelFunc
	done   chan struct{}
}

// Options configure [Open].
type Options struct {
	Dir      string       // of what is derived from the store
	Embedder Embedder     // gives the vectors of turns and queries; nil: searches use words and names alone
	Log      *slog.Logger // nil: discard

	// Former gives an embedder by an identity that was configured before, so that searches can go on by its vectors
	// while those of Embedder are being built; nil when it cannot be had any more. May be nil.
	Former func(identity string) Embedder

	// VectorMemory is how many bytes the vectors of the accounts that are searched may take in memory, about; 0: 512 MiB.
	VectorMemory int64

	// WriteAfter is how long what was indexed may be in memory alone; 0: a minute. What a killed process had there is
	// indexed again at the next start.
	WriteAfter time.Duration

	// LeaveVectors says that another process has the embedder: the vectors are left as they are, and what changes is
	// noted for it. Otherwise nothing is noted while Embedder is nil.
	LeaveVectors bool
}

const defaultVectorMemory = 512 << 20

// Open starts to follow a store. It returns at once: an index that is lost, damaged or of another version is rebuilt
// while searches are served from what is there.
func Open(st *store.Store, opts Options) *Index {
	x := newIndex(st, opts)
	go x.run(x.life)
	if x.vectors != nil {
		go x.vectors.run(x.life)
	}
	return x
}

// newIndex makes an index that nobody keeps yet.
func newIndex(st *store.Store, opts Options) *Index {
	if opts.Log == nil {
		opts.Log = slog.New(slog.DiscardHandler)
	}
	ctx, cancel := context.WithCancel(context.Background())
	x := &Index{
		store: st, feed: st.Feed(), dir: opts.Dir, log: opts.Log, life: ctx, cancel: cancel, done: make(chan struct{}),
		opened: make(chan struct{}), rebuild: make(chan chan error),
		damages: damages{doubt: make(chan struct{}, 1)},
		hurry:   make(chan struct{}, 1), written: make(chan struct{}, 1), sessions: changedSessions{turn: make(chan struct{}, 1)},
		forget: opts.Embedder == nil && !opts.LeaveVectors, writeAfter: opts.WriteAfter, searchTimeout: searchTimeout,
	}
	x.unwritten.Store(new(unwritten))
	if opts.Embedder != nil {
		var err error
		if x.vectors, err = newVectors(x, &opts); err != nil {
			opts.Log.Error("there are no vectors; searches use words alone", "embedder", opts.Embedder.Identity(), "error", err)
		}
	}
	return x
}

// Close ends the following. What has not been indexed yet is indexed after the next start.
func (x *Index) Close() error {
	x.cancel()
	x.beside.end()
	<-x.done
	if x.vectors != nil {
		<-x.vectors.done
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lexical == nil {
		return nil
	}
	x.lexical.Close()
	x.lexical = nil
	return x.confirm(context.Background())
}

// errClosed is what searches get while the store closes.
var errClosed = codec.Errorf(codec.KindStorage, "the search index is not open; the store is being closed")

// errMissing is what searches get when the index cannot be opened.
var errMissing = codec.Errorf(codec.KindStorage, "the search index cannot be built at present; it is tried again, and the log of the proxy says why it cannot. Everything is on record meanwhile")

// unavailable says why there is no index, if there is none.
func (x *Index) unavailable() error {
	if x.missing.Load() != nil {
		return errMissing
	}
	return nil
}

// Large batches are cheaper, small ones sooner found and smaller in memory.
const (
	batchSize  = 1024    // changes that are indexed together at most
	batchBytes = 4 << 20 // of text, likewise
)

// gatherTime is how long turns gather after a batch: each batch has the log of changes looked through once. An idle index
// takes up each turn at once.
const gatherTime = 10 * time.Millisecond

func (x *Index) run(ctx context.Context) {
	defer close(x.done)
	for err := x.follow(ctx); err != nil && ctx.Err() == nil; err = x.follow(ctx) {
		x.log.Error("the index cannot follow the store; it is tried again", "error", err)
		sleep(ctx, retryIndexing)
	}
	x.open(ctx)
	close(x.opened)
	var beside sync.WaitGroup
	beside.Go(func() { x.purgeInTime(ctx) })
	beside.Go(func() { x.followSessions(ctx) })
	beside.Go(func() { x.verifyInDoubt(ctx) })
	defer beside.Wait()
	if x.forget {
		if err := x.feed.Leave(ctx, store.StageVectors); err != nil && ctx.Err() == nil {
			x.log.Error("the log of changes for the vectors could not be ended", "error", err)
		}
	}
	for ctx.Err() == nil {
		x.awaitRoom(ctx)
		select {
		case asked := <-x.rebuild: // also of an index that is never idle
			asked <- x.startAnew(ctx)
		default:
		}
		if x.unbegun {
			if x.startAnew(ctx) != nil {
				sleep(ctx, retryIndexing)
			}
			continue
		}
		taken, full, err := x.takeUp(ctx)
		err = errors.Join(err, x.confirm(ctx))
		switch {
		case err != nil:
			if ctx.Err() == nil {
				x.log.Error("turns could not be indexed; they are tried again", "error", err)
			}
			x.await(ctx, true)
		case taken == 0:
			x.await(ctx, false)
		case !full:
			x.gather(ctx)
		}
	}
}

// follow begins to read what has happened.
func (x *Index) follow(ctx context.Context) error {
	_, err := x.feed.Follow(ctx, store.StageWords)
	if err == nil {
		_, err = x.feed.Follow(ctx, store.StageSessions)
	}
	return err
}

// gather lets turns come together for the next batch, unless somebody waits.
func (x *Index) gather(ctx context.Context) {
	timer := time.NewTimer(gatherTime)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-x.hurry:
	}
}

// retryIndexing is how long to leave an index alone that could not be written: a full disk, for one.
const retryIndexing = 2 * time.Second

// await waits for something to do.
func (x *Index) await(ctx context.Context, failed bool) {
	var retry <-chan time.Time
	if failed {
		retry = time.After(retryIndexing)
	}
	select {
	case <-ctx.Done():
	case <-retry:
	case <-x.feed.Changed():
	case <-x.written:
	case asked := <-x.rebuild:
		asked <- x.startAnew(ctx)
	}
}

func (x *Index) lexicalDir() string { return lexicalDir(x.dir) }

func lexicalDir(dir string) string {
	return filepath.Join(dir, fmt.Sprintf("lexical-%d", lexical.Version))
}

// completeMark is in the directory of an index for which all turns have been put into the log.
const completeMark = "complete"

// open opens the index, or begins another one.
func (x *Index) open(ctx context.Context) {
	dir := x.lexicalDir()
	if _, err := os.Stat(filepath.Join(dir, completeMark)); err == nil {
		if err = lexical.Whole(dir); err == nil {
			err = x.openLexical(dir)
		}
		if err == nil {
			x.suspect() // what opening it does not see
			return
		}
		x.noticeUnopened(err)
	}
	_ = x.startAnew(ctx) // run tries it again
}

// startAnew throws the index away and begins another one; while that fails, missing says why. All that an index has can be
// made again from the store.
func (x *Index) startAnew(ctx context.Context) error {
	err := x.begin(ctx)
	if err == nil {
		x.missing.Store(nil)
		return nil
	}
	if before := x.missing.Swap(&err); ctx.Err() == nil && (before == nil || (*before).Error() != err.Error()) {
		x.log.Error("the search index cannot be built; it is tried again", "dir", x.dir, "error", err)
	}
	return err
}

// begin puts an empty index in the place of the present one, for which all turns and sessions are to be done again. If the
// process ends on the way, it begins again.
func (x *Index) begin(ctx context.Context) error {
	x.unbegun = true
	if err := x.sessions.acquire(ctx); err != nil {
		return err
	}
	defer x.sessions.release()
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
	x.sessions.forget()
	if turns > 0 {
		x.log.Info("the search index is being built", "turns", turns)
	}
	if err := os.WriteFile(filepath.Join(x.lexicalDir(), completeMark), nil, 0o600); err != nil {
		return fmt.Errorf("mark the index as begun: %w", err)
	}
	x.unbegun = false
	return nil
}

// replace puts an empty index in the place of the present one.
func (x *Index) replace() error {
	x.purging.Lock()
	defer x.purging.Unlock()
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.lexical != nil {
		x.lexical.Close()
		x.lexical = nil
		x.unwritten.Store(new(unwritten))
	}
	former, err := filepath.Glob(filepath.Join(x.dir, "lexical-*"))
	if err != nil {
		return err
	}
	for _, dir := range former {
		if err := errors.Join(os.Remove(filepath.Join(dir, completeMark)), os.RemoveAll(dir)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("remove the former index: %w", err)
		}
	}
	if err := os.MkdirAll(x.lexicalDir(), 0o700); err != nil {
		return fmt.Errorf("create the directory of the index: %w", err)
	}
	return x.openLexical(x.lexicalDir())
}

func (x *Index) openLexical(dir string) (err error) {
	x.lexical, err = lexical.Open(dir, lexical.Options{WriteAfter: x.writeAfter, Failed: x.partFailed})
	return err
}

// Rebuild throws the index away and rebuilds it in the background; it returns when that has begun.
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

// takeUp indexes the next changes, so that they can be found; full says that there may be more of them.
func (x *Index) takeUp(ctx context.Context) (taken int, full bool, err error) {
	b, err := x.feed.Next(store.StageWords, math.MaxUint64, batchSize)
	if err != nil {
		return 0, false, err
	}
	if b == nil {
		x.building.Store(false)
		x.progress.signal()
		return 0, false, nil
	}
	u, began := x.unwritten.Load(), time.Now()
	for turns := latest(b.Changes); ; {
		documents, gone, read, err := x.read(ctx, b, turns)
		if err != nil {
			return 0, false, err
		}
		onDisk := func() {}
		if turns = turns[read:]; len(turns) == 0 {
			onDisk = func() { u.add(b) }
		}
		if err := x.apply(ctx, documents, gone, onDisk); err != nil {
			return 0, false, err
		}
		if len(turns) == 0 {
			break
		}
	}
	x.feed.Done(store.StageWords, b)
	x.feed.Worked(store.StageWords, len(b.Changes), began)
	x.progress.signal()
	return len(b.Changes), len(b.Changes) >= batchSize, nil
}

// size is how many bytes of texts documents are found by.
func size(documents []lexical.Document) (bytes int) {
	for i := range documents {
		bytes += len(documents[i].Text) + len(documents[i].Names)
	}
	return bytes
}

// turnRef names a turn.
type turnRef struct {
	account  store.AccountNumber
	exchange string
}

// latest gives the last change of each turn.
func latest(changes []*store.Change) []*store.Change {
	last := make(map[turnRef]*store.Change, len(changes))
	for _, c := range changes {
		last[turnRef{c.Account, c.Exchange}] = c
	}
	return slices.DeleteFunc(slices.Clone(changes), func(c *store.Change) bool {
		return c.Exchange == "" || last[turnRef{c.Account, c.Exchange}] != c
	})
}

// read gives what the index is to hold for turns, for as many as a batch has room for. Those that are damaged hold no other up,
// and are tried again at the next start. Only the end of ctx is an error.
func (x *Index) read(ctx context.Context, b *store.Batch, turns []*store.Change) (documents []lexical.Document, gone []lexical.Key, read int, err error) {
	size := 0
	for i, c := range turns {
		if err := ctx.Err(); err != nil {
			return nil, nil, 0, err
		}
		if size >= batchBytes {
			return documents, gone, i, nil
		}
		entry := c.Turn
		if entry == nil {
			stored, err := x.feed.TurnAt(c.Account, c.Exchange)
			if err != nil && !isNotFound(err) {
				x.log.Error("a turn cannot be read, and is not found by searches", "exchange", c.Exchange, "error", err)
				b.Later = append(b.Later, c)
				continue
			}
			entry = &stored
		}
		d := newDocument(entry)
		if c.Turn != nil { // what it says is enough for the vectors
			c.Turn, c.Derived = nil, textOf(entry, d)
		}
		if d != nil {
			document := d.lexical(c.Account)
			documents = append(documents, document)
			size += len(document.Text) + len(document.Names)
		} else {
			gone = append(gone, lexical.Key{Account: uint32(c.Account), ID: c.Exchange})
		}
	}
	return documents, gone, len(turns), nil
}

func isNotFound(err error) bool {
	var e *codec.Error
	return errors.As(err, &e) && e.Kind == codec.KindNotFound
}

// Status says how far the index is.
type Status struct {
	Lag       uint64 `json:"lag_seq"`            // changes that cannot be found yet
	Building  bool   `json:"building,omitempty"` // the index is being rebuilt
	Documents uint64 `json:"documents"`          // of the account
	Bytes     int64  `json:"bytes"`              // on disk, of all accounts
	Error     string `json:"error,omitempty"`    // why there is no index at present; the rest but for Lag is not known then

	Vectors *VectorStatus      `json:"vectors,omitempty"` // nil: there is no embedder
	Stages  []store.StageStats `json:"stages,omitempty"`  // after the answers, of all accounts
}

// VectorStatus says how far the vectors are: of all accounts, but for the first two.
type VectorStatus struct {
	Documents  uint64 `json:"documents"` // of the account that have a vector
	Bytes      int64  `json:"bytes"`     // of these on disk
	Embedder   string `json:"embedder"`  // its identity
	Generation uint32 `json:"generation"`
	Serving    string `json:"serving,omitempty"` // the embedder whose vectors searches use, when it is another one
	Building   bool   `json:"building,omitempty"`
	Done       uint64 `json:"done"`            // turns that the generation holds
	Total      uint64 `json:"total"`           // of so many
	Memory     int64  `json:"memory_bytes"`    // of the accounts that were searched last
	Lag        uint64 `json:"lag_seq"`         // changes that have no vector yet
	Error      string `json:"error,omitempty"` // why embedding does not go on
}

// lag is how many changes the index is behind.
func (x *Index) lag() uint64 {
	lag, _ := x.feed.Lag(store.StageWords)
	return lag
}

// Lag is how many changes searches by words and by vectors do not see yet.
func (x *Index) Lag() (words, vectors uint64) {
	if x.vectors != nil {
		vectors = x.vectors.lag()
	}
	return x.lag(), vectors
}

// Vectors says how far the vectors are, without the numbers of an account, and with why one of them cannot be embedded: it is
// for the operator. It is nil where there is no embedder; Generation is 0 until they are opened.
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

// Status gives the state of the index for an account.
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

// acquire waits until the index is open, and keeps it so until release is called.
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

// Wait returns when everything can be found that had ended in the account before the call, or when ctx is done. What
// ends meanwhile is not waited for, so that a wait comes to an end on a busy account too.
func (x *Index) Wait(ctx context.Context, account string) error {
	select {
	case <-x.opened: // an index that was lost knows only now what it has to index
	case <-ctx.Done():
		return ctx.Err()
	case <-x.done:
		return errClosed
	}
	if _, err := x.store.Accounts().Number(account); err != nil {
		return err
	}
	for _, s := range [...]store.Stage{store.StageDigest, store.StageWords} {
		last := x.feed.Coming() // with what the stage before has made
		for next := x.progress.next(); x.feed.Position(s) < last; next = x.progress.next() {
			if err := x.pause(ctx, next); err != nil {
				return err
			}
		}
	}
	return nil
}

// WaitVectors is Wait for the vectors of what had ended: searches use them when it returns. Turns of before the
// embedder was configured are not waited for.
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

// RebuildVectors makes all vectors again in the background, while searches use the former ones; it returns when that
// has begun.
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

// pause lasts until the index has made progress, or until it is time to look at the digester, which signals nobody here.
// There is nothing to wait for while there is no index.
func (x *Index) pause(ctx context.Context, progress <-chan struct{}) error {
	if err := x.unavailable(); err != nil {
		return err
	}
	const look = 2 * time.Millisecond
	select {
	case x.hurry <- struct{}{}:
	default:
	}
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

// broadcast wakes all who wait.
type broadcast struct {
	mu sync.Mutex
	c  chan struct{}
}

// next is closed at the next signal.
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
