package server

import (
	"context"
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/store/record"
)

// compaction is a request to shorten a conversation. The author of the format does that itself; any other model is asked for
// a summary, and that is the exchange on record.
type compaction struct {
	x      *exchange
	asked  []byte // the client's body
	whole  bool   // the client wants the conversation that it goes on with, not only the item
	stream bool
	answer *edge.Detached // to the request for the summary
}

// serveCompaction serves the path that only compacts.
func (s *proxy) serveCompaction(ctx context.Context, in *edge.Request, out *edge.Response) {
	x := s.newExchange(ctx, in, out, codec.Responses)
	x.request.auxiliary = record.AuxiliarySummary
	defer x.finish()
	err := x.arrive()
	switch {
	case err != nil:
	case x.route.isAuthorOf(x.request.surface):
		if err = x.enter(); err == nil {
			err = x.passAuxiliary(router.Compact)
		}
	default:
		c := compaction{x: x, whole: true}
		err = c.run()
	}
	if err != nil {
		x.refuse(err)
	}
}

// mustCompact reports whether the request ends in a trigger that its provider does not know.
func mustCompact(r *request, to *route) bool {
	if !storesAnswers(r.surface) || !responses.EndsInTrigger(r.body) || to.isAuthorOf(r.surface) {
		return false
	}
	r.auxiliary = record.AuxiliarySummary
	return true
}

// run asks for the summary and answers with it.
func (c *compaction) run() error {
	if err := c.prepare(); err != nil {
		return err
	}
	if err := c.x.enter(); err != nil {
		return err
	}
	return c.compact()
}

// prepare replaces the request by one for the summary.
func (c *compaction) prepare() error {
	x, r := c.x, &c.x.request
	if err := x.proxy.beginWork(x.ctx, &x.request); err != nil {
		return err
	}
	defer x.proxy.endWork(&x.request)
	input := scan.Get(r.body, "input")
	if !scan.IsString(input) && !scan.IsArray(input) && (!scan.IsNull(input) || r.envelope.PreviousResponse == "") {
		return codec.Invalid("input", "input is what to compact: a text or a list of items")
	}
	if err := r.share.Take(int64(len(r.body))); err != nil {
		return err
	}
	c.asked, c.stream = r.body, r.envelope.Stream
	r.body = responses.AppendSummaryRequest(make([]byte, 0, len(r.body)+1<<10), r.body)
	r.envelope, r.blocks, r.prints = codec.Envelope{}, nil, nil
	return r.read(&x.proxy.pieces)
}

// compact asks for the summary, and answers with it in place of the conversation.
func (c *compaction) compact() error {
	x, out := c.x, c.x.answer.out
	c.answer = x.request.in.Detach(x.proxy.answers)
	defer c.answer.End()
	x.answer.out = &c.answer.Response
	err := x.generate()
	x.answer.out, x.answer.begun = out, false
	if err != nil {
		return err
	}
	response, status := c.answer.Response.Body(), c.answer.Response.Status()
	if response == nil { // a long one
		response = c.answer.Kept.Now()
	}
	x.ourHeader()
	x.recording.nameSession(out)
	if status >= http.StatusMultipleChoices {
		out.SetStatus(status)
		out.SetContentType("application/json")
		out.SetBody(response)
		return nil
	}
	summary := responses.Summarized(response)
	if len(summary) == 0 {
		return codec.Errorf(codec.KindUpstream, "The model wrote no summary of the conversation: send the request again.")
	}
	return c.send(response, summary)
}

func (c *compaction) send(response, summary []byte) error {
	out, o := c.x.answer.out, c.x.answerOptions()
	item := responses.AppendCompaction(nil, o.ID, c.x.request.caller.Account, summary)
	out.SetContentType("application/json")
	switch {
	case c.whole:
		usage := scan.Get(response, "usage")
		out.SetBody(responses.AppendCompacted(nil, c.asked, item, o, usage))
	case c.stream:
		eventHeader(out)
		return send(out.Stream(), responses.AppendItemEvents(nil, responses.WithOutput(response, item), item))
	default:
		out.SetBody(responses.WithOutput(response, item))
	}
	return nil
}
