package router

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/failure"
	"github.com/mnemeproxy/mneme/router/http1"
)

// Retries do what clients cannot: go to another credential or endpoint at once. Errors that only back-off can fix are
// left to clients, since agents resend a failed request up to seven times, some up to thirty (docs/wire/clients.md),
// and every further retry here would multiply that.
const (
	// Before the one retry at the same place, of a request that never reached it. A restarting server is back by then.
	shortestPause = 100 * time.Millisecond
	longestPause  = 300 * time.Millisecond
)

// Do sends a call and returns once the header of the answer is there. The caller closes the reply's body.
//
// If an attempt fails through no fault of the request, another is made at once with another credential of the server or
// at another healthy endpoint, up to the configured number. The same place is tried again only once, and only if it did
// not answer. A request that was sent and not answered is sent a second time, at any place, only if it cannot have been
// read, does not generate, or has an Idempotency-Key from the client; never a third time. Every attempt is reported to
// [Call.Observe]. The result is the last reply or error; nothing of the answer's body has been read.
//
// Cancelling ctx ends the call at once in every phase: while it connects, while it waits, and while the body is read.
// The error then wraps context.Cause(ctx), or is the cause where that is a *codec.Error.
func (p *Provider) Do(ctx context.Context, c *Call) (*Reply, *codec.Error) {
	if err := p.check(c); err != nil {
		return nil, err
	}
	p.budget.earn()
	s := sending{Provider: p, call: c}
	at, ok := p.first(c, p.clock.Now())
	if !ok {
		fault := p.resting(p.rest(c, p.clock.Now()))
		s.observe(Attempt{Provider: p.name, Address: p.Address(), Failure: FailureBreakerOpen, Started: p.clock.Now()})
		return nil, fault
	}
	for retries := 0; ; retries++ {
		o := s.try(ctx, at, retries)
		next, again := destination{}, false
		if retries < p.retries {
			next, again = s.next(ctx, &o)
		}
		o.Retried = again
		s.observe(o.Attempt)
		if !again {
			return o.reply, o.fault
		}
		if o.reply != nil {
			_ = o.reply.Body.Close()
		}
		at = next
	}
}

// check returns an error for a call that is impossible at any place.
func (p *Provider) check(c *Call) *codec.Error {
	switch {
	case c.Operation == Pass && p.endpoints[0].urlOf(c) == nil:
		return codec.Errorf(codec.KindUnsupported, "%s has an API of its own kind: requests to it are not passed on, only those to models.", p.name)
	case p.endpoints[0].urlOf(c) == nil:
		return codec.Errorf(codec.KindInternal, "%s has no operation %s in format %s.", p.name, c.Operation, c.Format)
	case c.Credential.IsZero() && !p.HasKey():
		return p.missingCredential()
	case !validHeaderValue(c.Credential.Value):
		return codec.Errorf(codec.KindAuthentication,
			"The credential for %s holds a line break or another character that cannot stand in a header: set it again.", p.name)
	default:
		return nil
	}
}

// sending is a call in progress, at one place after the other.
type sending struct {
	*Provider
	call   *Call
	failed failedPlaces
}

func (s *sending) observe(a Attempt) {
	if s.call.Observe != nil {
		s.call.Observe(a)
	}
}

// outcome is an attempt and its result.
type outcome struct {
	Attempt
	at    destination
	reply *Reply
	fault *codec.Error
}

// try makes one attempt, after resends earlier ones of the call, and updates the health of the endpoint.
func (s *sending) try(ctx context.Context, at destination, resends int) outcome {
	o := outcome{Attempt: Attempt{Provider: s.Provider.name, Address: at.endpoint.address, Resends: resends, Started: s.clock.Now()}, at: at}
	credential := s.call.Credential
	if at.key != nil {
		o.Key = at.key.number
		credential = s.Credential(s.call.Format, at.key.secret)
	}
	o.reply, o.fault = at.endpoint.call(ctx, s.call, credential)
	switch {
	case o.reply != nil:
		o.Status = o.reply.Status
		o.Failure = failureOfStatus(o.Status)
		o.reply.RetryAfter = o.reply.wait(o.Failure, s.clock.Now())
	case ctx.Err() == nil:
		o.Failure = failureOfFault(o.fault)
	}
	now := s.clock.Now()
	o.Took = now.Sub(o.Started)
	at.endpoint.breaker.report(now, s.call.Account, at.trial, o.health(ctx))
	o.CoolDown = at.coolDown(&o, now)
	return o
}

