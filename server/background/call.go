// Package background calls models on mneme's own behalf: for the vectors of its index, and for summaries of sessions. A
// call runs like a client's request, with the account's or the server's credential and the router's timeouts and
// retries.
//
// These calls are not exchanges and are not recorded; their content is on record already.
package background

import (
	"context"
	"io"
	"net/http"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/redact"
)

// Credentials returns an account's own credential for a provider; found is false if it has none.
type Credentials func(account, provider string) (secret string, found bool, err error)

// Call is one call to a model.
type Call struct {
	Account   string // whose credential is used; the server's if it has none
	Operation router.Operation
	Placement router.Placement
	Format    codec.Format // spoken to the provider
	Body      []byte       // in that format
	MaxAnswer int          // the largest answer that is read, in bytes
}

// Do makes the call and returns the body of the answer. A refusal by the provider is a [*codec.Error], which quotes no
// credential.
func (c Credentials) Do(ctx context.Context, call *Call) ([]byte, error) {
	p := call.Placement.Provider
	credential, fix, err := c.of(call)
	if err != nil {
		return nil, err
	}
	discreet := func(e *codec.Error) *codec.Error { // providers quote what they refuse
		e.Message = redact.Known(e.Message, append(p.Credentials(), strings.TrimPrefix(credential.Value, "Bearer "))...)
		return e
	}
	reply, failed := p.Do(ctx, &router.Call{
		Operation: call.Operation, Format: call.Format, Model: call.Placement.Model, Body: call.Body, Credential: credential,
		Account: call.Account,
	})
	if failed != nil {
		return nil, discreet(failed)
	}
	defer func() { _ = reply.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(reply.Body, int64(call.MaxAnswer)+1))
	switch {
	case err != nil:
		return nil, err
	case len(answer) > call.MaxAnswer:
		return nil, codec.Errorf(codec.KindUpstream, "%s answered with more than %d bytes", p.Name(), call.MaxAnswer)
	case reply.Status == http.StatusUnauthorized || reply.Status == http.StatusForbidden: // providers quote parts of keys
		return nil, codec.Errorf(codec.KindUpstreamAuth, "%s refused the credential that is set for it (HTTP %d); %s", p.Name(), reply.Status, fix)
	case reply.Status >= http.StatusMultipleChoices:
		return nil, discreet(crossing.ProviderCodec(call.Format).DecodeError(reply.Status, reply.RetryAfter, answer))
	}
	return answer, nil
}

// of returns the account's own credential, or the zero one for the server's; and where to set a valid one.
func (c Credentials) of(call *Call) (credential router.Credential, fix string, err error) {
	p := call.Placement.Provider
	secret, found, err := c(call.Account, p.Name())
	if err != nil || !found {
		return router.Credential{}, "set a valid one in providers." + p.Name() + ".api_key", err
	}
	return p.Credential(call.Format, secret), "set a valid one with: mneme account credential set " + call.Account + " " + p.Name(), nil
}
