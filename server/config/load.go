package config

import (
	"errors"
	"io/fs"
	"os"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/router"
)

// Sources are the layers above the defaults.
type Sources struct {
	File   string // "": the file in MNEME_CONFIG, else the user's own (see [Home]), if it exists
	Listen string // the flag of that name; "" if not given
	Data   string // the flag of that name; "" if not given

	// LookupEnv reads the environment; nil means os.LookupEnv.
	LookupEnv func(name string) (string, bool)
}

// The variables that override the file.
const (
	EnvConfig     = "MNEME_CONFIG"
	EnvListen     = "MNEME_LISTEN"
	EnvData       = "MNEME_DATA"
	EnvServiceKey = "MNEME_API_KEY"
	EnvMasterKey  = "MNEME_MASTER_KEY"

	EnvPreviousMasterKey = "MNEME_PREVIOUS_MASTER_KEY"
	EnvClusterKey        = "MNEME_CLUSTER_KEY"
)

// providerKeys are the usual variables of the built-in providers. The file overrides them, because a key written there
// is deliberate.
var providerKeys = []struct{ provider, variable string }{
	{"anthropic", "ANTHROPIC_API_KEY"},
	{"openai", "OPENAI_API_KEY"},
	{"gemini", "GEMINI_API_KEY"},
	{"deepseek", "DEEPSEEK_API_KEY"},
}

// ProviderKeyVariable returns the variable of a built-in provider's key, or "".
func ProviderKeyVariable(provider string) string {
	for _, key := range providerKeys {
		if key.provider == provider {
			return key.variable
		}
	}
	return ""
}

// Load reads all layers and checks the result. The error is [Problems].
func Load(sources Sources) (Config, error) {
	l := readAll(sources)
	if len(l.problems) > 0 {
		return Config{}, l.problems
	}
	return *l.cfg, nil
}

// readAll reads and checks everything; the loader has the problems.
func readAll(sources Sources) *loader {
	lookup := sources.LookupEnv
	if lookup == nil {
		lookup = os.LookupEnv
	}
	cfg := Default()
	l := &loader{env: lookup, cfg: &cfg, origins: map[string]origin{}}

	for _, key := range providerKeys {
		l.providerKey(key.provider, key.variable)
	}
	l.file(sources.file(lookup))
	l.set("listen", &cfg.Listen, l.variable(EnvListen), EnvListen)
	l.set("data", &cfg.Data, l.variable(EnvData), EnvData)
	l.set("listen", &cfg.Listen, sources.Listen, "--listen")
	l.set("data", &cfg.Data, sources.Data, "--data")

	l.preferLists(&cfg)
	l.findKeys(&cfg)
	if _, said := l.origins["data"]; !said {
		cfg.Data = StandardData(lookup)
	}
	cfg.ServiceKey = Secret(l.variable(EnvServiceKey))
	cfg.MasterKey = Secret(l.variable(EnvMasterKey))
	cfg.PreviousMasterKey = Secret(l.variable(EnvPreviousMasterKey))
	cfg.ClusterKey = Secret(l.variable(EnvClusterKey))
	l.taken = slices.Clone(l.problems)
	l.check(&cfg)
	return l
}

// preferLists has several keys in the file override the usual variable, as a single one does.
func (l *loader) preferLists(cfg *Config) {
	for name, p := range cfg.Providers {
		if len(p.APIKeys) > 0 && l.at("providers."+name+".api_key").source == ProviderKeyVariable(name) {
			p.APIKey = ""
			cfg.Providers[name] = p
		}
	}
}

// findKeys takes the key of a known host from the variable of its own tools, if the file has none.
func (l *loader) findKeys(cfg *Config) {
	for name, p := range cfg.Providers {
		variable := router.KeyVariable(name, p.Preset)
		keyed := p.APIKey != "" || len(p.APIKeys) > 0 || slices.ContainsFunc(p.Endpoints, func(e Endpoint) bool { return e.APIKey != "" })
		if variable == "" || keyed {
			continue
		}
		if value := l.variable(variable); value != "" {
			p.APIKey = Secret(value)
			cfg.Providers[name] = p
		}
	}
}

// FileName returns the file that [Load] will read, or "" for none.
func FileName(sources Sources) string {
	if sources.LookupEnv == nil {
		sources.LookupEnv = os.LookupEnv
	}
	name, _ := sources.file(sources.LookupEnv)
	return name
}

// file also returns what named the file, for the error if it is missing.
func (s Sources) file(lookup func(string) (string, bool)) (name, namedBy string) {
	if s.File != "" {
		return s.File, "--config"
	}
	if name, _ = lookup(EnvConfig); name != "" {
		return name, EnvConfig
	}
	return userFile(lookup), "the user's configuration"
}

// loader collects the layers, from the weakest to the strongest.
type loader struct {
	env      func(string) (string, bool)
	cfg      *Config
	origins  map[string]origin // by path in the file, such as "routes.0.prefix"
	problems Problems
	taken    Problems // problems of the layers themselves
	failed   []string // the paths of settings with a problem
}

// variable returns the trimmed value of an environment variable: secrets read from files often end with a newline. An
// empty variable counts as unset.
func (l *loader) variable(name string) string {
	value, _ := l.env(name)
	return strings.TrimSpace(value)
}

// set sets one value of a layer; "" means not given.
func (l *loader) set(path string, into any, value, source string) {
	if value == "" {
		return
	}
	l.origins[path] = origin{source: source}
	if err := assign(value, reflect.ValueOf(into).Elem(), nil); err != nil {
		l.problems = append(l.problems, origin{source: source}.problem("%v", err))
	}
}

// providerKey takes the key of a provider from a variable, if that is set.
func (l *loader) providerKey(provider, variable string) {
	value := l.variable(variable)
	if value == "" {
		return
	}
	if l.cfg.Providers == nil {
		l.cfg.Providers = map[string]Provider{}
	}
	p := l.cfg.Providers[provider]
	p.APIKey = Secret(value)
	l.cfg.Providers[provider] = p
	l.origins["providers."+provider+".api_key"] = origin{source: variable}
}

func (l *loader) file(name, namedBy string) {
	if name == "" {
		return
	}
	text, err := os.ReadFile(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		l.problems = append(l.problems, Problem{Source: name, Message: "no such file; correct " + namedBy + ", or copy mneme.example.yaml there"})
		return
	case err != nil:
		l.problems = append(l.problems, Problem{Source: name, Message: "cannot be read; " + namedBy + " must name a file that this user may read"})
		return
	case !utf8.Valid(text):
		l.problems = append(l.problems, Problem{Source: name, Message: "is not UTF-8 text"})
		return
	}
	doc := readDocument(name, text, l.env, l.cfg)
	l.problems = append(l.problems, doc.problems...)
	for path, at := range doc.origins {
		l.origins[path] = at
	}
}

// at returns where the value under path was set.
func (l *loader) at(path string) origin {
	if at, ok := l.origins[path]; ok {
		return at
	}
	return origin{source: path}
}

// fail adds a problem. If a layer has problems of its own, one on the same line, or on none, may follow from those.
func (l *loader) fail(path, format string, args ...any) {
	l.failed = append(l.failed, path)
	if _, known := l.origins[path]; !known && len(l.taken) > 0 {
		return
	}
	found := l.at(path).problem(format, args...)
	if slices.ContainsFunc(l.taken, func(p Problem) bool { return p.Source == found.Source && p.Line == found.Line }) {
		return
	}
	l.problems = append(l.problems, found)
	slices.SortStableFunc(l.problems, func(a, b Problem) int { return a.Line - b.Line })
}
