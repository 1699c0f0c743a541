package router

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
)

// maxModelName is the longest model name that is routed, in bytes. Fine-tuned names reach about 100.
const maxModelName = 256

// A Placement is where a request for a model goes.
type Placement struct {
	Provider *Provider
	Asked    string // the model as the client named it
	Model    string // the model as it is sent; differs from Asked when aliased
	Aliased  bool
}

type route struct {
	prefix     string
	provider   *Provider
	configured bool
	vendor     bool   // the prefix is a host name with a slash
	strip      bool   // the prefix is not sent
	to         string // the model name to send; "" for the one that was asked for
}

// sent returns the model name to send; "" if nothing is left of it.
func (r *route) sent(model string) string {
	switch {
	case r.to != "":
		return r.to
	case r.strip:
		return model[len(r.prefix):]
	}
	return model
}

// buildRoutes sorts the rules in the order they are tried: configured before built-in, longer before shorter.
func (r *Router) buildRoutes(rules []RouteRule) ([]route, error) {
	var routes []route
	seen := make(map[string]bool, len(rules))
	for i, rule := range rules {
		switch p := r.providers[rule.Provider]; {
		case rule.Prefix == "":
			return nil, fmt.Errorf("routes[%d].prefix is empty: give the first characters of the model names that %s serves", i, rule.Provider)
		case p == nil:
			return nil, fmt.Errorf("routes[%d].provider: there is no provider %q (known: %s)", i, rule.Provider, strings.Join(r.names, ", "))
		case seen[rule.Prefix]:
			return nil, fmt.Errorf("routes[%d].prefix: %q has a route already", i, rule.Prefix)
		case rule.Strip && rule.To != "":
			return nil, fmt.Errorf("routes[%d].to: strip is set as well; remove one of them", i)
		default:
			seen[rule.Prefix] = true
			routes = append(routes, route{prefix: rule.Prefix, provider: p, configured: true, strip: rule.Strip, to: rule.To})
		}
	}
	for _, name := range r.names {
		p := r.providers[name]
		for _, prefix := range p.prefixes {
			routes = append(routes, route{prefix: prefix, provider: p})
		}
		if p.vendor != "" {
			routes = append(routes, route{prefix: p.vendor, provider: p, vendor: true, strip: true})
		}
	}
	slices.SortStableFunc(routes, func(a, b route) int {
		if a.configured != b.configured {
			if a.configured {
				return -1
			}
			return 1
		}
		return cmp.Compare(len(b.prefix), len(a.prefix))
	})
	return routes, nil
}

// aliases maps names to other names.
type aliases struct {
	exact    map[string]string
	patterns []Alias // without their stars, the longest first
}

// of returns the name that a model is an alias for.
func (a *aliases) of(model string) (to string, ok bool) {
	if to, ok = a.exact[model]; ok {
		return to, true
	}
	for _, p := range a.patterns {
		if rest, begins := strings.CutPrefix(model, p.Model); begins {
			if to, given := strings.CutSuffix(p.To, "*"); given {
				return to + rest, true
			}
			return p.To, true
		}
	}
	return "", false
}

func (r *Router) buildAliases(list []Alias) (aliases, error) {
	all := aliases{exact: make(map[string]string, len(list))}
	seen := make(map[string]bool, len(list))
	for i, a := range list {
		begin, pattern := strings.CutSuffix(a.Model, "*")
		to, given := strings.CutSuffix(a.To, "*")
		switch {
		case a.Model == "" || a.To == "":
			return all, fmt.Errorf("aliases[%d]: model and to both need a model name", i)
		case seen[a.Model]:
			return all, fmt.Errorf("aliases[%d].model: %q has an alias already", i, a.Model)
		case given && !pattern:
			return all, fmt.Errorf("aliases[%d].to: %q ends in *, and model does not; there is nothing to put there", i, a.To)
		case !given && r.provides(a.To) == nil || given && to != "" && r.provides(to+"x") == nil:
			return all, fmt.Errorf("aliases[%d].to: no route leads to model %q (known prefixes: %s)", i, a.To, r.prefixes())
		}
		seen[a.Model] = true
		if pattern {
			all.patterns = append(all.patterns, Alias{Model: begin, To: a.To})
		} else {
			all.exact[a.Model] = a.To
		}
	}
	slices.SortStableFunc(all.patterns, func(a, b Alias) int { return cmp.Compare(len(b.Model), len(a.Model)) })
	return all, nil
}

