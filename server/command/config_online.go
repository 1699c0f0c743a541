package command

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/server/config"
)

// listTimeout is how long a provider may take to list its models.
const listTimeout = 15 * time.Second

// named is a model name in the configuration.
type named struct{ setting, model string }

// group returns the first word of the setting.
func (n named) group() string {
	group, _, _ := strings.Cut(n.setting, ".")
	return group
}

func (n named) mistake(format string, args ...any) config.Mistake {
	return config.Mistake{Setting: n.setting, Text: n.group() + ": " + fmt.Sprintf(format, args...)}
}

// namedModels returns the full model names in the configuration, in the order of the file. Prefixes, as of routes, are
// not names.
func namedModels(cfg *config.Config) (all []named) {
	for i, a := range cfg.Aliases {
		if a.To[len(a.To)-1] != '*' {
			all = append(all, named{fmt.Sprintf("aliases.%d.to", i), a.To})
		}
	}
	for i, f := range cfg.Fallbacks {
		for j, to := range f.To {
			all = append(all, named{fmt.Sprintf("fallbacks.%d.to.%d", i, j), to})
		}
	}
	for i, r := range cfg.Routes {
		if r.To != "" {
			all = append(all, named{fmt.Sprintf("routes.%d.to", i), r.Prefix})
		}
	}
	if settings, byProvider := cfg.Embedding(); byProvider {
		all = append(all, named{"search.embedder.model", settings.Model})
	}
	if settings, ok := cfg.Summarizing(); ok {
		all = append(all, named{"search.summaries.model", settings.Model})
	}
	return all
}

// askProviders asks every provider that has a credential for its models. It finds providers that are unreachable or
// refuse the credential, and names of models that they do not list. If a name leads to a provider without a credential,
// which accounts and callers may have, it says so and goes on.
func askProviders(ctx context.Context, s *Env, cfg *config.Config) (mistakes []config.Mistake) {
	routes, err := router.New(cfg.Router())
	if err != nil {
		return []config.Mistake{{Setting: "providers", Text: err.Error()}}
	}
	defer routes.Close()
	lists := listAll(ctx, routes)
	for _, p := range routes.Providers() {
		if list := lists[p]; list.err != nil {
			mistakes = append(mistakes, config.Mistake{Setting: "providers." + p.Name(), Text: fmt.Sprintf("providers.%s: %s", p.Name(), messageOf(list.err))})
		}
	}
	for _, n := range namedModels(cfg) {
		placement, fault := routes.Place(n.model)
		if fault != nil {
			mistakes = append(mistakes, n.mistake("%s", messageOf(fault)))
			continue
		}
		p := placement.Provider
		switch list, asked := lists[p]; {
		case !asked:
			fmt.Fprintf(s.Err, "mneme: %s: %q leads to provider %s, which has no key of the server's; only callers and accounts with a credential of their own reach it\n",
				n.group(), n.model, p.Name())
		case len(list.models) > 0 && !slices.ContainsFunc(list.models, func(m router.ListedModel) bool { return m.ID == placement.Model }):
			mistakes = append(mistakes, n.mistake("provider %s lists no model %q", p.Name(), placement.Model))
		}
	}
	return mistakes
}

// listing is a provider's answer.
type listing struct {
	models []router.ListedModel // none for a host without a list
	err    error
}

// listAll asks all providers for which the server has a credential, at once.
func listAll(ctx context.Context, routes *router.Router) map[*router.Provider]listing {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	var (
		mu   sync.Mutex
		wait sync.WaitGroup
		all  = map[*router.Provider]listing{}
	)
	for _, p := range routes.Providers() {
		if !p.HasKey() {
			continue
		}
		wait.Go(func() {
			models, err := p.List(ctx, router.Credential{})
			if errors.Is(err, router.ErrNoList) {
				err = nil
				if f, _ := examineProvider(ctx, p); f.State == problem {
					err = errors.New(f.Found)
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all[p] = listing{models, err}
		})
	}
	wait.Wait()
	return all
}
