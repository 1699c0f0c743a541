package server

import (
	"net/http"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/embeddings"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/record"
)

// run serves the embeddings surface. It refuses what the model cannot do before anything is sent. The client's bytes
// pass through if the host reads them as they are; else the request is rewritten for the host, in as many parts as it
// needs, and the answers are joined.
func (e *embedding) run() error {
	x := e.x
	embedder, refused := x.router.Embedder(x.route.placement)
	if refused != nil {
		return refused
	}
	if err := e.read(&embedder); err != nil {
		return err
	}
	if len(e.plan.Batches) == 1 && x.request.addressed == nil && readsAsIs(&embedder) {
		return e.passAsIs()
	}
	return e.askInParts()
}

// embedding is a request for vectors, and the plan for the host.
type embedding struct {
	x       *exchange
	request *embeddings.Request
	plan    *embeddings.Plan
}

// read reads the request, and reserves the memory for the one that the host gets.
func (e *embedding) read(by *router.Embedder) (err error) {
	if err := e.x.proxy.beginWork(e.x.ctx, &e.x.request); err != nil {
		return err
	}
	defer e.x.proxy.endWork(&e.x.request)
	r := &e.x.request
	if e.request, err = r.decodeEmbedding(); err != nil {
		return err
	}
	if e.plan, err = embeddings.NewPlan(e.request, by.Model, by.Dialect); err != nil {
		return err
	}
	return r.share.Take(int64(len(r.body)))
}

// readsAsIs reports whether a host accepts the surface's own members under their own names.
func readsAsIs(e *router.Embedder) bool {
	d := &e.Dialect
	return !d.Batch && d.DimensionsMember == "dimensions" && d.EncodingFormat && d.TruncationMember == ""
}

func (e *embedding) passAsIs() error {
	x := e.x
	reply, err := x.call(router.Embed, x.request.envelope.Splice(nil, x.request.body, x.route.placement.Model))
	if err != nil {
		return err
	}
	defer reply.close()
	return reply.pass()
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

func (e *embedding) askInParts() error {
	x, plan := e.x, e.plan
	if from := x.request.shape(); from != x.route.format {
		x.answer.out.Set(headerTranslation, from.String()+"->"+x.route.format.String()+embeddingNotes(&e.request.Notes))
	}
	var body []byte
	for _, batch := range plan.Batches {
		body = plan.AppendRequest(body[:0], batch, x.route.placement.Model)
		if err := e.ask(batch, body); err != nil {
			return err
		}
	}
	room := x.answer.held // the answer is about as long as its parts
	if err := x.answer.hold(room); err != nil {
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

// ask asks for the vectors of a batch.
func (e *embedding) ask(batch embeddings.Batch, body []byte) error {
	x := e.x
	reply, err := x.call(router.Embed, body)
	if err != nil {
		return err
	}
	defer reply.close()
	answer, err := reply.whole()
	if err != nil {
		return err
	}
	if reply.Status >= http.StatusMultipleChoices {
		return x.route.decodeError(reply.Status, reply.RetryAfter, answer)
	}
	if err := e.plan.DecodeAnswer(batch, answer); err != nil {
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
