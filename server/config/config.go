// Package config reads the operator's settings: one YAML file, the environment, command-line flags.
//
// Flags override the environment, which overrides the file, which overrides [Default]. No mistake is ignored: unknown
// fields, bad values and missing variables are returned together as [Problems], each with its file and line (or
// variable, or flag) and what to do about it.
package config

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/mnemeproxy/mneme/server/listen"
	"github.com/mnemeproxy/mneme/server/ui/openid"
	"github.com/mnemeproxy/mneme/server/webhook"
	"github.com/mnemeproxy/mneme/store"
	"github.com/mnemeproxy/mneme/store/record"
	"github.com/mnemeproxy/mneme/store/redact"
	"github.com/mnemeproxy/mneme/store/search/localhash"
)

// DefaultListen is the default address: this machine only.
const DefaultListen = "127.0.0.1:7788"

// DefaultData is the data directory if there is no user to have one, relative to the directory mneme is started in. See
// [StandardData].
const DefaultData = "data"

// Config is every setting. The json tags are the names used in the file.
type Config struct {
	Listen      Addresses           `json:"listen"`
	TLS         TLS                 `json:"tls"`
	PublicNames []string            `json:"public_names"` // see [listen.Names]
	Origins     []string            `json:"origins"`      // of pages that may call the surfaces
	Data        string              `json:"data"`
	Providers   map[string]Provider `json:"providers"`
	Routes      []Route             `json:"routes"`
	Aliases     []Alias             `json:"aliases"`
	Fallbacks   []Fallback          `json:"fallbacks"`
	Upstream    Upstream            `json:"upstream"`
	PassThrough PassThrough         `json:"pass_through"`
	ModelsFile  string              `json:"models_file"`
	Limits      Limits              `json:"limits"`
	Timeouts    Timeouts            `json:"timeouts"`
	Cache       Cache               `json:"cache"`
	Capture     Capture             `json:"capture"`
	Recall      Recall              `json:"recall"`
	Retention   Retention           `json:"retention"`
	Search      Search              `json:"search"`
	Admin       Admin               `json:"admin"`
	Telemetry   Telemetry           `json:"telemetry"`
	Webhooks    []Webhook           `json:"webhooks"`
	UI          UI                  `json:"ui"`
	Import      Import              `json:"import"`
	Cluster     Cluster             `json:"cluster"`
	Centre      Centre              `json:"centre"`

	// ServiceKey is accepted as a key of account "default" with all scopes. It comes from MNEME_API_KEY only,
	// is at least [MinServiceKey] characters long or empty, and is never stored.
	ServiceKey Secret `json:"-"`

	// MasterKey seals the accounts' own provider credentials. It comes from MNEME_MASTER_KEY only, as 64 hexadecimal
	// digits; empty means the file master.key in the data directory, created on first start.
	MasterKey Secret `json:"-"`

	// PreviousMasterKey is the previous master key, for the start that changes it. It comes from
	// MNEME_PREVIOUS_MASTER_KEY only, in the same form.
	PreviousMasterKey Secret `json:"-"`

	// ClusterKey signs messages between the nodes of a cluster. It comes from MNEME_CLUSTER_KEY only, in the same form;
	// empty: the server is in no cluster.
	ClusterKey Secret `json:"-"`
}

// MinServiceKey is the shortest MNEME_API_KEY that is accepted, in characters: 32 hex digits carry 128 bits.
const MinServiceKey = 32

// MasterKeyBytes returns the 32 bytes of MasterKey, nil if it is empty.
func (c *Config) MasterKeyBytes() []byte { return keyBytes(c.MasterKey) }

// PreviousMasterKeyBytes returns the 32 bytes of PreviousMasterKey, nil if it is empty.
func (c *Config) PreviousMasterKeyBytes() []byte { return keyBytes(c.PreviousMasterKey) }

// ClusterKeyBytes returns the 32 bytes of ClusterKey, nil if it is empty.
func (c *Config) ClusterKeyBytes() []byte { return keyBytes(c.ClusterKey) }

func keyBytes(text Secret) []byte {
	key, _ := hex.DecodeString(text.Reveal()) // checked by Load
	if len(key) == 0 {
		return nil
	}
	return key
}

