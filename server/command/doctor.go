package command

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/mnemeproxy/mneme/codec"
	"github.com/mnemeproxy/mneme/router"
	"github.com/mnemeproxy/mneme/router/neterr"
	"github.com/mnemeproxy/mneme/server/admin"
	"github.com/mnemeproxy/mneme/server/background/embedding"
	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/history"
	"github.com/mnemeproxy/mneme/server/listen"
	"github.com/mnemeproxy/mneme/server/ui"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/search"
	"github.com/mnemeproxy/mneme/store/search/lexical"
	"github.com/mnemeproxy/mneme/store/volume"
)

// Doctor is "mneme doctor".
type Doctor struct {
	StoreFlags `embed:""`
	JSON       bool `help:"Write the findings as a JSON array."`
	Cluster    bool `help:"Also check every node of the cluster: clock, version, master key, and what waits for the centre."`

	patience time.Duration // with the server that runs; 0: answerTime
}

// finding is the result of one check.
type finding struct {
	Check string `json:"check"`
	State string `json:"state"` // good, warning or problem
	Found string `json:"found"`
	Fix   string `json:"fix,omitempty"`
}

const (
	good    = "good"
	warning = "warning"
	problem = "problem"
)

// Run checks everything and changes nothing. Problems make the exit code 1; warnings do not.
func (c *Doctor) Run(ctx context.Context, s *Env) error {
	findings := c.examine(ctx)
	problems := 0
	rows := make([][]string, len(findings))
	for i, f := range findings {
		if f.State == problem {
			problems++
		}
		rows[i] = []string{f.State, f.Check, f.Found}
		if f.Fix != "" {
			rows[i][2] += ". " + f.Fix
		}
	}
	var err error
	if c.JSON {
		err = writeJSON(s.Out, findings)
	} else {
		err = table(s.Out, []string{"STATE", "CHECK", "FOUND"}, rows)
	}
	if err == nil && problems > 0 {
		err = fmt.Errorf("%d of %d checks found a problem", problems, len(findings))
	}
	return err
}

func (c *Doctor) examine(ctx context.Context) []finding {
	cfg, err := c.load()
	var wrong config.Problems
	if errors.As(err, &wrong) {
		findings := make([]finding, len(wrong))
		for i, p := range wrong {
			findings[i] = finding{"configuration", problem, p.String(), ""}
		}
		return findings // nothing else can be checked
	}
	if err != nil {
		return []finding{{"configuration", problem, err.Error(), ""}}
	}
	name := config.FileName(config.Sources{File: c.Config})
	if name == "" {
		name = "the environment and the defaults"
	}
	running := admin.Running(ctx, cfg.Data)
	said := c.ask(ctx, running)
	findings := []finding{{"configuration", good, name + ": no mistakes", ""}, examineServer(&cfg, running, said.silent)}
	findings = append(findings, examineCertificate(&cfg)...)
	findings = append(findings, examineData(&cfg, running)...)
	findings = append(findings, examineStore(ctx, &cfg)...)
	findings = append(findings, examineHistories(ctx, &cfg, time.Now())...)
	findings = append(findings, said.findings...)
	if c.Cluster {
		findings = append(findings, examineNodes(ctx, &cfg)...)
		if !said.edge { // an edge has neither the password nor the credentials
			findings = append(findings, examineMemory(ctx, &cfg)...)
		}
	}
	routes, err := router.New(cfg.Router())
	if err != nil {
		return append(findings, finding{"providers", problem, err.Error(), ""})
	}
	defer routes.Close()
	findings = append(findings, examineModels(&cfg, routes))
	findings = append(findings, examineProviders(ctx, routes, &said.known)...)
	findings = append(findings, examineEmbedder(ctx, &cfg, routes))
	if c.Cluster && !said.edge {
		findings = append(findings, examineVectors(ctx, &cfg, routes)...)
	}
	return append(findings, examineLocalHosts(ctx, routes)...)
}

// answerTime is how long a running server may take to answer what takes milliseconds, and to sum up what lost prompt caches cost.
const answerTime = 10 * time.Second

var errSilent = errors.New("the server does not answer")

// asked is what the running server reports, or the data if none runs.
type asked struct {
	findings []finding
	known    provided
	edge     bool // it is an edge of a cluster
	silent   bool // the server does not answer
}

