package config

import (
	"encoding/hex"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/server/history"
	"github.com/mnemeproxy/mneme/server/listen"
	"github.com/mnemeproxy/mneme/server/resource"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/redact"
)

// check finds what a single value cannot show: addresses, URLs, and references to other entries.
func (l *loader) check(cfg *Config) {
	l.checkListen(cfg)
	for i, name := range cfg.PublicNames {
		if name == "" || strings.ContainsAny(name, "/: *@") && net.ParseIP(name) == nil {
			l.fail(fmt.Sprintf("public_names.%d", i), "public_names: %q is no name of a host; leave out the scheme, the port and the path", name)
		}
	}
	for i, origin := range cfg.Origins {
		u, err := url.Parse(origin)
		if origin != "*" && (err != nil || u.Scheme == "" || u.Host == "" || u.String() != u.Scheme+"://"+u.Host) {
			l.fail(fmt.Sprintf("origins.%d", i), "origins: %q is no origin of a page; write it like https://app.example.com, or *", origin)
		}
	}
	for i, word := range cfg.PassThrough.Allow {
		if known := resource.Permissions(); !slices.Contains(known, word) {
			l.fail(fmt.Sprintf("pass_through.allow.%d", i), "pass_through.allow: %q is nothing that can be allowed (known: %s)", word, strings.Join(known, ", "))
		}
	}
	l.checkAdmin(cfg)
	if cfg.Data == "" {
		l.fail("data", "data: name a directory, or remove the field for %q", StandardData(l.env))
	}
	for _, name := range slices.Sorted(maps.Keys(cfg.Providers)) {
		l.checkProvider("providers."+name, name, cfg.Providers[name])
	}
	l.checkRoutes(cfg)
	l.checkAliases(cfg.Aliases)
	l.checkRedact(cfg.Capture.Redact)
	l.checkWebhooks(cfg.Webhooks)
	for i, agent := range cfg.Import.Watch {
		if known := history.Watchable(); !slices.Contains(known, agent) {
			l.fail(fmt.Sprintf("import.watch.%d", i), "import.watch: no history of %q can be watched (known: %s)", agent, strings.Join(known, ", "))
		} else if slices.Contains(cfg.Import.Watch[:i], agent) {
			l.fail(fmt.Sprintf("import.watch.%d", i), "import.watch: %s is there twice; keep one", agent)
		}
	}
	if _, err := cfg.UI.OIDC.Options(); err != nil {
		l.fail("ui.oidc", "ui.oidc: %v", err)
	}
	if key := cfg.ServiceKey.Reveal(); key != "" && utf8.RuneCountInString(key) < MinServiceKey {
		l.problems = append(l.problems, origin{source: EnvServiceKey}.problem(
			"has %d characters and needs %d or more; `openssl rand -hex 32` makes a good one", utf8.RuneCountInString(key), MinServiceKey))
	}
	l.checkMasterKey(EnvMasterKey, cfg.MasterKey)
	l.checkMasterKey(EnvPreviousMasterKey, cfg.PreviousMasterKey)
	l.checkMasterKey(EnvClusterKey, cfg.ClusterKey)
	if n := cfg.Limits.PerKey.Repeats; n > 0 && n < store.FewestRepeats {
		l.fail("limits.per_key.repeats", "limits.per_key.repeats: write %d or more; agents make the same call two or three times for good reasons", store.FewestRepeats)
	}
	l.checkCluster(cfg.Cluster)
	l.checkCentre(cfg.Centre)
	if cfg.PreviousMasterKey != "" && cfg.MasterKey == "" {
		l.problems = append(l.problems, origin{source: EnvPreviousMasterKey}.problem("is the key before %s, which is not set", EnvMasterKey))
	}
	l.checkRouter(cfg)
}

func (l *loader) checkMasterKey(variable string, text Secret) {
	if key, err := hex.DecodeString(text.Reveal()); err != nil || len(key) != 0 && len(key) != 32 {
		l.problems = append(l.problems, origin{source: variable}.problem("is not 64 hexadecimal digits; `openssl rand -hex 32` makes them"))
	}
}

