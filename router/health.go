package router

// Health is what is known of an endpoint.
type Health struct {
	Provider string
	BaseURL  string // no two of a provider's are alike
	Breaker  BreakerState
	Cooling  bool // it is passed over for a while
	Keys     int  // credentials of the server's that open it
	Ready    int  // of them, those that are not cooling down
}

// Health is that of every endpoint now, in the order of the providers' names and of the configuration.
func (r *Router) Health() []Health {
	var all []Health
	for _, p := range r.Providers() {
		now := p.clock.Now()
		for _, e := range p.endpoints {
			h := Health{Provider: p.name, BaseURL: e.urls.base.String(), Breaker: e.breaker.worst(), Cooling: e.cooling.rest(now) > 0, Keys: len(e.keys)}
			for _, key := range e.keys {
				if key.cooling.rest(now) == 0 {
					h.Ready++
				}
			}
			all = append(all, h)
		}
	}
	return all
}
