package embedding

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/embeddings"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/search"
)

// way is the model's route, and how it is asked.
type way struct {
	placement  router.Placement
	host       router.Embedder
	identity   string
	dimensions int // of the vectors
	ask        int // the size to request; 0: none, and any size is accepted

	refused error // there is no route; nothing else is set
}

// Check returns the fault of settings under a router, a *[codec.Error].
func (s *Settings) Check(r *router.Router) error {
	_, err := s.way(r)
	return err
}

func (s *Settings) way(r *router.Router) (*way, error) {
	placement, refused := r.Place(s.Model)
	if refused != nil {
		return nil, refused
	}
	host, refused := r.Embedder(placement)
	if refused != nil {
		return nil, refused
	}
	w := &way{placement: placement, host: host, dimensions: s.Dimensions}
	if w.dimensions == 0 {
		w.dimensions = host.Model.Default
	}
	if w.dimensions == 0 {
		return nil, codec.Invalid("dimensions", "how long the vectors of %s are is not known; say it in search.embedder.dimensions", s.Model)
	}
	// A host is asked for a size only if the model is known to have several: others refuse that.
	if m := &host.Model; m.Default > 0 && w.dimensions != m.Default {
		w.ask = w.dimensions
	}
	if host.Dialect.MaxInputs == 0 || host.Dialect.MaxInputs > s.BatchTexts {
		w.host.Dialect.MaxInputs = s.BatchTexts
	}
	w.identity = s.identity(placement, w.dimensions)
	_, err := w.plan(s, search.ForDocument, []string{"memory"})
	return w, err
}

// plan makes a request of the embeddings surface from texts.
func (w *way) plan(s *Settings, use search.Use, texts []string) (*embeddings.Plan, error) {
	request := &embeddings.Request{
		Model: s.Model, Dimensions: w.ask, Base64: true,
		Inputs: make([]embeddings.Input, len(texts)), InputType: inputTypes[use],
	}
	for i, text := range texts {
		request.Inputs[i].Text = scan.Body(scan.Quote(nil, s.prepared(use, text)))
	}
	return embeddings.NewPlan(request, w.host.Model, w.host.Dialect)
}

// inputTypes are the words of retrieval hosts for the two uses.
var inputTypes = [...][]byte{search.ForDocument: []byte("document"), search.ForQuery: []byte("query")}