func (c *Doctor) ask(ctx context.Context, running bool) asked {
	a := c.askBriefly(ctx, running)
	if running && !a.edge && !a.silent { // an edge has no sessions
		a.findings = append(a.findings, c.examineCaches(ctx)...)
	}
	return a
}

// askBriefly asks what a server answers in milliseconds, and so learns whether it answers.
func (c *Doctor) askBriefly(ctx context.Context, running bool) (a asked) {
	if running {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, c.answerTime(), errSilent)
		defer cancel()
	}
	keys, known := c.examineAccounts(ctx)
	index := c.examineIndex(ctx)
	part, edge := c.examineCluster(ctx)
	a = asked{known: known, edge: edge, silent: errors.Is(context.Cause(ctx), errSilent)}
	if !a.silent {
		a.findings = append(a.findings, keys)
	}
	a.findings = slices.Concat(a.findings, index, part)
	return a
}

func (c *Doctor) answerTime() time.Duration { return cmp.Or(c.patience, answerTime) }

// examineHere runs the checks that a running server can make on its own machine at any time.
func examineHere(cfg *config.Config) []ui.Finding {
	found := append(examineData(cfg, false), examineCertificate(cfg)...)
	shown := make([]ui.Finding, len(found))
	for i, f := range found {
		shown[i] = ui.Finding(f)
	}
	return shown
}

// localHosts are servers of models on this machine, at the default addresses of their tools.
var localHosts = []struct{ preset, name, variable, address, path string }{
	{"ollama", "Ollama", "OLLAMA_HOST", "127.0.0.1:11434", "/api/version"},
	{"lmstudio", "LM Studio", "LMSTUDIO_HOST", "127.0.0.1:1234", "/v1/models"},
}

// localTimeout is how long a host on this machine may take to answer.
const localTimeout = 500 * time.Millisecond

// examineLocalHosts finds model servers on this machine that no provider uses.
func examineLocalHosts(ctx context.Context, routes *router.Router) (findings []finding) {
	for _, h := range localHosts {
		address := cmp.Or(os.Getenv(h.variable), h.address)
		if _, rest, found := strings.Cut(address, "://"); found {
			address = strings.TrimRight(rest, "/")
		}
		leads := slices.ContainsFunc(routes.Providers(), func(p *router.Provider) bool { return p.Address() == address })
		if leads || !answers(ctx, "http://"+address+h.path) {
			continue
		}
		line := fmt.Sprintf("providers: {%s: {}}", h.preset)
		if address != h.address {
			line = fmt.Sprintf("providers: {%s: {base_url: \"http://%s/v1\"}}", h.preset, address)
		}
		findings = append(findings, finding{
			"local host", good, fmt.Sprintf("%s answers at %s, and no provider uses it", h.name, address),
			fmt.Sprintf("To use it, add to the configuration: %s; its models are then %s/NAME", line, h.preset),
		})
	}
	return findings
}

// answers reports whether a request to url succeeds at once.
func answers(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, localTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return false
	}
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request) // no proxy: this is our own machine
	if err != nil {
		return false
	}
	_ = response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// examineModels reports how old the facts about models are: for newer models mneme uses general assumptions.
func examineModels(cfg *config.Config, routes *router.Router) finding {
	found := "built-in facts of " + routes.ModelsAsOf()
	if cfg.ModelsFile != "" {
		found += ", overridden by " + cfg.ModelsFile
	}
	return finding{"models", good, found, ""}
}

// examineEmbedder embeds one word, with the server's credential.
func examineEmbedder(ctx context.Context, cfg *config.Config, routes *router.Router) finding {
	settings, byProvider := cfg.Embedding()
	switch {
	case cfg.Search.Embedder.Model == config.NoEmbedder:
		return finding{"embedder", good, "none; searches use words alone", ""}
	case !byProvider:
		return finding{"embedder", good, config.LocalHash + ", which is built in", ""}
	}
	const fix = "Correct search.embedder, or its provider; searches use words meanwhile"
	embedder, err := embedding.New(settings, routes, noCredentials)
	if err != nil {
		return finding{"embedder", problem, messageOf(err), fix}
	}
	ctx, cancel := context.WithTimeout(ctx, embedTime)
	defer cancel()
	if _, err = embedder.Embed(ctx, "", search.ForQuery, []string{"memory"}); err != nil {
		return finding{"embedder", problem, embedder.Identity() + " gives no vectors: " + messageOf(err), fix}
	}
	return finding{"embedder", good, embedder.Identity() + " gives vectors", ""}
}