// Place finds the provider of a model. It follows an alias once, then tries configured routes before built-in ones, the
// longest prefix first. VENDOR/MODEL goes to the family of that vendor, as MODEL. Names are case-sensitive, because
// they are to the hosts of open weights.
//
// Errors: [codec.KindInvalidRequest] for an invalid name, [codec.KindNotFound] with code "model_not_found" for one
// without a route.
func (r *Router) Place(model string) (Placement, *codec.Error) {
	if err := checkModelName(model); err != nil {
		return Placement{}, err
	}
	sent, aliased := model, false
	if to, ok := r.aliases.of(model); ok {
		sent, aliased = to, true
	}
	p, sent := r.match(sent)
	if p == nil {
		return Placement{}, r.unknownModel(model)
	}
	return Placement{Provider: p, Asked: model, Model: sent, Aliased: aliased}, nil
}

// PlaceAt places a model at a provider, by the name that the client says.
func (r *Router) PlaceAt(p *Provider, model string) (Placement, *codec.Error) {
	if err := checkModelName(model); err != nil {
		return Placement{}, err
	}
	return Placement{Provider: p, Asked: model, Model: model}, nil
}

// vendors maps the VENDOR of names VENDOR/MODEL to the name of its family's provider.
var vendors = map[string]string{
	"anthropic": "anthropic", "openai": "openai", "google": "gemini", "gemini": "gemini", "deepseek": "deepseek",
}

// match finds the provider of a model, nil if no route leads to one, and the model name to send. A name with a vendor
// is never matched by its first letters: ollama/llama3 is not a model of OpenAI, and may be meant to stay local.
func (r *Router) match(model string) (p *Provider, sent string) {
	vendor, name, vendored := strings.Cut(model, "/")
	for i := range r.routes {
		at := &r.routes[i]
		if strings.HasPrefix(model, at.prefix) && (at.configured || at.vendor || !vendored) {
			if sent = at.sent(model); sent != "" {
				return at.provider, sent
			}
		}
	}
	if vendored && name != "" {
		return r.providers[vendors[vendor]], name
	}
	return nil, model
}

// provides returns the provider of a model.
func (r *Router) provides(model string) *Provider {
	p, _ := r.match(model)
	return p
}

func checkModelName(model string) *codec.Error {
	switch {
	case model == "":
		return codec.Invalid("model", "model is missing: name the model that shall answer")
	case len(model) > maxModelName:
		return codec.Invalid("model", "model is %d bytes long; the longest name that is routed has %d", len(model), maxModelName)
	case !utf8.ValidString(model) || strings.ContainsFunc(model, func(c rune) bool { return c < ' ' || c == 0x7f }):
		return codec.Invalid("model", "model holds a character that no model name has")
	default:
		return nil
	}
}

func (r *Router) unknownModel(model string) *codec.Error {
	hint := ""
	if lower := strings.ToLower(model); lower != model && r.provides(lower) != nil {
		hint = fmt.Sprintf(" Names are compared by case: did you mean %q?", lower)
	} else if vendor, _, vendored := strings.Cut(model, "/"); vendored {
		hint = fmt.Sprintf(" To serve the models of %s, add to the configuration: routes: [{prefix: %q, provider: NAME}], with a provider of providers.",
			vendor, vendor+"/")
		if presetOf(vendor, "") != nil {
			hint += fmt.Sprintf(" This host is known by its name, too: providers: {%s: {}}, with what it needs.", vendor)
		}
	}
	err := codec.Errorf(codec.KindNotFound, "No provider is known for model %q.%s Known prefixes: %s. Routes for other names are set under routes in the configuration.",
		model, hint, r.prefixes())
	err.Code = "model_not_found"
	err.Param = "model"
	return err
}

// prefixes lists the routed prefixes, for messages to people.
func (r *Router) prefixes() string {
	all := make([]string, len(r.routes))
	for i := range r.routes {
		all[i] = r.routes[i].prefix
	}
	slices.Sort(all)
	return strings.Join(slices.Compact(all), ", ")
}
