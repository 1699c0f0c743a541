package router

import (
	"fmt"

	"github.com/mnemeproxy/mneme/codec"
)

// buildFallbacks places every model of every chain, so that a chain without a route is found at the start.
func (r *Router) buildFallbacks(list []Fallback) (map[string][]Placement, error) {
	chains := make(map[string][]Placement, len(list))
	for i, f := range list {
		switch {
		case f.Model == "" || len(f.To) == 0:
			return nil, fmt.Errorf("fallbacks[%d] needs both model and to, the models that may answer for it", i)
		case chains[f.Model] != nil:
			return nil, fmt.Errorf("fallbacks[%d].model: %q has fallbacks already", i, f.Model)
		}
		seen := map[string]bool{f.Model: true}
		for j, model := range f.To {
			p, err := r.Place(model)
			switch {
			case err != nil:
				return nil, fmt.Errorf("fallbacks[%d].to[%d]: %s", i, j, err.Message)
			case seen[model]:
				return nil, fmt.Errorf("fallbacks[%d].to[%d]: %q stands in this chain already", i, j, model)
			}
			seen[model] = true
			chains[f.Model] = append(chains[f.Model], p)
		}
	}
	return chains, nil
}

// Fallbacks returns the placements that may answer instead of p, by the client's name of the model, else by the name as
// sent. They must not be changed.
func (r *Router) Fallbacks(p Placement) []Placement {
	if chain := r.fallbacks[p.Asked]; chain != nil {
		return chain
	}
	return r.fallbacks[p.Model]
}

// FallsBack reports whether another model may be asked after a provider's error: not if the request or the caller is at
// fault, which would fail everywhere.
func FallsBack(e *codec.Error) bool {
	if e.Provider == "" {
		return false
	}
	switch e.Kind {
	case codec.KindRateLimited, codec.KindQuota, codec.KindOverloaded, codec.KindUpstream, codec.KindUpstreamAuth, codec.KindTimeout:
		return true
	default:
		return false
	}
}
