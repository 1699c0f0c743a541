package server

import (
	"context"
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/messages"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/edge"
	"github.com/mnemeproxy/mneme/store"
)

// countTokens answers POST /v1/messages/count_tokens: by the provider where it speaks Messages, else by the rule of
// thumb, so that clients that ask before they send get an answer for every family.
func (s *Server) countTokens(ctx context.Context, in *edge.Request, out *edge.Response) {
	x := s.newExchange(ctx, in, out, codec.Messages)
	x.auxiliary = store.AuxiliaryTokens
	defer x.end()
	if err := x.countTokens(); err != nil {
		x.fail(asError(err))
	}
}

func (x *exchange) countTokens() error {
	if err := x.accept(); err != nil {
		return err
	}
	if x.format != x.surface || x.placement.Provider.Family() != codec.FamilyAnthropic {
		return x.estimateTokens()
	}
	reply, err := x.callFor(router.CountTokens, x.envelope.Splice(nil, x.body, x.placement.Model))
	if err != nil {
		return err
	}
	defer func() { _ = reply.Body.Close() }()
	if refused := x.ownCredentialRefused(reply.Status); refused != nil {
		return refused
	}
	body, err := x.readWhole(reply)
	if err != nil {
		return err
	}
	x.noteFirstByte()
	if reply.Status >= http.StatusMultipleChoices {
		x.redactor.MaskKnown(body)
	}
	if reply.Status >= http.StatusBadRequest {
		x.noteRefusal(reply.Status, body)
	}
	x.answerHeader(reply)
	x.out.SetContentType(jsonType(reply.Header))
	return x.sendWhole(reply.Status, body, x.wholeOutcome(reply.Status))
}

// estimateTokens counts what the model would read: opening text, messages and tools, without the rest of the body.
func (x *exchange) estimateTokens() error {
	size := 0
	for _, block := range x.envelope.Blocks(nil) {
		size += block.End - block.Start
	}
	x.ourHeader()
	x.out.SetContentType("application/json")
	return x.sendWhole(http.StatusOK, messages.AppendTokenCount(nil, int64(size/bytesPerToken+1)), store.OutcomeComplete)
}
