package embedding

import (
	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/embeddings"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/search"
)

// way is where the router leads the model, and how it is asked there.
type way struct {
	placement  router.Placement
	host       router.Embedder
	identity   string
	dimensions int // of the vectors
	ask        int // the size to ask for; 0: none, and the size of the answer is taken

	refused error // there is no way; nothing else is set
}

// Check tells what is wrong with settings under a router. The error is a *[codec.Error].
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
	// A host is asked for a size only where the model is known to have several: others refuse to be asked.
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

// plan writes texts as a request of the embeddings surface.
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

// inputTypes are the words that retrieval hosts have for the two uses.
var inputTypes = [...][]byte{search.ForDocument: []byte("document"), search.ForQuery: []byte("query")}
