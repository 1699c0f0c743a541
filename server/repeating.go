package server

import (
	"fmt"
	"strings"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/quota"
	"github.com/mnemeproxy/mneme/server/repeats"
	"github.com/mnemeproxy/mneme/server/webhook"
)

// toldRepeats is how many rounds a loop has when it is first told of; it is told again whenever they have doubled.
const toldRepeats = 5

// tellRepeats tells the caller and the operator of an agent that goes in circles, and refuses the request if the key
// bounds that. A loop that is not bounded is only told: the request goes on unchanged.
func (x *exchange) tellRepeats() error {
	r := &x.request
	if r.surface == codec.Embeddings || r.auxiliary != "" || len(r.envelope.Items) < 2*repeats.Fewest {
		return nil
	}
	most := int(r.caller.Limits.Or(*x.server.keyLimits.Load()).Repeats)
	least := toldRepeats
	if most > 0 {
		least = min(least, most)
	}
	loop := repeats.Find(r.surface, r.body, r.envelope.Items, least)
	if loop.Times == 0 {
		return nil
	}
	for i := range loop.Calls {
		loop.Calls[i] = x.masked(loop.Calls[i])
	}
	refused := most > 0 && loop.Times >= most
	x.answer.out.Set(headerRepeats, loop.String())
	if refused || isTold(loop.Times) {
		x.server.log.WarnContext(x.ctx, "an agent repeats itself", "account", r.caller.Account, "key", r.caller.KeyID, "calls", loop.Calls, "times", loop.Times, "refused", refused)
		x.server.opts.Webhooks.Tell(webhook.Repeats, x.server.opts.Clock(), webhook.AgentRepeats{
			Account: r.caller.Account, Key: r.caller.KeyID, Model: x.masked(r.envelope.Model), Calls: loop.Calls, Times: loop.Times, Refused: refused,
		})
	}
	if !refused {
		return nil
	}
	e := codec.Errorf(codec.KindInvalidRequest, "%s", stopped(&loop, most))
	e.Code = string(quota.Repeats)
	return x.turnAway(&quota.Refusal{Limit: quota.Repeats, Error: e})
}

// isTold reports whether a loop of so many rounds is told of.
func isTold(times int) bool {
	for at := toldRepeats; at <= times; at *= 2 {
		if at == times {
			return true
		}
	}
	return false
}

func stopped(loop *repeats.Loop, most int) string {
	what := "has called " + strings.Join(loop.Calls, ", ")
	return fmt.Sprintf("This agent %s with the same arguments and got the same result %d times in a row. This service key stops that at %d. Tell the agent what to do instead, and it goes on; or raise the limit with: mneme key update --repeats.", what, loop.Times, most)
}
