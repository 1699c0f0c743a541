package embedding

import (
	"context"
	"io"
	"net/http"
	"sync"

	"golang.org/x/sync/errgroup"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/embeddings"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/search"
)

// maxAnswer is the largest answer that is read, in bytes: 512 vectors of 4,096 numbers, written out.
const maxAnswer = 64 << 20

// asking is one set of texts on its way to their vectors.
type asking struct {
	embedder *Embedder
	way      *way
	account  string
	use      search.Use

	mu   sync.Mutex // a plan takes one answer at a time
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

// batch asks for the vectors of one batch, when it is its turn.
func (a *asking) batch(ctx context.Context, batch embeddings.Batch) error {
	e := a.embedder
	select {
	case e.slots <- struct{}{}:
		defer func() { <-e.slots }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	answer, err := a.call(ctx, a.plan.AppendRequest(nil, batch, a.way.placement.Model))
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

func (a *asking) call(ctx context.Context, body []byte) ([]byte, error) {
	p, format := a.way.placement.Provider, a.way.host.Dialect.Format
	credential, err := a.credential(p, format)
	if err != nil {
		return nil, err
	}
	reply, failed := p.Do(ctx, &router.Call{
		Operation: router.Embed, Format: format, Model: a.way.placement.Model, Body: body, Credential: credential,
	})
	if failed != nil {
		return nil, failed
	}
	defer func() { _ = reply.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(reply.Body, maxAnswer+1))
	switch {
	case err != nil:
		return nil, err
	case len(answer) > maxAnswer:
		return nil, codec.Errorf(codec.KindUpstream, "%s answered with more than %d bytes", p.Name(), maxAnswer)
	case reply.Status == http.StatusUnauthorized || reply.Status == http.StatusForbidden: // providers quote parts of keys
		return nil, codec.Errorf(codec.KindUpstreamAuth, "%s refused the credential that is set for it (HTTP %d)", p.Name(), reply.Status)
	case reply.Status >= http.StatusMultipleChoices:
		return nil, crossing.ProviderHalf(format).DecodeError(reply.Status, reply.RetryAfter, answer)
	}
	return answer, nil
}

// credential is the account's own; the zero one stands for the server's.
func (a *asking) credential(p *router.Provider, format codec.Format) (router.Credential, error) {
	secret, found, err := a.embedder.credentials(a.account, p.Name())
	if err != nil || !found {
		return router.Credential{}, err
	}
	return p.Credential(format, secret), nil
}
