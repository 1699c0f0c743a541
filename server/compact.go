package server

import (
	"context"
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/codec/responses"
	"github.com/mnemeproxy/mneme/codec/scan"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/store/record"
)

// compaction is a request to shorten a conversation. The author of the format does that itself; any other model is asked for
// a summary, and that is the exchange on record.
type compaction struct {
	asked  []byte // the client's body
	whole  bool   // the client wants the conversation that it goes on with, not only the item
	stream bool
	answer *edge.Detached // to the request for the summary
}

// serveCompaction serves the path that only compacts.
func (s *Server) serveCompaction(ctx context.Context, in *edge.Request, out *edge.Response) {
	x := s.newExchange(ctx, in, out, codec.Responses)
	x.request.auxiliary = record.AuxiliarySummary
	defer x.finish()
	err := x.arrive()
	switch {
	case err != nil:
	case x.compactsItself():
		if err = x.enter(); err == nil {
			err = x.passCompaction()
		}
	default:
		x.request.compaction = &compaction{whole: true}
		if err = x.prepareCompaction(); err == nil {
			err = x.enter()
		}
		if err == nil {
			err = x.compact()
		}
	}
	if err != nil {
		x.refuse(err)
	}
}

func (x *exchange) passCompaction() error {
	body, err := x.spliced()
	if err != nil {
		return err
	}
	return x.passAuxiliary(router.Compact, body)
}

// compactsItself reports whether the provider compacts conversations: the author of the format does.
func (x *exchange) compactsItself() bool {
	return x.route.format == x.request.surface && x.route.placement.Provider.Family() == crossing.Traits(x.request.surface).Author
}

// mustCompact reports whether the request ends in a trigger that its provider does not know.
func (x *exchange) mustCompact() bool {
	if !storesAnswers(x.request.surface) || !responses.EndsInTrigger(x.request.body) || x.compactsItself() {
		return false
	}
	x.request.auxiliary = record.AuxiliarySummary
	x.request.compaction = new(compaction)
	return true
}

// prepareCompaction replaces the request by one for the summary.
func (x *exchange) prepareCompaction() error {
	if err := x.beginWork(); err != nil {
		return err
	}
	defer x.endWork()
	r := &x.request
	input := scan.Get(r.body, "input")
	if !scan.IsString(input) && !scan.IsArray(input) && (!scan.IsNull(input) || r.envelope.PreviousResponse == "") {
		return codec.Invalid("input", "input is what to compact: a text or a list of items")
	}
	if err := r.share.Take(int64(len(r.body))); err != nil {
		return err
	}
	r.compaction.asked, r.compaction.stream = r.body, r.envelope.Stream
	r.body = responses.AppendSummaryRequest(make([]byte, 0, len(r.body)+1<<10), r.body)
	r.envelope, r.blocks, r.prints = codec.Envelope{}, nil, nil
	return x.read()
}

// compact asks for the summary, and answers with it in place of the conversation.
func (x *exchange) compact() error {
	c, out := x.request.compaction, x.answer.out
	c.answer = x.request.in.Detach(x.server.answers)
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
	x.sessionHeader()
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
	return x.sendCompacted(response, summary)
}

func (x *exchange) sendCompacted(response, summary []byte) error {
	c, out, o := x.request.compaction, x.answer.out, x.answerOptions()
	item := responses.AppendCompaction(nil, o.ID, x.request.caller.Account, summary)
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
