package embedding

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/embeddings"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/background"
	"github.com/mnemeproxy/mneme/store/search"
)

// maxAnswer is the largest answer that is read, in bytes: 512 vectors of 4,096 numbers, written out.
const maxAnswer = 64 << 20

// asking is one set of texts being embedded.
type asking struct {
	embedder *Embedder
	way      *way
	account  string
	use      search.Use

	mu   sync.Mutex // a plan accepts one answer at a time
	plan *embeddings.Plan
}

func (a *asking) embed(ctx context.Context, texts []string) ([][]float32, error) {
	var err error
	if a.plan, err = a.way.plan(&a.embedder.settings, a.use, texts); err != nil {
		return nil, err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(cap(a.embedder.slots))
	for _, batch := range a.plan.Batches {
		group.Go(func() error { return a.batch(ctx, batch) })
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	a.embedder.spent.Add(a.plan.Usage().InputUncached)
	if got := a.plan.Dimensions(); got != a.way.dimensions {
		return nil, codec.Errorf(codec.KindUpstream, "%s gives vectors of %d dimensions, and search.embedder.dimensions says %d",
			a.way.placement.Provider.Name(), got, a.way.dimensions)
	}
	return a.plan.Vectors(), nil
}

// batch requests the vectors of one batch, when it is its turn.
func (a *asking) batch(ctx context.Context, batch embeddings.Batch) error {
	e := a.embedder
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	answer, err := e.credentials.Do(ctx, &background.Call{
		Account: a.account, Operation: router.Embed, Placement: a.way.placement, Format: a.way.host.Format,
		Body: a.plan.AppendRequest(nil, batch, a.way.placement.Model), MaxAnswer: maxAnswer,
	})
	if err == nil {
		a.mu.Lock()
		err = a.plan.DecodeAnswer(batch, answer)
		a.mu.Unlock()
	}
	if err != nil {
		e.fails.Add(1)
		return err
	}
	e.calls.Add(1)
	return nil
}
