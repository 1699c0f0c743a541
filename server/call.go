package server

import (
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store/record"
)

// call asks the provider. The caller closes the reply's body. A refusal of one of our credentials is an error.
func (x *exchange) call(operation router.Operation, body []byte) (providerReply, error) {
	credential, own, err := x.proxy.credential(&x.request.caller, x.route.placement.Provider, x.route.format)
	if err != nil {
		return providerReply{}, err
	}
	if x.route.own, x.attempts.replied = own, nil; !own && credential == (router.Credential{}) && mayRefer(x.route.format, body) {
		if err := x.proxy.owned.require(x.request.caller.Account, x.route.placement.Provider.Name(), namedIn(body)); err != nil {
			return providerReply{}, err
		}
	}
	x.route.traceCall(x.trace, &x.request, operation)
	return x.replied(x.route.placement.Provider.Do(x.ctx, &router.Call{
		Operation: operation,
		Format:    x.route.format, Model: x.route.placement.Model, Stream: x.request.envelope.Stream,
		Body: body, Header: x.route.header, Query: x.request.in.Query(), Credential: credential,
		Account: x.request.caller.Account, Affinity: x.route.affinity(&x.request), Observe: x.recordAttempt,
	}))
}

// replied notes what a provider has answered.
func (x *exchange) replied(reply *router.Reply, failed *codec.Error) (providerReply, error) {
	if failed != nil {
		return providerReply{}, failed
	}
	x.attempts.replied = reply.Header
	x.recording.closing.ProviderReqID = requestID(reply.Header)
	if refused := x.route.ownCredentialRefused(reply.Status, x.request.caller.Account); refused != nil {
		_ = reply.Body.Close()
		return providerReply{}, refused
	}
	return providerReply{reply, x}, nil
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
func (r *route) ownCredentialRefused(status int, account string) error {
	if r.own || (status != http.StatusUnauthorized && status != http.StatusForbidden) {
		return nil
	}
	name := r.placement.Provider.Name()
	e := codec.Errorf(codec.KindUpstreamAuth, "%s refused the credential that is set for it (HTTP %d). Set a valid one with: mneme account credential set %s %s",
		name, status, account, name)
	e.Provider, e.Status = name, status
	return e
}

// recordAttempt keeps a provider's attempt for the record and counts it.
func (x *exchange) recordAttempt(a router.Attempt) {
	if x.attempts.made == nil {
		x.attempts.made = x.attempts.first[:0]
	}
	x.attempts.made = append(x.attempts.made, record.Attempt{
		Provider: a.Provider, Endpoint: a.Address, Key: a.Key, Model: x.route.placement.Model,
		Status: a.Status, Failure: a.Failure.String(), Took: a.Took.Milliseconds(),
	})
	traceAttempt(x.trace, &a)
	if a.Retried {
		x.proxy.telemetry.Retry(a.Provider, a.Failure.String())
	}
	if a.CoolDown > 0 {
		x.proxy.telemetry.CoolDown(a.Provider, a.Failure.String())
	}
}
