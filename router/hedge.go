package router

import (
	"context"
	"errors"
	"slices"
	"time"
)

// errOutrun ends the attempt that answers later than the one beside it.
var errOutrun = errors.New("another attempt answered first")

// hedged is try with a hedge: where the place keeps the call waiting for longer than the configured time, it is made at
// another place as well, and the first answer that is worth having counts. The other attempt is ended and told of. It
// buys the time of the slowest answers with money, because both places may do the work; so it draws on the budget of
// retries, and is off unless it is asked for.
//
// When both attempts fail, the one that failed last is the result, and the place of the other is among the failed.
func (p *Provider) hedged(ctx context.Context, c *Call, at destination, failed *failedPlaces) outcome {
	ended := make(chan outcome, 2)
	first := p.start(ctx, c, at, ended)
	timer := time.NewTimer(p.hedgeAfter)
	defer timer.Stop()
	select {
	case o := <-ended:
		return first.settle(o)
	case <-timer.C:
	}
	beside, ok := p.beside(c, at, failed)
	if !ok {
		return first.settle(<-ended)
	}
	beside.resends = failed.count()
	second := p.start(ctx, c, beside, ended)

	o := <-ended
	winner, loser := first, second
	if o.at == beside {
		winner, loser = second, first
	}
	if o.Failure == FailureNone && o.reply != nil {
		loser.cancel(errOutrun)
		late := loser.settle(<-ended)
		late.Failure = FailureOutrun
		p.drop(c, late)
		return winner.settle(o)
	}
	o = winner.settle(o)
	failed.add(o.at, &o)
	p.drop(c, o)
	return loser.settle(<-ended)
}

// start makes an attempt on a goroutine of its own, which ends soon after the attempt is cancelled.
func (p *Provider) start(ctx context.Context, c *Call, at destination, ended chan<- outcome) *runner {
	r := new(runner)
	ctx, r.cancel = context.WithCancelCause(ctx)
	go func() { ended <- p.try(ctx, c, at) }()
	return r
}

// runner is an attempt that another may run beside.
type runner struct{ cancel context.CancelCauseFunc }

// settle has the attempt's context go with the body of its answer, or at once where there is none.
func (r *runner) settle(o outcome) outcome {
	if o.reply == nil {
		r.cancel(nil)
	} else {
		o.reply.Body.release = r.cancel
	}
	return o
}

// drop tells of an attempt that is not the result, and closes its answer.
func (p *Provider) drop(c *Call, o outcome) {
	p.observe(c, o.Attempt)
	if o.reply != nil {
		_ = o.reply.Body.Close()
	}
}

// beside chooses where a hedge goes: to another endpoint where there are several, else to another key.
func (p *Provider) beside(c *Call, at destination, failed *failedPlaces) (destination, bool) {
	taken := failedPlaces{endpoints: slices.Clone(failed.endpoints), keys: slices.Clone(failed.keys)}
	if len(p.endpoints) > 1 {
		taken.endpoints = append(taken.endpoints, at.endpoint)
	} else {
		taken.keys = append(taken.keys, at.key)
	}
	place, ok := p.another(c, p.clock.Now(), &taken)
	return place, ok && p.spend(place)
}