func failureOfStatus(status int) Failure {
	switch {
	case status == http.StatusTooManyRequests:
		return FailureRateLimited
	case status == http.StatusPaymentRequired:
		return FailureNoCredit
	case status == http.StatusUnauthorized:
		return FailureCredentialRefused
	case status == http.StatusServiceUnavailable || status == failure.StatusOverloaded:
		return FailureOverloaded
	case status >= 500:
		return FailureServerError
	default:
		return FailureNone
	}
}

func failureOfFault(fault *codec.Error) Failure {
	err := fault.Cause
	switch {
	case err == nil:
		return FailureUnreadable
	case errors.Is(err, errFirstByte):
		return FailureNoFirstByte
	case !errors.Is(err, http1.ErrSent) && (neverSent(err) || isCut(err)):
		return FailureUnreachable
	case isCut(err):
		return FailureCut
	default:
		return FailureUnreadable
	}
}

// neverSent reports whether no connection was made, so that nothing can have been sent.
func neverSent(err error) bool {
	var dns *net.DNSError
	var op *net.OpError
	var netErr net.Error
	return errors.As(err, &dns) || isTLS(err) ||
		errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect") ||
		errors.As(err, &netErr) && netErr.Timeout() // of the handshake: a call's own limits cancel it
}

// health returns what the attempt says about its endpoint. A 500 says nothing: providers answer it to requests that
// they cannot process, and one client's must not lock out the others. Neither does a request to back off, which becomes
// a cool-down.
func (o *outcome) health(ctx context.Context) callResult {
	switch {
	case ctx.Err() != nil && o.reply == nil || o.unread():
		return resultNone
	case o.Failure == FailureUnreachable || o.Failure == FailureCut || o.Failure == FailureNoFirstByte:
		return resultFailed
	case o.Failure == FailureUnreadable && o.fault.Cause != nil: // no HTTP at all
		return resultFailed
	case o.Status == http.StatusBadGateway || o.Status == http.StatusServiceUnavailable || o.Status == http.StatusGatewayTimeout:
		return resultFailed
	case o.Status >= 500 || o.Status == 0:
		return resultNone
	default:
		return resultWell
	}
}

// coolDown has the endpoint or the credential skipped for a time, and returns the time. A client's or an account's
// credential is not affected.
func (at *destination) coolDown(o *outcome, now time.Time) time.Duration {
	var cooling *coolDown
	wait := time.Duration(0)
	switch {
	case o.Failure == FailureOverloaded:
		cooling, wait = &at.endpoint.cooling, o.reply.RetryAfter
	case o.Failure == FailureRateLimited || o.Failure == FailureNoCredit:
		if at.key != nil {
			cooling, wait = &at.key.cooling, cmp.Or(o.reply.RetryAfter, spentLimits(o.reply.Header, now))
		}
	case o.Failure == FailureCredentialRefused:
		if at.key != nil {
			cooling, wait = &at.key.cooling, refusedCoolDown
		}
	case o.Failure == FailureNone && o.Status != 0:
		at.endpoint.cooling.succeeded()
		if at.key != nil {
			at.key.cooling.succeeded()
		}
	}
	if cooling == nil {
		return 0
	}
	cooling.begin(now, wait)
	return cooling.rest(now)
}

