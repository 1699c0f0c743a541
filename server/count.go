package server

import (
	"context"
	"net/http"
	"strconv"

	"github.com/cloudwego/hertz/pkg/app"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store"
)

// countTokens answers POST /v1/messages/count_tokens: by the provider where it speaks Messages, else by the rule of
// thumb, so that clients that ask before they send get an answer for every family.
func (s *Server) countTokens(ctx context.Context, rc *app.RequestContext) {
	x := &exchange{server: s, ctx: ctx, rc: rc, surface: codec.Messages}
	defer func() { s.budget.give(x.reserved) }()
	if err := x.countTokens(); err != nil {
		s.answerError(rc, codec.Messages, asError(err), "")
	}
}

func (x *exchange) countTokens() error {
	var err error
	if x.caller, err = x.server.authenticate(x.rc); err != nil {
		return err
	}
	if err := x.caller.requireScope(store.ScopeWrite); err != nil {
		return err
	}
	if x.body, err = x.server.readBody(x.rc); err != nil {
		return err
	}
	x.reserved = int64(len(x.body))
	if err := x.envelope.Read(x.body); err != nil {
		return err
	}
	if err := x.place(); err != nil {
		return err
	}
	if x.format != codec.Messages || x.placement.Provider.Family() != codec.FamilyAnthropic {
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
	x.answerHeader(reply)
	x.rc.Response.SetStatusCode(reply.Status)
	x.rc.Response.SetBodyRaw(body)
	return nil
}

// estimateTokens counts what the model would read: opening text, messages and tools, without the rest of the body.
func (x *exchange) estimateTokens() error {
	size := 0
	for _, block := range x.envelope.Blocks(nil) {
		size += block.End - block.Start
	}
	x.rc.Response.SetStatusCode(http.StatusOK)
	x.rc.Response.Header.SetContentType("application/json")
	x.rc.Response.SetBodyString(`{"input_tokens":` + strconv.Itoa(size/bytesPerToken+1) + `}`)
	return nil
}
