package server

import (
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/record"
)

// attempts are the calls to providers.
type attempts struct {
	made    []record.Attempt
	first   [1]record.Attempt // storage for made; mostly there is one
	replied router.Header     // header of the newest reply; nil if a provider was asked and none came
}

// call asks the provider. The caller closes the reply's body. A refusal of one of our credentials is an error.
func (x *exchange) call(operation router.Operation, body []byte) (*router.Reply, error) {
	credential, own, err := x.server.credential(&x.request.caller, x.route.placement.Provider, x.route.format)
	if err != nil {
		return nil, err
	}
	if x.route.own, x.attempts.replied = own, nil; !own && credential == (router.Credential{}) {
		if err := x.requireOwnReferences(body); err != nil {
			return nil, err
		}
	}
	x.traceCall(operation)
	return x.replied(x.route.placement.Provider.Do(x.ctx, &router.Call{
		Operation: operation,
		Format:    x.route.format, Model: x.route.placement.Model, Stream: x.request.envelope.Stream,
		Body: body, Header: x.route.header, Query: x.request.in.Query(), Credential: credential,
		Account: x.request.caller.Account, Affinity: x.affinity(), Observe: x.recordAttempt,
	}))
}

// replied notes what a provider has answered.
func (x *exchange) replied(reply *router.Reply, failed *codec.Error) (*router.Reply, error) {
	if failed != nil {
		return nil, failed
	}
	x.attempts.replied = reply.Header
	x.recording.closing.ProviderReqID = requestID(reply.Header)
	if refused := x.ownCredentialRefused(reply.Status); refused != nil {
		_ = reply.Body.Close()
		return nil, refused
	}
	return reply, nil
}

func requestID(h router.Header) string {
	for _, name := range []string{"Request-Id", "X-Request-Id", "X-Ds-Trace-Id"} {
		if id := h.Get(name); id != "" {
			return id
		}
	}
	return ""
}

// ownCredentialRefused hides a provider's refusal of the account's or the server's credential: the caller's own key is
// fine, and providers quote parts of the key that they refuse.
func (x *exchange) ownCredentialRefused(status int) error {
	if x.route.own || (status != http.StatusUnauthorized && status != http.StatusForbidden) {
		return nil
	}
	name := x.route.placement.Provider.Name()
	e := codec.Errorf(codec.KindUpstreamAuth, "%s refused the credential that is set for it (HTTP %d). Set a valid one with: mneme account credential set %s %s",
		name, status, x.request.caller.Account, name)
	e.Provider, e.Status = name, status
	return e
}

// providersError reads the error answer of a provider that speaks the surface's own format.
func (x *exchange) providersError(reply *router.Reply) error {
	body, err := x.readComplete(reply)
	if err != nil {
		return err
	}
	return x.route.fromProvider(crossing.ProviderCodec(x.route.format).DecodeError(reply.Status, reply.RetryAfter, body))
}

func (r *route) fromProvider(e *codec.Error) *codec.Error {
	e.Provider = r.placement.Provider.Name()
	return e
}

// recordAttempt keeps a provider's attempt for the record and counts it.
func (x *exchange) recordAttempt(a router.Attempt) {
	if x.attempts.made == nil {
		x.attempts.made = x.attempts.first[:0]
	}
	x.attempts.made = append(x.attempts.made, record.Attempt{
		Provider: a.Provider.Name(), Endpoint: a.Address, Key: a.Key, Model: x.route.placement.Model,
		Status: a.Status, Failure: a.Failure.String(), Took: a.Took.Milliseconds(),
	})
	x.traceAttempt(a)
	if a.Retried {
		x.server.telemetry.Retry(a.Provider.Name(), a.Failure.String())
	}
	if a.CoolDown > 0 {
		x.server.telemetry.CoolDown(a.Provider.Name(), a.Failure.String())
	}
}

// recordFailure records why the newest call was not enough, and its last attempt if that was known only after the
// header.
func (x *exchange) recordFailure(e *codec.Error) {
	x.trace.CallFailed(e.Kind)
	if n := len(x.attempts.made); n > 0 && x.attempts.made[n-1].Failure == "" {
		x.attempts.made[n-1].Failure = e.Kind.String()
	}
}

// toRecord returns all attempts, or none if the first one gave the answer: the record has that anyway.
func (a *attempts) toRecord() []record.Attempt {
	if len(a.made) == 1 && a.made[0].Failure == "" {
		return nil
	}
	return a.made
}