// add records where an attempt failed. It returns false if the failure is no reason to try again: the request is at
// fault, or it may have been read, so it may be running and paid for. Such a request is resent only if that is
// harmless, and once: whatever crashed one worker would crash the next.
func (f *failedPlaces) add(c *Call, o *outcome) bool {
	switch {
	case o.Failure == FailureNone || c.Upload != nil:
		return false
	case o.Failure == FailureRateLimited || o.Failure == FailureNoCredit || o.Failure == FailureCredentialRefused:
		if o.at.key == nil {
			return false
		}
		f.keys = append(f.keys, o.at.key)
		return true
	case o.reply != nil && o.reply.Header.Get("X-Should-Retry") == "false":
		return false
	case o.unanswered():
		if f.unanswered || !c.repeatable() && !o.unread() {
			return false
		}
		f.unanswered = true
	}
	f.endpoints = append(f.endpoints, o.at.endpoint)
	return true
}

// unanswered reports whether the request was sent, and may have been read, without an answer to tell.
func (o *outcome) unanswered() bool {
	switch o.Failure {
	case FailureCut, FailureNoFirstByte:
		return true
	case FailureUnreadable:
		return o.fault.Cause != nil // else it was answered, with a redirect for instance
	default:
		return false
	}
}

// unread reports whether the request is known not to have been read: it crossed the end of a connection. That says
// nothing about the place, since connections simply end after a while.
func (o *outcome) unread() bool {
	return o.Failure == FailureCut && errors.Is(o.fault.Cause, http1.ErrUnread)
}

// repeatable reports whether a call may be sent twice: it does not generate, or the client allows it.
func (c *Call) repeatable() bool {
	switch c.Operation {
	case Generate, Compact:
	case Pass:
		if c.Method == http.MethodGet || c.Method == http.MethodHead {
			return true
		}
	default:
		return true
	}
	return c.Header.Get("Idempotency-Key") != ""
}

// next returns where to make another attempt, if any, after the wait that it needs.
func (s *sending) next(ctx context.Context, o *outcome) (next destination, again bool) {
	if ctx.Err() != nil || !s.failed.add(s.call, o) {
		return destination{}, false
	}
	if o.unread() {
		return s.sameAgain(ctx, o)
	}
	if next, again = s.another(s.call, s.clock.Now(), &s.failed); again {
		return next, s.spend(next)
	}
	return s.sameAgain(ctx, o)
}

// spend charges the retry budget for an attempt, or releases the place if the budget is empty.
func (s *sending) spend(at destination) bool {
	if s.budget.spend() {
		return true
	}
	at.endpoint.breaker.report(s.clock.Now(), s.call.Account, at.trial, resultNone)
	return false
}

// sameAgain lets a call be tried once more where it failed, after a pause if the place may be in trouble.
func (s *sending) sameAgain(ctx context.Context, o *outcome) (destination, bool) {
	passing := o.Failure == FailureUnreachable && passes(o.fault.Cause) || o.Failure == FailureCut
	if !passing || len(s.failed.endpoints) > 1 || !s.budget.spend() {
		return destination{}, false
	}
	if !o.unread() {
		pause := shortestPause + rand.N(longestPause-shortestPause) //nolint:gosec // keeps clients apart
		if s.clock.Sleep(ctx, pause) != nil {
			return destination{}, false
		}
	}
	var admitted bool
	at := o.at
	at.trial, admitted = at.endpoint.breaker.admit(s.clock.Now(), s.call.Account)
	return at, admitted
}

// passes reports whether a failure to connect may end by itself in a moment.
func passes(err error) bool {
	var dns *net.DNSError
	return !isTLS(err) && (!errors.As(err, &dns) || !dns.IsNotFound)
}

// resting returns the error for a caller while the breakers of all endpoints are open for wait.
func (p *Provider) resting(wait time.Duration) *codec.Error {
	err := p.endpoints[0].faultf(codec.KindOverloaded, nil,
		"%s (%s) is left alone for another %v, because its last calls failed. The records of the exchanges before say why.",
		p.name, p.Address(), wait)
	err.RetryAfter = wait
	return err
}
