package search

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/search/vector"
)

// vectors follows the turns of a store, after the lexical index, and stores a vector of each. All its state is in the store. So
// after a crash it continues where it was, and repeated work has the same result.
//
// The vectors of one embedder are a generation. When another embedder is configured, a new generation begins: it embeds the
// existing turns, oldest account first, as well as those that are added. Searches use the old generation until the new one is
// complete, and never both. Then the old one is erased.
type vectors struct {
	store    *store.Store
	feed     store.Feed
	log      *slog.Logger
	embedder Embedder
	former   func(identity string) Embedder
	space    *vector.Space // of embedder
	moved    *broadcast    // signaled when the lexical index has progressed
	cache    *vector.Cache

	generations []record.Generation // as stored; only run uses them
	growing     int                 // index in generations of the one that new turns are added to
	skipped     uint64              // the first change put aside because its account is in back-off; 0: none
	filled      uint64              // changes up to this number may be of turns that the backfill has embedded
	resting     restingAccounts     // accounts in back-off for documents
	unanswered  restingAccounts     // accounts in back-off for queries
	renew       chan chan error     // requests a new generation

	serving  atomic.Pointer[serving]
	status   atomic.Pointer[VectorStatus]
	settled  atomic.Uint64 // every change up to this one is in it
	progress broadcast
	done     chan struct{}
}

// serving is what searches use: a complete generation and its embedder.
type serving struct {
	generation uint32
	embedder   Embedder
	space      *vector.Space
}

// Limits of batches, and intervals.
const (
	embedBatch   = 64
	firstRest    = time.Second
	longestRest  = time.Minute
	lookAgain    = time.Second // for accounts whose back-off has ended
	queryTimeout = time.Second // a search uses words alone if the embedder takes longer
)

func newVectors(x *Index, opts *Options) (*vectors, error) {
	space, err := vector.NewSpace(opts.Embedder.Dimensions())
	if err != nil {
		return nil, err
	}
	former := opts.Former
	if former == nil {
		former = func(string) Embedder { return nil }
	}
	memory := opts.VectorMemory
	if memory == 0 {
		memory = defaultVectorMemory
	}
	return &vectors{
		store: x.store, feed: x.feed, log: x.log, embedder: opts.Embedder, former: former, space: space,
		moved: &x.progress, cache: vector.NewCache(memory),
		renew: make(chan chan error), done: make(chan struct{}),
	}, nil
}

// run embeds turns until ctx is done.
func (v *vectors) run(ctx context.Context) {
	defer close(v.done)
	for err := v.begin(ctx); err != nil && ctx.Err() == nil; err = v.begin(ctx) {
		v.log.Error("the vectors cannot be opened; searches use words alone", "error", err)
		if !sleep(ctx, retryIndexing) {
			return
		}
	}
	for ctx.Err() == nil {
		select {
		case asked := <-v.renew:
			asked <- v.open(ctx)
		default:
		}
		next := v.moved.next()
		v.tell(nil)
		worked, err := v.step(ctx)
		v.tell(err)
		switch {
		case err != nil:
			if ctx.Err() == nil {
				v.log.Error("vectors could not be kept; it is tried again", "error", err)
			}
			sleep(ctx, retryIndexing)
		case !worked:
			v.await(ctx, next)
		}
	}
}

// await waits until there is something to do.
func (v *vectors) await(ctx context.Context, moved <-chan struct{}) {
	var rested <-chan time.Time
	if v.skipped > 0 {
		rested = time.After(lookAgain)
	}
	select {
	case <-ctx.Done():
	case <-moved:
	case <-rested:
	case asked := <-v.renew:
		asked <- v.open(ctx)
		v.tell(nil)
	}
}

// step does one batch of each kind of work; worked reports whether there was any.
func (v *vectors) step(ctx context.Context) (worked bool, err error) {
	taken, err := v.follow(ctx)
	if err != nil {
		return false, err
	}
	filled, err := v.backfill(ctx)
	if err != nil {
		return false, err
	}
	dropped, err := v.drop(ctx)
	return taken > 0 || filled || dropped, err
}