// noCredentials are those of no account: the server's are used.
func noCredentials(string, string) (string, bool, error) { return "", false, nil }

// embedTime is how long an embedder may take for one word: it may have to load its model first.
const embedTime = time.Minute

// messageOf returns the part of an error that is for people.
func messageOf(err error) string {
	var e *codec.Error
	if errors.As(err, &e) {
		return strings.TrimSuffix(e.Message, ".")
	}
	return err.Error()
}

func examineServer(cfg *config.Config, running, silent bool) finding {
	if silent {
		return finding{
			"server", problem, "the server on the data in " + cfg.Data + " accepts connections but does not answer",
			"It is suspended or overloaded: see its log, or restart it",
		}
	}
	if !running {
		return finding{"server", warning, "no server runs on the data in " + cfg.Data, "Start one with: mneme serve"}
	}
	return finding{"server", good, "a server runs on the data in " + cfg.Data, ""}
}

// renewBefore is how long before its end a certificate should have been renewed: automatic renewals happen with a third
// of its life left, a month of the usual three.
const renewBefore = 14 * 24 * time.Hour

// examineCertificate checks the server's own certificate, if any.
func examineCertificate(cfg *config.Config) []finding {
	file := cfg.TLS.Certificate
	if file == "" {
		return nil
	}
	const check = "certificate"
	leaf, err := listen.Leaf(cfg.TLS.Files())
	if err != nil { // config.Load would have reported it
		return []finding{{check, problem, err.Error(), "Correct tls"}}
	}
	until, left := leaf.NotAfter.Format(time.DateTime), time.Until(leaf.NotAfter)
	switch {
	case left <= 0:
		return []finding{{check, problem, fmt.Sprintf("%s expired %s", file, until), "Renew it; a running server picks up the new one by itself"}}
	case left < renewBefore:
		days := int((left + 12*time.Hour) / (24 * time.Hour))
		return []finding{{check, warning, fmt.Sprintf("%s expires in %d days", file, days), "Renew it; a running server picks up the new one by itself"}}
	case !slices.ContainsFunc(cfg.Listen, func(text string) bool { return strings.HasPrefix(text, "tls:") }):
		return []finding{{check, warning, file + " is used by no address", "Put tls: before the address in listen that should use it"}}
	}
	return []finding{{check, good, fmt.Sprintf("%s is valid until %s", file, until), ""}}
}

// scarceDisk is little more than the reserve, of at most 1 GiB, below which the store accepts nothing.
const scarceDisk = 3 << 30

// examineData checks the data directory, its permissions, its key and its free space. Another process that serves it
// has a master key, which may come from its own environment.
func examineData(cfg *config.Config, served bool) []finding {
	info, err := os.Stat(cfg.Data)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return []finding{{"data", warning, "there is no data in " + cfg.Data + " yet", "The first start creates it: mneme serve"}}
	case err != nil || !info.IsDir():
		return []finding{{"data", problem, cfg.Data + " is not a readable directory", "Name another one with --data, or give this user access to it"}}
	}
	findings := []finding{private("data", cfg.Data, info)}
	key := filepath.Join(cfg.Data, "master.key")
	info, err = os.Stat(key)
	switch {
	case cfg.MasterKey != "":
		findings = append(findings, finding{"master key", good, "comes from " + config.EnvMasterKey, ""})
	case errors.Is(err, fs.ErrNotExist) && served:
		findings = append(findings, finding{
			"master key", warning, "there is no " + key + "; the running server has the key",
			"This is fine if " + config.EnvMasterKey + " is set where the server is started; otherwise restore the file from a backup",
		})
	case err != nil:
		findings = append(findings, finding{
			"master key", problem, key + " cannot be read",
			"Restore it from a backup, or set the original key in " + config.EnvMasterKey,
		})
	default:
		findings = append(findings, private("master key", key, info))
	}
	space, err := volume.SpaceOf(cfg.Data)
	if err != nil {
		return append(findings, finding{"disk", warning, "the free space could not be determined", ""})
	}
	disk := finding{"disk", good, amount(space.Free) + " free", ""}
	if space.Free < scarceDisk {
		disk.State, disk.Fix = warning, "Free some space: new exchanges are refused before the volume is full"
	}
	return append(findings, disk)
}