func (l *loader) checkCentre(c Centre) {
	u, err := url.Parse(c.Bodies)
	switch {
	case c.Bodies == InPostgres:
	case err != nil || u.Scheme != "s3" || u.Host == "" || u.Host != u.Hostname() || u.User != nil || u.RawQuery != "":
		l.fail("centre.bodies", "centre.bodies: write postgres, s3://BUCKET or s3://BUCKET/PREFIX; address and credentials of the service come from the environment")
	case c.Postgres == "":
		l.fail("centre.bodies", "centre.bodies: a bucket goes with a database; set centre.postgres")
	}
}

// leastWaiting has room for several packets of each edge.
const leastWaiting = 64 << 20

func (l *loader) checkCluster(c Cluster) {
	for i, text := range c.NATS {
		u, err := url.Parse(text)
		if err != nil || u.Host == "" || !slices.Contains([]string{"nats", "tls", "ws", "wss"}, u.Scheme) {
			l.fail(fmt.Sprintf("cluster.nats.%d", i), "cluster.nats: this is no URL of a broker; write nats://HOST:PORT, or tls://HOST:PORT")
		}
	}
	if u, err := url.Parse(c.Centre); c.Centre != "" && (err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.RawQuery != "" || u.User != nil) {
		l.fail("cluster.centre", "cluster.centre: this is no URL of a centre; write https://HOST, or http://HOST:PORT")
	}
	if c.Node > MaxNode {
		l.fail("cluster.node", "cluster.node: %d is more than %d", c.Node, MaxNode)
	}
	if c.Replicas < 1 || c.Replicas > 5 {
		l.fail("cluster.replicas", "cluster.replicas: brokers keep 1 to 5, not %d", c.Replicas)
	}
	if c.Waiting < leastWaiting {
		l.fail("cluster.waiting", "cluster.waiting: brokers need at least 64MiB")
	}
}

func (l *loader) checkListen(cfg *Config) {
	if len(cfg.Listen) == 0 {
		l.fail("listen", "listen: name an address, or remove the field for %s", DefaultListen)
	}
	secure := false
	for i, text := range cfg.Listen {
		path := fmt.Sprintf("listen.%d", i)
		if _, listed := l.origins[path]; !listed {
			path = "listen" // one text
		}
		address, err := listen.Parse(text)
		switch {
		case err != nil:
			l.fail(path, "listen: %q %v", text, err)
		case !address.Any() && slices.Contains(cfg.Listen[:i], text):
			l.fail(path, "listen: %s is there twice; keep one", text)
		}
		secure = secure || address.TLS
	}
	l.checkTLS(cfg.TLS, secure)
}

// checkTLS reads the files, so that a start does not fail on them.
func (l *loader) checkTLS(t TLS, needed bool) {
	switch {
	case (t.Certificate == "") != (t.Key == ""):
		l.fail("tls", "tls: needs both certificate and key")
	case t.Certificate == "" && needed:
		l.fail("listen", "listen: an address with tls: needs a certificate; set tls.certificate and tls.key")
	case t.Certificate == "" && t.ClientCA != "":
		l.fail("tls.client_ca", "tls.client_ca: needs tls.certificate and tls.key beside it")
	case t.Certificate != "":
		if _, err := listen.Leaf(t.Files()); err != nil {
			l.fail("tls", "tls: %v", err)
		}
	}
}

func (l *loader) checkAdmin(cfg *Config) {
	if cfg.Admin.Listen == "" {
		return
	}
	address, err := listen.Parse(cfg.Admin.Listen)
	switch {
	case err != nil || address.TLS || address.Network != "tcp":
		l.fail("admin.listen", "admin.listen: %q is not HOST:PORT; write for example 127.0.0.1:7789", cfg.Admin.Listen)
	case slices.ContainsFunc(cfg.Listen, func(text string) bool {
		taken, _ := listen.Parse(text)
		return taken.Name == address.Name && !address.Any()
	}):
		l.fail("admin.listen", "admin.listen: %s is taken by listen; choose another port", cfg.Admin.Listen)
	}
}