// follow embeds changed turns, none before the lexical index has it.
func (v *vectors) follow(ctx context.Context) (taken int, err error) {
	b, err := v.next()
	// After all others, or accounts behind many turns of one in back-off would starve.
	if err == nil && b == nil && v.skipped > 0 && v.resting.over() {
		v.feed.Retry(store.StageVectors)
		v.skipped = 0
		b, err = v.next()
	}
	if err != nil {
		return 0, err
	}
	if b == nil {
		v.settle()
		return 0, nil
	}
	began := time.Now()
	if b.Later, err = v.takeUp(ctx, latest(b.Changes)); err != nil {
		return 0, err
	}
	if err := v.feed.Confirm(ctx, store.StageVectors, b); err != nil {
		return 0, err
	}
	v.feed.Done(store.StageVectors, b)
	v.feed.Worked(store.StageVectors, len(b.Changes), began)
	v.settle()
	return len(b.Changes), nil
}

func (v *vectors) next() (*store.Batch, error) {
	return v.feed.Next(store.StageVectors, v.feed.Position(store.StageWords), embedBatch)
}

// settle records up to which change all are embedded.
func (v *vectors) settle() {
	settled := v.feed.Position(store.StageVectors)
	if v.skipped > 0 {
		settled = min(settled, v.skipped-1)
	}
	v.settled.Store(settled)
	v.progress.signal()
}

// lag returns how many changes have no vector yet.
func (v *vectors) lag() uint64 {
	if last, settled := v.feed.Last(), v.settled.Load(); settled < last {
		return last - settled
	}
	return 0
}

// backfill embeds turns from before the generation began, if any are left.
func (v *vectors) backfill(ctx context.Context) (worked bool, err error) {
	g := &v.generations[v.growing]
	if g.Complete {
		return false, nil
	}
	turns, cursor, err := v.feed.TurnsAfter(ctx, g.Cursor, embedBatch)
	if err != nil {
		return false, err
	}
	if len(turns) == 0 {
		return v.complete(ctx)
	}
	later, err := v.takeUp(ctx, turns)
	if err != nil {
		return false, err
	}
	if len(later) > 0 {
		if err := v.feed.Confirm(ctx, store.StageVectors, &store.Batch{Later: later}); err != nil {
			return false, err
		}
	}
	g.Cursor, g.Done = cursor, g.Done+uint64(len(turns))
	g.Total = max(g.Total, g.Done)
	return true, v.note(ctx)
}

// complete lets searches use the growing generation once almost nothing is missing in it.
func (v *vectors) complete(ctx context.Context) (worked bool, err error) {
	if lag, _ := v.feed.Lag(store.StageVectors); lag >= embedBatch || v.skipped > 0 {
		return false, nil
	}
	g := &v.generations[v.growing]
	g.Complete = true
	for i := range v.generations {
		other := &v.generations[i]
		other.Live, other.Retired = i == v.growing, i != v.growing
	}
	if err := v.note(ctx); err != nil {
		return false, err
	}
	v.filled = v.feed.Last() // after the commit of the list, hence after all that the backfill has seen
	v.tell(nil)
	v.serve()
	if g.Done > 0 {
		v.log.Info("the vectors are complete", "embedder", g.Identity, "turns", g.Done)
	}
	return true, nil
}

// drop erases a generation that is no longer needed.
func (v *vectors) drop(ctx context.Context) (worked bool, err error) {
	for i := range v.generations {
		g := v.generations[i]
		if !g.Retired {
			continue
		}
		if err := v.store.Vectors().Drop(ctx, g.Number); err != nil {
			return false, err
		}
		v.cache.Drop(g.Number)
		rest := append(v.generations[:i:i], v.generations[i+1:]...)
		if v.growing > i {
			v.growing--
		}
		v.generations = rest
		return true, v.note(ctx)
	}
	return false, nil
}

// note stores the list of generations.
func (v *vectors) note(ctx context.Context) error {
	return v.store.Vectors().PutGenerations(ctx, v.generations)
}