// Provider is one upstream provider. Built-in providers need no entry; what an entry leaves out keeps its
// built-in value.
type Provider struct {
	BaseURL   string     `json:"base_url"`
	Endpoints []Endpoint `json:"endpoints"` // instead of BaseURL
	APIKey    Secret     `json:"api_key"`
	APIKeys   []APIKey   `json:"api_keys"` // instead of APIKey
	Formats   []string   `json:"formats"`  // names that codec.ParseFormat reads
	Dialect   string     `json:"dialect"`

	Preset     string `json:"preset"` // a known host, see router.Presets; "": the one of the provider's name
	APIVersion string `json:"api_version"`
	Project    string `json:"project"`
	Region     string `json:"region"`
}

// Endpoint is one of several addresses of a provider.
type Endpoint struct {
	BaseURL string `json:"base_url"`
	APIKey  Secret `json:"api_key"` // for this endpoint only
	Weight  Count  `json:"weight"`  // 0: 1
}

// APIKey is one of several credentials for a provider.
type APIKey struct {
	Key    Secret `json:"key"`
	Weight Count  `json:"weight"` // 0: 1
}

// Route sends the models whose name starts with Prefix to Provider.
type Route struct {
	Prefix   string `json:"prefix"`
	Provider string `json:"provider"`
	Strip    bool   `json:"strip"` // send the name without the prefix
	To       string `json:"to"`    // send this name
}

// Alias sends a request for Model upstream as a request for To. Both may end in "*".
type Alias struct {
	Model string `json:"model"`
	To    string `json:"to"`
}

// TLS names the files, in PEM, of the addresses under listen that begin with "tls:".
type TLS struct {
	Certificate string `json:"certificate"`
	Key         string `json:"key"`
	ClientCA    string `json:"client_ca"` // the authority of client certificates; "": clients need none
}

// Files returns the same for the package that reads them.
func (t TLS) Files() listen.Files {
	return listen.Files{Certificate: t.Certificate, Key: t.Key, ClientCA: t.ClientCA}
}

// Fallback lists the models that may answer for Model if its provider cannot.
type Fallback struct {
	Model string   `json:"model"`
	To    []string `json:"to"`
}

// PassThrough configures what is passed on to providers besides requests for models.
type PassThrough struct {
	Allow []string `json:"allow"` // see [resource.Permissions]
}

// Upstream configures retries and the breaker.
type Upstream struct {
	Retries         Times    `json:"retries"`          // attempts after the first
	BreakerFailures Times    `json:"breaker_failures"` // in a row that take an endpoint out; 0: never
	BreakerPause    Duration `json:"breaker_pause"`    // for the first time it is out
}

// Limits bound requests, connections and memory, and the use of one key.
type Limits struct {
	BodyBytes   Size      `json:"body_bytes"`
	HeaderBytes Size      `json:"header_bytes"`
	PerKey      KeyLimits `json:"per_key"`

	Connections           Count `json:"connections"`
	ConnectionsPerAddress Count `json:"connections_per_address"` // 0: only the limit above
	Requests              Count `json:"requests"`                // handled at a time

	InFlightBytes Size `json:"in_flight_bytes"` // memory of all requests and answers; 0: by what the process may use
	AnswerMemory  Size `json:"answer_memory"`   // of all answers held at a time, as a part of that
}

// KeyLimits are for service keys without their own; 0 is none.
type KeyLimits struct {
	RequestsPerMinute Count `json:"requests_per_minute"`
	TokensPerMinute   Count `json:"tokens_per_minute"`
	Concurrent        Count `json:"concurrent"`
	TokensPerMonth    Count `json:"tokens_per_month"`
	Repeats           Count `json:"repeats"`        // the same calls with the same results in a row
	StalledTokens     Count `json:"stalled_tokens"` // sent since the last new result
}

// Timeouts bound how long each phase of an exchange may last.
type Timeouts struct {
	Read      Duration `json:"read"`       // a client's whole request, from its first byte
	FirstByte Duration `json:"first_byte"` // the provider's response header, after the request was sent
	Idle      Duration `json:"idle"`       // between two reads of the provider's answer
	Drain     Duration `json:"drain"`      // open exchanges, after SIGTERM

	DrainDelay Duration `json:"drain_delay"` // from readiness going down to the drain
}

// Cache configures the provider's prompt cache.
type Cache struct {
	AnthropicBreakpoints bool `json:"anthropic_breakpoints"`

	WarnUSD Dollars `json:"warn_usd"` // least extra cost at which hooks warn of a lost cache; negative: never
}

// Recall configures what requests get from earlier sessions.
type Recall struct {
	Requests string   `json:"requests" oneof:"ask,on,off"`
	Accounts []string `json:"accounts"` // whose requests get it without asking
	Deadline Duration `json:"deadline"` // for one decision
	MaxAge   Duration `json:"max_age"`  // of what is recalled
}

