package router

// Health is the state of an endpoint.
type Health struct {
	Provider string
	BaseURL  string // unique within a provider
	Breaker  BreakerState
	Cooling  bool // it is skipped for a while
	Keys     int  // the server's credentials for it
	Ready    int  // those of them that are not cooling down
}

// Health returns the present state of every endpoint, in the order of the providers' names and of the configuration.
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