func (l *loader) checkProvider(path, name string, p Provider) {
	if p.BaseURL != "" {
		if complaint := checkBaseURL(name, p.BaseURL); complaint != "" {
			l.fail(join(path, "base_url"), "%s.base_url: %s", path, complaint)
		}
	}
	l.checkKey(join(path, "api_key"), p.APIKey)
	for i, key := range p.APIKeys {
		l.checkKey(fmt.Sprintf("%s.api_keys.%d.key", path, i), key.Key)
	}
	for i, e := range p.Endpoints {
		at := fmt.Sprintf("%s.endpoints.%d", path, i)
		if complaint := checkBaseURL(name, e.BaseURL); complaint != "" {
			l.fail(l.nearest(join(at, "base_url")), "%s.base_url: %s", at, complaint)
		}
		l.checkKey(join(at, "api_key"), e.APIKey)
	}
	for i, format := range p.Formats {
		if known := codec.FormatNames(); !slices.Contains(known, format) {
			l.fail(fmt.Sprintf("%s.formats.%d", path, i), "%s.formats: unknown format %q (known: %s)", path, format, strings.Join(known, ", "))
		}
	}
}

func (l *loader) checkKey(path string, key Secret) {
	if strings.ContainsFunc(key.Reveal(), func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		l.fail(path, "%s: holds a space, a line break or a character that no key has; copy the key again", path)
	}
}

// BuiltInProviders are the providers that need no configuration.
func BuiltInProviders() []string {
	names := make([]string, len(providerKeys))
	for i, key := range providerKeys {
		names[i] = key.provider
	}
	return names
}

// checkBaseURL returns the fault of a URL, or "". URLs are quoted only without their user part.
func checkBaseURL(provider, text string) string {
	u, err := url.Parse(text)
	switch {
	case err != nil, u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return "must be a whole URL such as https://llm.example.com/v1"
	case u.User != nil:
		return "must not carry a user or password; use api_key"
	case u.RawQuery != "" || u.Fragment != "":
		return "must end with its path; remove the query and the fragment"
	case provider == "anthropic" && strings.HasSuffix(strings.TrimRight(u.Path, "/"), "/v1"):
		return "must not end in /v1; the path /v1/messages is added to it"
	}
	return ""
}

func (l *loader) checkRoutes(cfg *Config) {
	first := map[string]int{}
	for i, route := range cfg.Routes {
		path := fmt.Sprintf("routes.%d", i)
		if route.Prefix == "" {
			l.fail(path, "routes: entry %d needs a prefix, the start of the model names it is for", i+1)
		}
		if _, configured := cfg.Providers[route.Provider]; !configured && ProviderKeyVariable(route.Provider) == "" {
			l.fail(join(path, "provider"), "routes: entry %d needs the name of a provider, and %q is none; known: %s",
				i+1, route.Provider, strings.Join(knownProviders(cfg), ", "))
		}
		if at, twice := first[route.Prefix]; twice && route.Prefix != "" {
			l.fail(join(path, "prefix"), "routes: the prefix %q is also that of entry %d; keep one", route.Prefix, at+1)
		}
		first[route.Prefix] = i
	}
}

func (l *loader) checkAliases(aliases []Alias) {
	first := map[string]int{}
	for i, alias := range aliases {
		path := fmt.Sprintf("aliases.%d", i)
		switch at, twice := first[alias.Model]; {
		case alias.Model == "" || alias.To == "":
			l.fail(path, "aliases: entry %d needs both model (what clients ask for) and to (what is sent)", i+1)
		case twice:
			l.fail(join(path, "model"), "aliases: %q is also the model of entry %d; keep one", alias.Model, at+1)
		}
		first[alias.Model] = i
	}
}

func (l *loader) checkRedact(r Redact) {
	found := false
	for i, p := range r.Patterns {
		if err := (*redact.Pattern)(&p).Check(); err != nil {
			found = true
			l.fail(fmt.Sprintf("capture.redact.patterns.%d", i), "capture.redact.patterns: entry %d: %v", i+1, err)
		}
	}
	if _, err := redact.New(r.Options()); err != nil && !found { // faults that show only in combination
		l.fail("capture.redact.patterns", "capture.redact.patterns: %v", err)
	}
}

func (l *loader) checkWebhooks(hooks []Webhook) {
	for i, w := range hooks {
		if err := w.Hook().Check(); err != nil {
			l.fail(fmt.Sprintf("webhooks.%d", i), "webhooks: entry %d: %v", i+1, err)
		}
	}
}

func knownProviders(cfg *Config) []string {
	names := BuiltInProviders()
	for _, name := range slices.Sorted(maps.Keys(cfg.Providers)) {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