// Capture configures the recording of exchanges.
type Capture struct {
	Mode       string `json:"mode" oneof:"on,off"`
	Durability string `json:"durability" oneof:"process,power"`
	OnPressure string `json:"on_pressure" oneof:"wait,shed"`

	AnswerBytes Size `json:"answer_bytes"` // recorded of one answer

	AskUsage bool `json:"ask_usage"` // request usage from providers that count a stream only on request, if the client does not; see server.Options

	OptOut []string `json:"opt_out"` // accounts whose callers may keep an exchange off the record

	Redact Redact `json:"redact"`
}

// Redact configures what is masked before an exchange is stored.
type Redact struct {
	Builtin  bool            `json:"builtin"`  // the known shapes of credentials
	Patterns []RedactPattern `json:"patterns"` // the operator's own
}

// RedactPattern is a pattern of the operator's own to mask.
type RedactPattern struct {
	Name  string `json:"name"`
	Regex string `json:"regex"`
}

// Options returns the same as package redact takes it.
func (r Redact) Options() redact.Options {
	o := redact.Options{Builtin: r.Builtin}
	for _, p := range r.Patterns {
		o.Patterns = append(o.Patterns, redact.Pattern(p))
	}
	return o
}

// Webhook is a receiver of events.
type Webhook struct {
	URL    string   `json:"url"`
	Secret Secret   `json:"secret"`
	Events []string `json:"events"`
}

// Hook returns the same as package webhook takes it.
func (w Webhook) Hook() webhook.Hook {
	return webhook.Hook{URL: w.URL, Secret: w.Secret.Reveal(), Events: w.Events}
}

// UI is the page at /ui.
type UI struct {
	OIDC OIDC `json:"oidc"`
}

// Import configures what is imported while the server runs.
type Import struct {
	Watch   []string `json:"watch"`   // agents of this user, see [history.Watchable]
	Account string   `json:"account"` // that gets their histories
}

// OIDC configures sign-in to the page with an OpenID provider.
type OIDC struct {
	Issuer       string      `json:"issuer"`
	ClientID     string      `json:"client_id"`
	ClientSecret Secret      `json:"client_secret"`
	Redirect     string      `json:"redirect"`
	Scopes       []string    `json:"scopes"` // requested from the provider, besides openid
	Grants       []OIDCGrant `json:"grants"`
}

// OIDCGrant maps a claim to rights.
type OIDCGrant struct {
	Claim   string `json:"claim"`
	Value   string `json:"value"`
	Account string `json:"account"`
	Scopes  string `json:"scopes"` // as store.ParseScopes reads them
}

// Options returns the same as package openid takes it, or an error about its fault.
func (c *OIDC) Options() (o openid.Options, err error) {
	o = openid.Options{Issuer: c.Issuer, ClientID: c.ClientID, ClientSecret: c.ClientSecret.Reveal(), Redirect: c.Redirect, Scopes: c.Scopes}
	for i, g := range c.Grants {
		scopes, err := store.ParseScopes(g.Scopes)
		if err != nil {
			return o, fmt.Errorf("entry %d of grants: %w", i+1, err)
		}
		o.Grants = append(o.Grants, openid.Grant{Claim: g.Claim, Value: g.Value, Account: g.Account, Scopes: scopes})
	}
	err = o.Check()
	return o, err
}

// Retention bounds what is kept for an account without rules of its own.
type Retention struct {
	MaxAge   Duration `json:"max_age"`
	MaxBytes Size     `json:"max_bytes"`
	Audit    Duration `json:"audit"` // of audit entries of all accounts
}

// Search configures the search index.
type Search struct {
	Embedder  Embedder  `json:"embedder"`
	Summaries Summaries `json:"summaries"`
}

// Summaries has a model summarize sessions. Without a model they are found by their own words only.
type Summaries struct {
	Model        string   `json:"model"`          // any model with a route; empty: none
	TokensPerDay Count    `json:"tokens_per_day"` // of each account, input and output together
	Quiet        Duration `json:"quiet"`          // how long a session must be idle before it is summarized
}

// Embedder makes the vectors for finding turns that say the same in other words.
type Embedder struct {
	Model          string `json:"model"`           // any model with a route, [LocalHash], or [NoEmbedder]
	Dimensions     Count  `json:"dimensions"`      // 0: the model's own, or [localhash.DefaultDimensions]
	DocumentPrefix string `json:"document_prefix"` // put before indexed texts, for models that want it
	QueryPrefix    string `json:"query_prefix"`    // put before queries
	TextBytes      Size   `json:"text_bytes"`      // embedded of a turn
	BatchTexts     Count  `json:"batch_texts"`     // in one call at most
	Calls          Count  `json:"calls"`           // at a time
}

