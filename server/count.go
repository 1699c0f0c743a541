package server

import (
	"bytes"
	"context"
	"net/http"

	"github.com/bytedance/sonic"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/store/record"
)

// countTokens answers a request for the size of a prompt: by the provider if it is the author of the surface's format,
// else by an estimate, so that clients that count before they send get an answer for every family.
func (s *Server) countTokens(surface codec.Format) edge.Handler {
	return func(ctx context.Context, in *edge.Request, out *edge.Response) {
		x := s.newExchange(ctx, in, out, surface)
		x.request.auxiliary = record.AuxiliaryTokens
		defer x.finish()
		x.runCount()
	}
}

func (x *exchange) runCount() {
	if err := x.countTokens(); err != nil {
		x.refuse(err)
	}
}

func (x *exchange) countTokens() error {
	if err := x.accept(); err != nil {
		return err
	}
	if x.route.format != x.request.surface || x.route.placement.Provider.Family() != crossing.Traits(x.request.surface).Author {
		return x.estimateTokens()
	}
	request, err := x.spliced()
	if err != nil {
		return err
	}
	return x.passAuxiliary(router.CountTokens, request)
}

// passAuxiliary passes a request on that generates no answer, and its answer.
func (x *exchange) passAuxiliary(operation router.Operation, request []byte) error {
	reply, err := x.call(operation, request)
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	body, err := x.readComplete(reply)
	if err != nil {
		return err
	}
	x.recording.noteFirstByte()
	if reply.Status >= http.StatusMultipleChoices {
		x.request.redactor.MaskKnown(body)
	}
	contentType := jsonType(reply.Header)
	if !sonic.Valid(body) {
		if reply.Status < http.StatusBadRequest {
			return x.route.notJSON(reply, body)
		}
		// The status stays: clients that took it for a success would not shorten their conversation.
		body = x.errorInForm(reply, body)
		contentType = "application/json"
	}
	if reply.Status >= http.StatusBadRequest {
		x.recordError(reply.Status, body)
	}
	x.answerHeader(reply)
	x.answer.out.SetContentType(contentType)
	return x.sendBuffered(reply.Status, body, x.recording.outcomeOf(reply.Status))
}

// errorInForm returns an error in the surface's form for an answer that is not JSON.
func (x *exchange) errorInForm(reply *router.Reply, body []byte) []byte {
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte("<")) {
		body = nil // a page is no use in a line of text
	}
	e := x.route.fromProvider(crossing.ProviderCodec(x.route.format).DecodeError(reply.Status, reply.RetryAfter, body))
	return crossing.ClientCodec(x.request.shape()).AppendError(nil, x.request.discreet(e), &codec.AnswerOptions{ID: x.recording.id()})
}

// estimateTokens estimates what the model would read: opening text, messages and tools, without the rest of the body.
func (x *exchange) estimateTokens() error {
	envelope := &x.request.envelope
	if envelope.PreviousResponse != "" {
		body, _, err := x.resolve(x.answersOnRecord())
		if err != nil {
			return err
		}
		envelope = new(codec.Envelope)
		if err := envelope.Read(body); err != nil {
			return err
		}
	}
	size := 0
	for _, block := range envelope.Blocks(nil) {
		size += block.End - block.Start
	}
	if size == 0 { // Google's clients may send the whole request as one member
		size = len(x.request.body)
	}
	appendCount := crossing.TokenCount(x.request.surface)
	x.ourHeader()
	x.answer.out.SetContentType("application/json")
	return x.sendBuffered(http.StatusOK, appendCount(nil, int64(size/bytesPerToken+1)), record.OutcomeComplete)
}