// begin finds the generation of the embedder, or begins one.
func (v *vectors) begin(ctx context.Context) (err error) {
	since, err := v.feed.Follow(ctx, store.StageVectors)
	if err != nil {
		return err
	}
	if v.generations, err = v.store.Vectors().Generations(); err != nil {
		return err
	}
	v.growing = -1
	for i := range v.generations {
		g := &v.generations[i]
		if !g.Retired && g.Identity == v.embedder.Identity() && g.Dimensions == v.embedder.Dimensions() {
			v.growing = i
		}
	}
	if v.growing < 0 {
		return v.open(ctx)
	}
	if !since {
		incomplete(&v.generations[v.growing])
	}
	return v.arrange(ctx)
}

// open begins a generation.
func (v *vectors) open(ctx context.Context) error {
	var last uint32
	for _, g := range v.generations {
		last = max(last, g.Number)
	}
	v.generations = append(v.generations, record.Generation{
		Number: last + 1, Identity: v.embedder.Identity(), Dimensions: v.embedder.Dimensions(), Started: time.Now().UTC(),
	})
	v.growing = len(v.generations) - 1
	return v.arrange(ctx)
}

// incomplete has all turns checked again. Those that have a vector are not embedded again.
func incomplete(g *record.Generation) { g.Complete, g.Cursor, g.Done, g.Total = false, nil, 0, 0 }

// arrange decides which generation is searched and which are no longer needed. One that does not grow lacks later turns, and is
// used only until the growing one is complete.
func (v *vectors) arrange(ctx context.Context) (err error) {
	growing := &v.generations[v.growing]
	if !growing.Complete && growing.Total == 0 {
		if growing.Total, err = v.feed.CountTurns(ctx); err != nil {
			return err
		}
	}
	searched := growing.Live
	for i := range v.generations {
		if g := &v.generations[i]; i != v.growing {
			incomplete(g)
			g.Live = g.Live && !searched && v.embedderOf(g) != nil
			g.Retired = !g.Live
			searched = searched || g.Live
		}
	}
	growing.Live = growing.Live || !searched
	if err := v.note(ctx); err != nil {
		return err
	}
	v.serve()
	return nil
}

// embedderOf returns the embedder of a generation; nil if it is unavailable.
func (v *vectors) embedderOf(g *record.Generation) Embedder {
	if g.Identity == v.embedder.Identity() && g.Dimensions == v.embedder.Dimensions() {
		return v.embedder
	}
	if former := v.former(g.Identity); former != nil && former.Dimensions() == g.Dimensions {
		return former
	}
	return nil
}

// serve lets searches use the live generation.
func (v *vectors) serve() {
	for i := range v.generations {
		g := &v.generations[i]
		if !g.Live {
			continue
		}
		embedder := v.embedderOf(g)
		space, err := vector.NewSpace(g.Dimensions)
		if embedder == nil || err != nil {
			continue
		}
		v.serving.Store(&serving{g.Number, embedder, space})
	}
}

// statusOf returns the status with the figures of an account.
func (v *vectors) statusOf(ctx context.Context, account record.AccountNumber) (*VectorStatus, error) {
	told := v.status.Load()
	if told == nil {
		return &VectorStatus{Embedder: v.embedder.Identity(), Building: true}, nil
	}
	s := *told
	if reason := v.resting.reasonOf(account); s.Error == "" && reason != nil {
		s.Error = describe(reason)
	}
	s.Lag = v.lag()
	s.Memory = v.cache.Bytes()
	var err error
	s.Documents, s.Bytes, err = v.store.Vectors().Usage(ctx, account, s.Generation)
	return &s, err
}

// tell returns the status, without the reasons for back-offs: accounts must not learn about each other.
func (v *vectors) tell(failed error) {
	g := &v.generations[v.growing]
	s := &VectorStatus{Embedder: g.Identity, Generation: g.Number, Building: !g.Complete, Done: g.Done, Total: g.Total}
	if serving := v.serving.Load(); serving != nil && serving.generation != g.Number {
		s.Serving = serving.embedder.Identity()
	}
	if failed != nil {
		s.Error = describe(failed)
	}
	v.status.Store(s)
}

// describe returns the part of an error that people may see.
func describe(err error) string {
	var e *codec.Error
	if errors.As(err, &e) {
		return e.Message
	}
	return "the embedder failed"
}

func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-time.After(pause):
		return true
	case <-ctx.Done():
		return false
	}
}