// Embedding models that need no provider.
const (
	LocalHash  = localhash.Model // the built-in one
	NoEmbedder = "none"          // searches use words alone
)

// Admin is the management API over TCP, for keys of scope admin. Empty: only the socket in the data directory.
type Admin struct {
	Listen string `json:"listen"`
}

// Telemetry configures traces. The OTEL_* variables decide whether there are any, and where they go.
type Telemetry struct {
	TrustTraceparent bool `json:"trust_traceparent"` // continue the traces of callers instead of linking them
	SendTraceparent  bool `json:"send_traceparent"`  // send the trace context to providers
}

// Cluster configures how edges and their centre communicate, see docs/cluster.md.
type Cluster struct {
	NATS        []string `json:"nats"`        // URLs of the brokers
	Credentials string   `json:"credentials"` // credentials file of a broker user; "": the URLs have it, or none is needed
	CA          string   `json:"ca"`          // file of the authority of the brokers' certificates; "": the system's
	Node        Count    `json:"node"`        // number of this edge, at most [MaxNode]
	Replicas    Count    `json:"replicas"`    // of the brokers' data
	Centre      string   `json:"centre"`      // URL at which edges ask the centre for its memory; "": they answer with their own part
	Waiting     Size     `json:"waiting"`     // at most waits at the brokers; edges keep the rest

	Commit   string `json:"commit" oneof:"local,quorum"`    // when an answer may end: when it is on record here, or when the brokers have it too
	OnOutage string `json:"on_outage" oneof:"local,refuse"` // if the brokers do not accept it in time, with Commit quorum

	IdentityMaxAge Duration `json:"identity_max_age"` // for which an edge trusts the centre's keys without hearing from it; 0: forever
}

// Centre configures where a centre keeps the memory of its cluster.
type Centre struct {
	Postgres Secret `json:"postgres"` // URL of a database; a centre needs one
	Bodies   string `json:"bodies"`   // with Postgres: "postgres", or the bucket for bodies: s3://BUCKET/PREFIX
}

// InPostgres is the value of [Centre.Bodies] for bodies in the database.
const InPostgres = "postgres"

// MaxNode is the highest number of an edge.
const MaxNode = 1<<16 - 1

// Default is the configuration of a first start.
func Default() Config {
	return Config{
		Listen: Addresses{DefaultListen},
		Data:   DefaultData,
		Limits: Limits{BodyBytes: 64 << 20, HeaderBytes: 64 << 10, Connections: 10_000, Requests: 10_000, AnswerMemory: 192 << 20},
		Timeouts: Timeouts{
			Read: Duration(time.Minute),
			// A complete (not streamed) answer has its first byte when the model has finished.
			FirstByte: Duration(10 * time.Minute),
			Idle:      Duration(5 * time.Minute),
			Drain:     Duration(30 * time.Second),
		},
		Upstream: Upstream{Retries: 2, BreakerFailures: 10, BreakerPause: Duration(5 * time.Second)},

		Cache:   Cache{AnthropicBreakpoints: true, WarnUSD: Dollars(record.Dollar / 20)},
		Recall:  Recall{Requests: "ask", Deadline: Duration(50 * time.Millisecond), MaxAge: Duration(90 * 24 * time.Hour)},
		Capture: Capture{Mode: "on", Durability: "process", OnPressure: "wait", AnswerBytes: 64 << 20, AskUsage: true, Redact: Redact{Builtin: true}},
		// Bounds, so that an unattended server does not fill its volume.
		Retention: Retention{MaxAge: Duration(365 * 24 * time.Hour), MaxBytes: 32 << 30, Audit: Duration(2 * 365 * 24 * time.Hour)},
		// Two calls at a time keep a local model busy and leave most of a provider's rate to the clients. The smallest
		// of the known hosts takes 32 texts at once.
		Search: Search{Embedder: Embedder{Model: NoEmbedder, TextBytes: 8 << 10, BatchTexts: 32, Calls: 2}, Summaries: Summaries{
			// Some fifty summaries. Two minutes are longer than most people take for their next question.
			TokensPerDay: 200_000, Quiet: Duration(2 * time.Minute),
		}},

		Import:    Import{Account: "default"},
		Telemetry: Telemetry{SendTraceparent: true},
		Cluster:   Cluster{Replicas: 1, Waiting: 2 << 30, Commit: "local", OnOutage: "local"},
		Centre:    Centre{Bodies: InPostgres},
	}
}
