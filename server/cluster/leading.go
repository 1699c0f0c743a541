package cluster

import "context"

// Leading is how centres that share an archive choose the one that publishes the roster, lends limits, and finds exchanges for edges.
type Leading interface {
	Leads() bool

	// While calls do each time that this centre begins to lead, with a context that ends when it leads no longer, until ctx is done.
	While(ctx context.Context, do func(context.Context))
}

// Leads reports whether this centre publishes the roster, lends limits, and finds exchanges for edges.
func (c *Centre) Leads() bool { return c.leads() }

// leads reports whether this centre does what one centre does at a time.
func (c *Centre) leads() bool {
	return c.options.Leading == nil || c.prepared.Load() && c.options.Leading.Leads()
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
		c.prepareLender(ctx)
		c.prepared.Store(true)
		defer c.prepared.Store(false)
		give(ctx)
	})
}

// prepareLender brings the lender to what is on record: another centre has lent until now.
func (c *Centre) prepareLender(ctx context.Context) {
	for said := false; c.options.Lender != nil && c.options.Spending != nil && ctx.Err() == nil; {
		err := c.options.Spending(ctx)
		if err == nil {
			return
		}
		if !said && ctx.Err() == nil {
			c.options.Log.Warn("limits cannot be lent before it is known what was spent; retrying", "cause", err)
		}
		said = true
		sleep(ctx, pause)
	}
}
