package server

import (
	"math"
	"strconv"
	"time"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/codec/crossing"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/store"
)

// LimitKeys sets the limits of keys that have none of their own, from the next request on.
func (s *Server) LimitKeys(l store.Limits) { s.keyLimits.Store(&l) }

// keepWithinLimits lets the exchange in as far as the limits of the caller's key go. What they turn away is counted and not
// put on record, so that callers who do not wait cost little.
func (x *exchange) keepWithinLimits() error {
	limits := x.caller.Limits.Or(*x.server.keyLimits.Load())
	pass, refusal := x.server.limiter.Enter(x.server.opts.Clock(), x.caller.KeyID, limits, x.caller.Use, x.estimatedTokens())
	if refusal != nil {
		return x.turnAway(refusal)
	}
	x.pass = pass
	return nil
}

// unknownOutput is how many tokens are reserved for an answer whose length the request does not bound. Few are longer.
const unknownOutput = 4096

// reserveTokens sets aside what the request may use of the key's month.
func (x *exchange) reserveTokens() error {
	tokens := x.estimatedTokens()
	switch {
	case tokens == 0:
		return nil
	case x.surface == codec.Embeddings:
	case x.envelope.MaxTokens > 0:
		tokens += min(x.envelope.MaxTokens, math.MaxInt64-tokens)
	default:
		tokens += unknownOutput
	}
	if refusal := x.pass.Reserve(x.server.opts.Clock(), tokens); refusal != nil {
		return x.turnAway(refusal)
	}
	return nil
}

func (x *exchange) turnAway(refusal *quota.Refusal) error {
	x.turnedAway = true
	x.server.telemetry.Limited(string(refusal.Limit))
	if refusal.Error.Kind == codec.KindQuota {
		x.out.Set("X-Should-Retry", "false") // the SDKs of OpenAI and Anthropic heed it
	}
	return refusal.Error
}

// estimatedTokens is what the prompt is thought to be before the provider has counted it. Counting tokens uses none.
func (x *exchange) estimatedTokens() int64 {
	if x.auxiliary == store.AuxiliaryTokens {
		return 0
	}
	size := max(len(x.body), len(x.in.Body())) // which may be compressed
	return int64(size/bytesPerToken + 1)
}

// leaveLimits counts what the exchange has used.
func (x *exchange) leaveLimits() {
	now, used := x.server.opts.Clock(), x.usedTokens()
	if x.pass == nil {
		x.caller.Use.AddTokens(now, used)
		return
	}
	x.pass.Leave(now, used)
}

// usedTokens goes by what is on record: what the provider says, else the estimate. The prompt counts, too, where nothing
// came of the answer because the client left or the server was shut down: the provider reads it all the same.
func (x *exchange) usedTokens() int64 {
	switch {
	case !x.closing.Usage.IsZero():
		return x.closing.Usage.Total()
	case x.auxiliary == store.AuxiliaryTokens:
		return 0
	case !x.leftTheProvider() && (x.closing.FirstByte.IsZero() || x.closing.Status >= 400):
		return 0
	}
	return x.estimatedTokens()
}

// leftTheProvider reports whether the exchange was ended from this side while a provider had the request. A request whose
// connection was still being made counts as sent: that cannot be told apart.
func (x *exchange) leftTheProvider() bool {
	ended := x.closing.Outcome == store.OutcomeClientClosed || x.closing.Outcome == store.OutcomeInterrupted
	last := len(x.attempts) - 1
	return ended && last >= 0 && x.attempts[last].Failure == "" && x.attempts[last].Status < 300
}

// limitHeader tells the caller how far it is from its limits, in place of what the provider says of ours.
func (x *exchange) limitHeader() {
	if x.pass == nil {
		return
	}
	now, names := x.server.opts.Clock(), &crossing.Traits(x.surface).HTTP.Limits
	for _, window := range [...]struct {
		of string
		quota.Window
	}{{limitedRequests, x.pass.Standing.Requests}, {limitedTokens, x.pass.Standing.Tokens}} {
		if window.Limit == 0 {
			continue
		}
		x.out.Set(names.Name(names.Limit, window.of), strconv.FormatInt(window.Limit, 10))
		x.out.Set(names.Name(names.Remaining, window.of), strconv.FormatInt(window.Remaining, 10))
		reset := window.Reset.Round(time.Millisecond).String()
		if names.ResetAt {
			reset = now.Add(window.Reset).UTC().Format(time.RFC3339)
		}
		x.out.Set(names.Name(names.Reset, window.of), reset)
	}
}
