package command

import (
	"cmp"
	"fmt"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/config"
)

// provision is what serves a provider.
type provision struct {
	provider         string
	simulated, keyed bool // keyed: the server has a key
}

// String returns the text for people, at the start and in the doctor.
func (p provision) String() string {
	key := cmp.Or(config.ProviderKeyVariable(p.provider), router.KeyVariable(p.provider, ""), "providers."+p.provider+".api_key")
	switch {
	case p.simulated:
		return fmt.Sprintf("SIMULATED: canned answers, not a model; set %s for the real one", key)
	case p.keyed:
		return "ready"
	default:
		return fmt.Sprintf("no key of the server's: set %s, or callers and accounts bring their own", key)
	}
}

// state returns the doctor's word for it.
func (p provision) state() string {
	if p.simulated {
		return warning
	}
	return good
}
