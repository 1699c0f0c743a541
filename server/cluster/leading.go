package cluster

import "context"

// Leads reports whether this centre publishes the roster, lends limits, and finds exchanges for edges.
func (c *Centre) Leads() bool { return c.leads() }

// leads reports whether this centre does what one centre does at a time.
func (c *Centre) leads() bool {
	return c.lends() && (c.options.Leading == nil || c.options.Leading.Leads())
}

// lends reports whether this centre lends limits.
func (c *Centre) lends() bool {
	if c.options.Leading == nil {
		return true
	}
	term := c.options.Leading.Lends()
	return term != 0 && term == c.settled.Load()
}

// lead does what one centre does at a time, until ctx is done.
func (c *Centre) lead(ctx context.Context, roster Roster) {
	give := func(ctx context.Context) {
		select {
		case <-ctx.Done():
		case <-c.opened: // this centre's archive owns the brokers' stream
			g := giver{options: &c.options, broker: c.broker, roster: roster}
			g.run(ctx)
		}
	}
	if c.options.Leading == nil {
		give(ctx)
		return
	}
	c.options.Leading.While(ctx, func(ctx context.Context) {
		term := c.options.Leading.Lends()
		if c.prepareLender(ctx) {
			c.settled.Store(term)
		}
		give(ctx)
	})
}

// prepareLender brings the lender to what is on record, since another centre may have lent until now. It reports whether it has.
func (c *Centre) prepareLender(ctx context.Context) bool {
	if c.options.Lender == nil || c.options.Spending == nil {
		return true
	}
	for said := false; ctx.Err() == nil; said = true {
		err := c.options.Spending(ctx)
		if err == nil {
			return true
		}
		if !said && ctx.Err() == nil {
			c.options.Log.Warn("limits cannot be lent before it is known what was spent; retrying", "cause", err)
		}
		sleep(ctx, pause)
	}
	return false
}
