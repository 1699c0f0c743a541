package server

import (
	"cmp"
	"net/http"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/chatkey"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/store"
)

// answer lets the model answer, or where its provider cannot, and nothing has reached the client yet, the first of the
// models that may stand in for it. When none of them can either, the client is told what became of the model that it asked
// for.
func (x *exchange) answer() error {
	x.standIns = x.router.Fallbacks(x.placement)
	failed := x.ask()
	if failed == nil || !x.mayFallBack() || !router.FallsBack(asError(failed)) {
		return failed
	}
	return x.fallBack(failed)
}

// fallBack asks the stand-ins, one after the other. It is apart from answer because that one's frame lies on the stack for
// as long as a stream lasts.
func (x *exchange) fallBack(failed error) error {
	asked, replied := x.placement, x.replied
	x.noteFailure(asError(failed))
	for _, placement := range x.standIns {
		if !x.mayAsk(placement.Provider, asked.Provider) {
			continue
		}
		x.server.telemetry.Fallback(asked.Provider.Name(), placement.Provider.Name())
		x.startAgain(placement)
		x.standingIn = true
		err := x.ask()
		if err == nil || x.ctx.Err() != nil || asError(err).Kind == codec.KindStorage {
			return err
		}
		x.noteFailure(asError(err))
	}
	x.startAgain(asked)
	x.standingIn, x.replied = false, replied
	return failed
}

// ask has the placed model answer, in whatever format it speaks.
func (x *exchange) ask() error {
	if x.format != x.surface {
		return x.cross()
	}
	return x.passThrough()
}

// mayFallBack reports whether another model could still answer: nothing has reached the client, who is still there.
func (x *exchange) mayFallBack() bool {
	if x.standingIn || x.answered || x.ctx.Err() != nil {
		return false
	}
	for _, placement := range x.standIns {
		if x.mayAsk(placement.Provider, x.placement.Provider) {
			return true
		}
	}
	return false
}

// mayAsk reports whether a provider may be asked in place of another. A client that brought a credential of its own is
// served with that, which is for one provider alone, and on nobody else's account.
func (x *exchange) mayAsk(other, asked *router.Provider) bool { return !x.own || other == asked }

// startAgain forgets the answer that did not come.
func (x *exchange) startAgain(placement router.Placement) {
	x.settleOn(placement)
	x.closing = store.Closing{}
	x.out.Del(headerTranslation)
}

// leavesToAnother reports whether an answer with that status is not handed on, since another model is to be asked or has
// been: what the client would read is an error of a model that it does not know.
func (x *exchange) leavesToAnother(status int) bool {
	if x.standingIn {
		return status >= http.StatusBadRequest
	}
	failing := status == http.StatusPaymentRequired || status == http.StatusTooManyRequests || status >= http.StatusInternalServerError
	return failing && x.mayFallBack()
}

// providersError reads the error answer of a provider that is spoken to in the surface's own format.
func (x *exchange) providersError(reply *router.Reply) error {
	body, err := x.readWhole(reply)
	if err != nil {
		return err
	}
	return x.fromProvider(crossing.ProviderCodec(x.format).DecodeError(reply.Status, reply.RetryAfter, body))
}

// noteAttempt keeps a provider's attempt for the record, and counts what follows from it.
func (x *exchange) noteAttempt(a router.Attempt) {
	if x.attempts == nil {
		x.attempts = x.firstAttempt[:0]
	}
	x.attempts = append(x.attempts, store.Attempt{
		Provider: a.Provider.Name(), Endpoint: a.Address, Key: a.Key, Model: x.placement.Model,
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

// noteFailure says of the newest call why it was not enough, and of its last attempt where that was known only behind the
// header.
func (x *exchange) noteFailure(e *codec.Error) {
	x.trace.CallFailed(e.Kind)
	if n := len(x.attempts); n > 0 && x.attempts[n-1].Failure == "" {
		x.attempts[n-1].Failure = e.Kind.String()
	}
}

// attemptsToRecord are all of them, but for the one that gave the answer at once: the record tells of that anyway.
func (x *exchange) attemptsToRecord() []store.Attempt {
	if len(x.attempts) == 1 && x.attempts[0].Failure == "" {
		return nil
	}
	return x.attempts
}

// affinity names what is to be served in one place: the session, by what the client says of it, else by its opening
// messages. Where the provider keeps the conversation, which a later request can name without repeating it, the account
// stands for all of its sessions. It is 0 where there is no choice.
func (x *exchange) affinity() uint64 {
	if x.surface == codec.Embeddings || !x.placement.Provider.Pooled() {
		return 0
	}
	session := cmp.Or(x.envelope.ChatKey, x.envelope.ExternalSession, x.nativeSession().session, x.envelope.Conversation)
	if session == "" {
		session = x.openingKey()
	}
	return router.Affinity(x.caller.Account, session)
}

// openingKey is the derived key of the opening messages, "" where not every request of a session repeats them.
func (x *exchange) openingKey() string {
	if x.envelope.PreviousResponse != "" || storesAnswers(x.surface) && !x.envelope.StoreOff {
		return ""
	}
	return chatkey.Derive(x.surface, x.body, &x.envelope).Opening
}
