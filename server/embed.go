package server

import (
	"net/http"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/embeddings"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/record"
)

// embed serves the embeddings surface. It refuses what the model cannot do before anything is sent. The client's bytes
// pass through if the host reads them as they are; else the request is rewritten for the host, in as many parts as it
// needs, and the answers are joined.
func (x *exchange) embed() error {
	embedder, refused := x.router.Embedder(x.route.placement)
	if refused != nil {
		return refused
	}
	request, plan, err := x.planEmbedding(&embedder)
	if err != nil {
		return err
	}
	if len(plan.Batches) == 1 && x.request.addressed == nil && readsAsIs(&embedder) {
		return x.embedAsIs()
	}
	return x.embedInParts(request, plan)
}

// planEmbedding reads the request, and reserves the memory for the one that the host gets.
func (x *exchange) planEmbedding(e *router.Embedder) (*embeddings.Request, *embeddings.Plan, error) {
	if err := x.beginWork(); err != nil {
		return nil, nil, err
	}
	defer x.endWork()
	request, err := x.request.decodeEmbedding()
	if err != nil {
		return nil, nil, err
	}
	plan, err := embeddings.NewPlan(request, e.Model, e.Dialect)
	if err != nil {
		return nil, nil, err
	}
	return request, plan, x.request.share.Take(int64(len(x.request.body)))
}

// readsAsIs reports whether a host accepts the surface's own members under their own names.
func readsAsIs(e *router.Embedder) bool {
	d := &e.Dialect
	return !d.Batch && d.DimensionsMember == "dimensions" && d.EncodingFormat && d.TruncationMember == ""
}

func (x *exchange) embedAsIs() error {
	reply, err := x.call(router.Embed, x.request.envelope.Splice(nil, x.request.body, x.route.placement.Model))
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	return x.passBuffered(reply)
}

// decodeEmbedding reads the request in the client's own form, and appendEmbeddings writes the answer to it.
func (r *request) decodeEmbedding() (*embeddings.Request, error) {
	if a := r.addressed; a != nil {
		return embeddings.DecodeGoogle(r.body, r.envelope.Model, a.single)
	}
	return embeddings.Decode(r.body)
}

func (r *request) appendEmbeddings(dst []byte, plan *embeddings.Plan) ([]byte, error) {
	if a := r.addressed; a != nil {
		return plan.AppendGoogleAnswer(dst, a.single)
	}
	return plan.AppendAnswer(dst)
}

func (x *exchange) embedInParts(request *embeddings.Request, plan *embeddings.Plan) error {
	if from := x.request.shape(); from != x.route.format {
		x.answer.out.Set(headerTranslation, from.String()+"->"+x.route.format.String()+embeddingNotes(&request.Notes))
	}
	var body []byte
	for _, batch := range plan.Batches {
		body = plan.AppendRequest(body[:0], batch, x.route.placement.Model)
		if err := x.embedBatch(plan, batch, body); err != nil {
			return err
		}
	}
	room := x.answer.held // the answer is about as long as its parts
	if err := x.hold(room); err != nil {
		return err
	}
	answer, err := x.request.appendEmbeddings(make([]byte, 0, room), plan)
	if err != nil {
		return x.route.fromProvider(asError(err))
	}
	x.recording.noteFirstByte()
	x.recording.closing.Usage = plan.Usage()
	x.ourHeader()
	x.answer.out.SetContentType("application/json")
	return x.sendBuffered(http.StatusOK, answer, record.OutcomeComplete)
}

func (x *exchange) embedBatch(plan *embeddings.Plan, batch embeddings.Batch, body []byte) error {
	reply, err := x.call(router.Embed, body)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	answer, err := x.readComplete(reply)
	if err != nil {
		return err
	}
	if reply.Status >= http.StatusMultipleChoices {
		e := crossing.ProviderCodec(x.route.format).DecodeError(reply.Status, reply.RetryAfter, answer)
		return x.route.fromProvider(e)
	}
	if err := plan.DecodeAnswer(batch, answer); err != nil {
		return x.route.fromProvider(asError(err))
	}
	return nil
}

func embeddingNotes(n *codec.Notes) string {
	notes := ""
	if len(n.Emulated) > 0 {
		notes += "; emulated=" + strings.Join(n.Emulated, ",")
	}
	if len(n.Dropped) > 0 {
		notes += "; dropped=" + strings.Join(n.Dropped, ",")
	}
	return notes
}
