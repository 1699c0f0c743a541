package server

import (
	"strconv"
	"time"

	"github.com/cloudwego/hertz/pkg/protocol"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/store"
)

// LimitKeys sets the limits of keys that have none of their own, from the next request on.
func (s *Server) LimitKeys(l store.Limits) { s.keyLimits.Store(&l) }

// keepWithinLimits lets the exchange in as far as the limits of the caller's key go. What they turn away is counted and not
// put on record, so that callers who do not wait cost little.
func (x *exchange) keepWithinLimits() error {
	limits := x.caller.Limits.Or(*x.server.keyLimits.Load())
	pass, refusal := x.server.quota.Enter(x.server.opts.Clock(), x.caller.KeyID, limits, x.caller.Use, x.estimatedTokens())
	if refusal != nil {
		x.turnedAway = true
		x.server.telemetry.Limited(string(refusal.Limit))
		if refusal.Error.Kind == codec.KindQuota {
			x.rc.Response.Header.Set("X-Should-Retry", "false") // the SDKs of OpenAI and Anthropic heed it
		}
		return refusal.Error
	}
	x.pass = pass
	return nil
}

// estimatedTokens is what the prompt is thought to be before the provider has counted it. Counting tokens uses none.
func (x *exchange) estimatedTokens() int64 {
	if x.auxiliary == store.AuxiliaryTokens {
		return 0
	}
	return int64(len(x.rc.Request.Body())/bytesPerToken + 1)
}

// leaveLimits counts what the exchange has used.
func (x *exchange) leaveLimits() {
	used := x.usedTokens()
	x.caller.Use.AddTokens(x.server.opts.Clock(), used)
	x.pass.Leave(used)
}

// usedTokens goes by what the provider says. Of an answer that tells no usage, because its client did not ask for it or
// left, the prompt counts as estimated, and each event as a token: providers stream about one an event.
func (x *exchange) usedTokens() int64 {
	switch {
	case !x.closing.Usage.IsZero():
		return x.closing.Usage.Total()
	case x.closing.FirstByte.IsZero() || x.closing.Status >= 400 || x.auxiliary == store.AuxiliaryTokens:
		return 0
	}
	return x.estimatedTokens() + x.events
}

// limitHeader tells the caller how far it is from its limits, in place of what the provider says of ours.
func (x *exchange) limitHeader() {
	if x.pass == nil {
		return
	}
	header := &x.rc.Response.Header
	for _, window := range [...]struct {
		name string
		quota.Window
	}{{"requests", x.pass.Standing.Requests}, {"tokens", x.pass.Standing.Tokens}} {
		switch {
		case window.Limit == 0:
		case x.surface == codec.Messages:
			anthropicLimit(header, window.name, window.Window, x.server.opts.Clock())
		default:
			openAILimit(header, window.name, window.Window)
		}
	}
}

func openAILimit(header *protocol.ResponseHeader, name string, w quota.Window) {
	header.Set("X-Ratelimit-Limit-"+name, strconv.FormatInt(w.Limit, 10))
	header.Set("X-Ratelimit-Remaining-"+name, strconv.FormatInt(w.Remaining, 10))
	header.Set("X-Ratelimit-Reset-"+name, w.Reset.Round(time.Millisecond).String())
}

func anthropicLimit(header *protocol.ResponseHeader, name string, w quota.Window, now time.Time) {
	name = "Anthropic-Ratelimit-" + name
	header.Set(name+"-Limit", strconv.FormatInt(w.Limit, 10))
	header.Set(name+"-Remaining", strconv.FormatInt(w.Remaining, 10))
	header.Set(name+"-Reset", now.Add(w.Reset).UTC().Format(time.RFC3339))
}