// examineStore reads the files of the store unless a server has it open.
func examineStore(ctx context.Context, cfg *config.Config) []finding {
	const check = "store"
	if _, err := os.Stat(cfg.Data); err != nil {
		return nil // reported by the check of the data
	}
	damage, err := store.Examine(cfg.Data)
	if err != nil {
		return []finding{{check, problem, "its files cannot be read: " + err.Error(), ""}}
	}
	findings := make([]finding, 0, len(damage))
	for _, d := range damage {
		fix := "Salvage what is readable with mneme recover, or restore a backup with mneme restore"
		if d.Kept != "" {
			fix = "The damaged file is kept as " + filepath.Join(cfg.Data, d.Kept) + "; delete the note next to it when it is no longer needed"
		}
		findings = append(findings, finding{check, problem, d.String(), fix})
	}
	err = search.Examine(ctx, indexDir(cfg), func(d lexical.Damage) {
		findings = append(findings, finding{check, warning, d.Error(), "Nothing is lost: the search index is rebuilt at the next start"})
	})
	if err != nil {
		findings = append(findings, finding{check, warning, "the files of the search index cannot be read: " + err.Error(), ""})
	}
	if len(findings) == 0 {
		findings = append(findings, finding{check, good, "its files are intact", ""})
	}
	return findings
}

// examineHistories reports which histories of agents are imported as they are written, and what Claude Code deletes soon of one
// that is not.
func examineHistories(ctx context.Context, cfg *config.Config, now time.Time) []finding {
	const check = "histories"
	home, err := os.UserHomeDir()
	if err != nil {
		return nil // and no histories
	}
	search := &history.Search{Home: home, Lookup: os.LookupEnv}
	var watched []string
	for _, agent := range cfg.Import.Watch {
		kept := foundHistory{agent, history.Count(ctx, agent, search)}
		watched = append(watched, kept.String())
	}
	var findings []finding
	if len(watched) > 0 {
		findings = append(findings, finding{check, good, "imported as they are written: " + strings.Join(watched, ", "), ""})
	}
	if slices.Contains(cfg.Import.Watch, "claude-code") || history.Count(ctx, "claude-code", search) == 0 {
		return findings
	}
	cleanup := history.CleanupOf(ctx, search, now)
	f := finding{check, good, cleanup.String(), "To keep them, import them: mneme import --from claude-code, or import.watch in the configuration"}
	if cleanup.Next > 0 {
		f.State = warning
		f.Found += fmt.Sprintf(", %d of them within a week", cleanup.Next)
	}
	return append(findings, f)
}

// provided is what else is known of providers besides the configuration, by name.
type provided struct {
	byAccounts map[string]bool // an account has a credential of its own
	simulated  map[string]bool // the running server simulates the provider
}

// examineAccounts also returns what the installation knows about providers.
func (c *Doctor) examineAccounts(ctx context.Context) (keys finding, known provided) {
	known = provided{byAccounts: map[string]bool{}, simulated: map[string]bool{}}
	valid, accounts := 0, 0
	err := c.manage(ctx, mustExist, func(client *admin.Client) error {
		list, err := client.Accounts().List(ctx)
		if err != nil {
			return err
		}
		accounts = len(list)
		for _, account := range list {
			for _, provider := range account.Credentials {
				known.byAccounts[provider] = true
			}
		}
		providers, err := client.Providers(ctx)
		if err != nil {
			return err
		}
		for _, p := range providers {
			known.simulated[p.Name] = p.Simulated
		}
		all, err := client.Keys().List(ctx, "")
		for i := range all {
			if all[i].Revoked.IsZero() {
				valid++
			}
		}
		return err
	})
	switch {
	case err != nil:
		return finding{"keys", warning, strings.TrimSuffix(strings.TrimPrefix(explain(err), "mneme: "), "\n"), ""}, known
	case valid == 0:
		return finding{"keys", problem, "there is no valid service key", "Create one with: mneme key create --account default"}, known
	}
	return finding{"keys", good, counted(valid, "valid service key") + " in " + counted(accounts, "account"), ""}, known
}

// examineIndex checks the search index, which all accounts share. It reports nothing if the data cannot be read, as the
// check of the keys says, or if there is no account.
func (c *Doctor) examineIndex(ctx context.Context) (findings []finding) {
	_ = c.manage(ctx, mustExist, func(client *admin.Client) error {
		accounts, err := client.Accounts().List(ctx)
		if err != nil || len(accounts) == 0 {
			return err
		}
		stats, err := client.Memory().Stats(ctx, accounts[0].Name)
		if err == nil && stats.Index != nil {
			findings = append(findings, indexFinding(stats.Index))
		}
		return err
	})
	return findings
}

func indexFinding(s *search.Status) finding {
	const check = "search index"
	switch {
	case s.Error != "":
		return finding{check, problem, strings.TrimSuffix(s.Error, "."), "Free some space on the volume, or give this user access to the index directory; no restart is needed"}
	case s.Building:
		return finding{check, warning, fmt.Sprintf("it is being rebuilt, %d changes left", s.Lag), "Wait; until then searches find what is indexed so far"}
	}
	return finding{check, good, "it can be searched", ""}
}

// reachTimeout is how long a provider may take to accept a connection.
const reachTimeout = 5 * time.Second

// examineProviders checks all providers at once, and compares this clock with theirs.
func examineProviders(ctx context.Context, routes *router.Router, known *provided) []finding {
	providers := routes.Providers()
	findings := make([]finding, len(providers), len(providers)+1)
	skews := make([]*time.Duration, len(providers))
	var group errgroup.Group
	for i, p := range providers {
		if !p.HasKey() && !known.byAccounts[p.Name()] { // hosts that need no credential count as having one
			who := provision{provider: p.Name(), simulated: known.simulated[p.Name()]}
			findings[i] = finding{"provider " + p.Name(), who.state(), who.String(), ""}
			continue
		}
		group.Go(func() error {
			findings[i], skews[i] = examineProvider(ctx, p)
			return nil
		})
	}
	_ = group.Wait()
	return append(findings, examineClock(skews))
}

// examineProvider requests only a header, without a credential. skew is how far this clock is ahead of the provider's;
// nil if the provider did not send the time.
func examineProvider(ctx context.Context, p *router.Provider) (f finding, skew *time.Duration) {
	check := "provider " + p.Name()
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	scheme := "https://"
	if _, port, _ := net.SplitHostPort(p.Address()); port != "443" {
		scheme = "http://" // a TLS server answers too, with an error
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodHead, scheme+p.Address()+"/", http.NoBody)
	if err != nil {
		return finding{check, problem, "the address " + p.Address() + " is none", "Correct providers." + p.Name() + ".base_url"}, nil
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	defer client.CloseIdleConnections()
	response, err := client.Do(request)
	if err != nil {
		return finding{
			check, problem, fmt.Sprintf("%s does not answer%s", p.Address(), whyUnreachable(err)),
			"Check providers." + p.Name() + ".base_url, this machine's network and DNS, HTTPS_PROXY and NO_PROXY",
		}, nil
	}
	_ = response.Body.Close()
	if date, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		ahead := time.Since(date)
		skew = &ahead
	}
	return finding{check, good, p.Address() + " answers", ""}, skew
}

func whyUnreachable(err error) string {
	var dns *net.DNSError
	switch {
	case errors.As(err, &dns):
		return ": its name cannot be resolved"
	case errors.Is(err, neterr.Refused):
		return ": connection refused"
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Sprintf(" within %v", reachTimeout)
	}
	return ""
}

// mostSkew is how far clocks may differ: ids and the order of exchanges depend on ours, certificates on both.
const mostSkew = time.Minute

// examineClock trusts the provider that agrees best with this machine.
func examineClock(skews []*time.Duration) finding {
	var best *time.Duration
	for _, skew := range skews {
		if skew != nil && (best == nil || skew.Abs() < best.Abs()) {
			best = skew
		}
	}
	switch {
	case best == nil:
		return finding{"clock", good, "not compared: no provider sent the time", ""}
	case best.Abs() > mostSkew:
		return finding{"clock", problem, fmt.Sprintf("%v off every provider's", best.Abs().Round(time.Second)), "Synchronize this machine's clock by NTP"}
	}
	return finding{"clock", good, "agrees with the providers'", ""}
}
