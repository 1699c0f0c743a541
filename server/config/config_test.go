package config

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/mnemeproxy/mneme/server/listen/listentest"
	"github.com/mnemeproxy/mneme/store/record"
)

// checkout is where the module lies; tests change directory.
var checkout, _ = filepath.Abs(filepath.Join("..", ".."))

// load reads text as the file mneme.yaml, beside a file of models, with the given environment ("NAME=value") and
// nothing else.
func load(t *testing.T, text string, env ...string) (Config, error) {
	t.Helper()
	models, err := os.ReadFile(filepath.Join(checkout, "router", "models.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	if err := os.WriteFile("models.yaml", models, 0o600); err != nil {
		t.Fatal(err)
	}
	listentest.NewAuthority(t, "test").Issue(".", "test", time.Now().Add(time.Hour))
	if err := os.WriteFile("mneme.yaml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return Load(Sources{File: "mneme.yaml", LookupEnv: environment(env...)})
}

func environment(env ...string) func(string) (string, bool) {
	set := map[string]string{}
	for _, pair := range env {
		name, value, _ := strings.Cut(pair, "=")
		set[name] = value
	}
	return func(name string) (string, bool) { v, ok := set[name]; return v, ok }
}

func TestNothingSetGivesTheDefaults(t *testing.T) {
	got, err := Load(Sources{LookupEnv: environment()})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), got); diff != "" {
		t.Error(diff)
	}
}

func TestEveryFieldIsReadFromTheFile(t *testing.T) {
	got, err := load(t, `
listen: [127.0.0.1:9000, "tls::9443", "unix:/run/mneme.sock"]
tls: {certificate: certificate.pem, key: key.pem, client_ca: certificate.pem}
data: /var/lib/mneme
providers:
  anthropic: {api_key: "${MY_KEY}"}
  local:
    base_url: http://127.0.0.1:8000/v1
    api_key: 1234
    formats: [chat, embeddings]
    dialect: compatible
  cluster:
    endpoints: [{base_url: "http://10.0.0.1/v1", weight: 3}, {base_url: "http://10.0.0.2/v1", api_key: its-own}]
    api_keys: [{key: "${MY_KEY}", weight: 2}, {key: other}]
routes:
- {prefix: qwen, provider: local}
aliases: [{model: fast, to: gpt-5-mini}]
fallbacks: [{model: claude-opus-4-8, to: [fast, gpt-5.5]}]
upstream: {retries: 0, breaker_failures: 7, breaker_pause: 1s}
models_file: models.yaml
limits: {body_bytes: 1 KB, header_bytes: 32kib, connections: 7, connections_per_address: 3, requests: 5, answer_memory: 1GiB, per_key: {requests_per_minute: 5, tokens_per_month: 70}}
timeouts: {read: 10s, first_byte: 1m30s, idle: 250ms, drain: 1h, drain_delay: 5s}
cache: {anthropic_breakpoints: false, warn_usd: 0.5}
capture: {mode: off, durability: power, on_pressure: shed, answer_bytes: 1MiB, ask_usage: false, opt_out: [team-a], redact: {builtin: false, patterns: [{name: ticket, regex: "ACME-[0-9]+"}]}}
recall: {requests: on, accounts: [team-a], deadline: 20ms, max_age: 240h}
retention: {max_age: 720h, max_bytes: 1GB, audit: 48h}
search:
  embedder: {model: qwen3-embedding, dimensions: 256, document_prefix: "d: ", query_prefix: "q: ", text_bytes: 4KiB, batch_texts: 8, calls: 1}
  summaries: {model: gpt-5-mini, tokens_per_day: 30000, quiet: 5m}
admin: {listen: "localhost:7789"}
telemetry: {trust_traceparent: true, send_traceparent: false}
webhooks: [{url: "https://hooks.example.com", secret: "whsec_ZXhhbXBsZS1zZWNyZXQtb2YtbW5lbWUh", events: [budget.reached]}]
ui: {oidc: {issuer: "https://id.example.com", client_id: mneme, client_secret: s, redirect: "https://mneme.example.com/ui/oidc/callback", scopes: [email], grants: [{claim: groups, value: staff, account: acme, scopes: "read,write"}]}}
import: {watch: [claude-code, codex], account: acme}
cluster: {nats: ["tls://nats:4222"], credentials: edge.creds, ca: brokers.pem, node: 7, centre: "https://mneme.example.com", replicas: 3, waiting: 4GiB, commit: quorum, on_outage: refuse}
centre: {postgres: "postgres://mneme@db/mneme", bodies: "s3://memory/cell-3"}
`, "MY_KEY=sk-ant-mine")
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Listen: Addresses{"127.0.0.1:9000", "tls::9443", "unix:/run/mneme.sock"},
		TLS:    TLS{Certificate: "certificate.pem", Key: "key.pem", ClientCA: "certificate.pem"},
		Data:   "/var/lib/mneme",
		Providers: map[string]Provider{
			"anthropic": {APIKey: "sk-ant-mine"},
			"local":     {BaseURL: "http://127.0.0.1:8000/v1", APIKey: "1234", Formats: []string{"chat", "embeddings"}, Dialect: "compatible"},
			"cluster": {
				Endpoints: []Endpoint{{BaseURL: "http://10.0.0.1/v1", Weight: 3}, {BaseURL: "http://10.0.0.2/v1", APIKey: "its-own"}},
				APIKeys:   []APIKey{{Key: "sk-ant-mine", Weight: 2}, {Key: "other"}},
			},
		},
		Routes:     []Route{{Prefix: "qwen", Provider: "local"}},
		Aliases:    []Alias{{Model: "fast", To: "gpt-5-mini"}},
		Fallbacks:  []Fallback{{Model: "claude-opus-4-8", To: []string{"fast", "gpt-5.5"}}},
		Upstream:   Upstream{Retries: 0, BreakerFailures: 7, BreakerPause: Duration(time.Second)},
		ModelsFile: "models.yaml",
		Limits: Limits{
			BodyBytes: 1000, HeaderBytes: 32 << 10, PerKey: KeyLimits{RequestsPerMinute: 5, TokensPerMonth: 70},
			Connections: 7, ConnectionsPerAddress: 3, Requests: 5, AnswerMemory: 1 << 30,
		},
		Timeouts: Timeouts{
			Read: Duration(10 * time.Second), FirstByte: Duration(90 * time.Second),
			Idle: Duration(250 * time.Millisecond), Drain: Duration(time.Hour), DrainDelay: Duration(5 * time.Second),
		},
		Cache:   Cache{WarnUSD: Dollars(record.Dollar / 2)},
		Recall:  Recall{Requests: "on", Accounts: []string{"team-a"}, Deadline: Duration(20 * time.Millisecond), MaxAge: Duration(240 * time.Hour)},
		Capture: Capture{Mode: "off", Durability: "power", OnPressure: "shed", AnswerBytes: 1 << 20, OptOut: []string{"team-a"}, Redact: Redact{Patterns: []RedactPattern{{"ticket", "ACME-[0-9]+"}}}},

		Retention: Retention{MaxAge: Duration(30 * 24 * time.Hour), MaxBytes: 1e9, Audit: Duration(48 * time.Hour)},

		Search: Search{Embedder: Embedder{
			Model: "qwen3-embedding", Dimensions: 256, DocumentPrefix: "d: ", QueryPrefix: "q: ",
			TextBytes: 4 << 10, BatchTexts: 8, Calls: 1,
		}, Summaries: Summaries{Model: "gpt-5-mini", TokensPerDay: 30_000, Quiet: Duration(5 * time.Minute)}},

		Admin: Admin{Listen: "localhost:7789"},

		Telemetry: Telemetry{TrustTraceparent: true},

		Webhooks: []Webhook{{URL: "https://hooks.example.com", Secret: "whsec_ZXhhbXBsZS1zZWNyZXQtb2YtbW5lbWUh", Events: []string{"budget.reached"}}},
		UI: UI{OIDC: OIDC{
			Issuer: "https://id.example.com", ClientID: "mneme", ClientSecret: "s", Redirect: "https://mneme.example.com/ui/oidc/callback", Scopes: []string{"email"},
			Grants: []OIDCGrant{{Claim: "groups", Value: "staff", Account: "acme", Scopes: "read,write"}},
		}},
		Import:  Import{Watch: []string{"claude-code", "codex"}, Account: "acme"},
		Cluster: Cluster{NATS: []string{"tls://nats:4222"}, Credentials: "edge.creds", CA: "brokers.pem", Node: 7, Centre: "https://mneme.example.com", Replicas: 3, Waiting: 4 << 30, Commit: "quorum", OnOutage: "refuse"},
		Centre:  Centre{Postgres: "postgres://mneme@db/mneme", Bodies: "s3://memory/cell-3"},
	}
	if diff := cmp.Diff(want, got, cmp.Transformer("Reveal", Secret.Reveal)); diff != "" {
		t.Error(diff)
	}
}

func TestTheStrongerLayerWins(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("a.yaml", []byte("listen: 127.0.0.1:1\ndata: from-file\nproviders: {openai: {api_key: from-file}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	env := []string{
		"MNEME_CONFIG=a.yaml", "MNEME_LISTEN=127.0.0.1:2", "OPENAI_API_KEY=from-env", "GEMINI_API_KEY=gemini-env\n",
		"DEEPSEEK_API_KEY=", "MNEME_DATA=",
	}
	got, err := Load(Sources{Listen: "127.0.0.1:3", LookupEnv: environment(env...)})
	if err != nil {
		t.Fatal(err)
	}
	for what, pair := range map[string][2]string{
		"flag over environment":                       {"127.0.0.1:3", strings.Join(got.Listen, ",")},
		"an empty variable leaves the file's value":   {"from-file", got.Data},
		"a key in the file over the usual variable":   {"from-file", got.Providers["openai"].APIKey.Reveal()},
		"the usual variable, without a stray newline": {"gemini-env", got.Providers["gemini"].APIKey.Reveal()},
		"an empty key is no key":                      {"", got.Providers["deepseek"].APIKey.Reveal()},
	} {
		if pair[0] != pair[1] {
			t.Errorf("%s: want %q, got %q", what, pair[0], pair[1])
		}
	}
	got, err = Load(Sources{LookupEnv: environment(env...)})
	if err != nil || !slices.Equal(got.Listen, Addresses{"127.0.0.1:2"}) {
		t.Errorf("environment over file: got %q, %v", got.Listen, err)
	}
}

func TestMistakesNameTheLineAndTheFix(t *testing.T) {
	for name, tt := range map[string]struct {
		file string
		env  []string
		want string // all lines of the error
	}{
		"misspelled field": {
			file: "data: x\nlitsen: :1\n",
			want: `mneme.yaml:2: unknown field "litsen"; did you mean "listen"?`,
		},
		"dash for underscore": {
			file: "limits:\n  body-bytes: 1\n",
			want: `mneme.yaml:2: unknown field "body-bytes" in limits; did you mean "body_bytes"?`,
		},
		"field of another group": {
			file: "timeouts:\n  durability: power\n",
			want: `mneme.yaml:2: unknown field "durability" in timeouts; it belongs under "capture"`,
		},
		"field of the top, indented": {
			file: "limits:\n  body_bytes: 1\n  data: x\n",
			want: `mneme.yaml:3: unknown field "data" in limits; it belongs at the top of the file, not indented`,
		},
		"field unlike any": {
			file: "admin: {color: red}\n",
			want: `mneme.yaml:1: unknown field "color" in admin; known here: listen`,
		},
		"field of an earlier version": {
			file: "upstream:\n  hedge_after: 20s\n",
			want: `mneme.yaml:2: unknown field "hedge_after" in upstream; removed, because it paid two providers for one answer; delete this line`,
		},
		"twice": {
			file: "data: x\n\ndata: y\n",
			want: `mneme.yaml:3: "data" is set twice (first on line 1); keep one`,
		},
		"size": {
			file: "limits:\n  body_bytes: lots\n",
			want: `mneme.yaml:2: limits.body_bytes: "lots" is not a size; write a whole number above 0 with an optional unit, such as 64MiB or 512KB`,
		},
		"a limit that stops healthy agents": {
			file: "limits:\n  per_key: {repeats: 2}\n",
			want: `mneme.yaml:2: limits.per_key.repeats: write 4 or more; agents make the same call two or three times for good reasons`,
		},
		"size over the range": {
			file: "limits: {body_bytes: 9999999999GiB}\n",
			want: `mneme.yaml:1: limits.body_bytes: "9999999999GiB" is not a size; write a whole number above 0 with an optional unit, such as 64MiB or 512KB`,
		},
		"duration without unit": {
			file: "timeouts:\n  idle: 30\n",
			want: `mneme.yaml:2: timeouts.idle: "30" is not a duration; write a number above 0 with a unit, such as 500ms, 30s, 5m or 7d`,
		},
		"choice": {
			file: "capture:\n  mode: on\n  durability: disk\n",
			want: `mneme.yaml:3: capture.durability: "disk" is not one of process, power`,
		},
		"boolean": {
			file: "cache: {anthropic_breakpoints: maybe}\n",
			want: `mneme.yaml:1: cache.anthropic_breakpoints: "maybe" is neither true nor false`,
		},
		"amount": {
			file: "cache: {warn_usd: -3}\n",
			want: `mneme.yaml:1: cache.warn_usd: "-3" is not an amount; write US dollars above 0, such as 0.05, or off`,
		},
		"missing variable": {
			file: "providers:\n  openai:\n    api_key: ${NOT_THERE}\n",
			want: `mneme.yaml:3: providers.openai.api_key: the variable NOT_THERE is not set; set it before starting mneme, or write the value here`,
		},
		"variable left open": {
			file: "data: ${HOME/x\n",
			want: `mneme.yaml:1: data: a variable is written ${NAME}; write $${ where ${ itself is meant`,
		},
		"group where a value belongs": {
			file: "data: {dir: x}\n",
			want: `mneme.yaml:1: data must be a single value`,
		},
		"group where a list belongs": {
			file: "listen: {port: 1}\n",
			want: `mneme.yaml:1: listen must be a list; start each entry with "- "`,
		},
		"value where a group belongs": {
			file: "capture: on\n",
			want: `mneme.yaml:1: capture must be a group of fields (mode, durability, on_pressure, answer_bytes, ask_usage, opt_out, redact), each written "name: value"`,
		},
		"value where a list belongs": {
			file: "routes: qwen\n",
			want: `mneme.yaml:1: routes must be a list; start each entry with "- "`,
		},
		"empty entry": {
			file: "aliases:\n- {model: a, to: gpt-5}\n-\n",
			want: `mneme.yaml:3: entry 2 of aliases is empty; fill it in or remove it`,
		},
		"the file is a list": {
			file: "- listen\n",
			want: `mneme.yaml:1: the file must be a group of fields (listen, tls, public_names, origins, data, providers, routes, aliases, fallbacks, upstream, pass_through, models_file, limits, timeouts, cache, capture, recall, retention, search, admin, telemetry, webhooks, ui, import, cluster, centre), each written "name: value"`,
		},
		"bodies that are nowhere": {
			file: "centre: {postgres: postgres://db/mneme, bodies: /srv/bodies}\n",
			want: `mneme.yaml:1: centre.bodies: write postgres, s3://BUCKET or s3://BUCKET/PREFIX; address and credentials of the service come from the environment`,
		},
		"bodies without rows": {
			file: "centre: {bodies: \"s3://memory\"}\n",
			want: `mneme.yaml:1: centre.bodies: a bucket goes with a database; set centre.postgres`,
		},
		"a search engine": {
			file: "centre: {postgres: postgres://db/mneme, search: postgres}\n",
			want: `mneme.yaml:1: unknown field "search" in centre; the database finds the candidates of searches, and there is no other engine; take the line out`,
		},
		"listen": {
			file: "\nlisten: 8080\n",
			want: `mneme.yaml:2: listen: "8080" is not HOST:PORT; write for example 127.0.0.1:7788, or :7788 for every interface, or port 0 for any free one, or tls:HOST:PORT, or unix:PATH`,
		},
		"listen in the environment": {
			file: "",
			env:  []string{"MNEME_LISTEN=localhost"},
			want: `MNEME_LISTEN: listen: "localhost" is not HOST:PORT; write for example 127.0.0.1:7788, or :7788 for every interface, or port 0 for any free one, or tls:HOST:PORT, or unix:PATH`,
		},
		"listen in a list": {
			file: "listen:\n- :1\n- 'unix:'\n- :1\n",
			want: "mneme.yaml:3: listen: \"unix:\" needs the path of a socket after unix:, such as unix:/run/mneme/mneme.sock\n" +
				"mneme.yaml:4: listen: :1 is there twice; keep one",
		},
		"mistakes of every kind at once": {
			file: "listne: :1\nlisten: [8080]\ncapture:\n  mode: sometimes\nadmin:\n  listen: here\n",
			want: `mneme.yaml:1: unknown field "listne"; did you mean "listen"?` + "\n" +
				`mneme.yaml:2: listen: "8080" is not HOST:PORT; write for example 127.0.0.1:7788, or :7788 for every interface, or port 0 for any free one, or tls:HOST:PORT, or unix:PATH` + "\n" +
				`mneme.yaml:4: capture.mode: "sometimes" is not one of on, off` + "\n" +
				`mneme.yaml:6: admin.listen: "here" is not HOST:PORT; write for example 127.0.0.1:7789`,
		},
		"TLS without a certificate": {
			file: "data: x\nlisten: tls::1\n",
			want: `mneme.yaml:2: listen: an address with tls: needs a certificate; set tls.certificate and tls.key`,
		},
		"a certificate without its key": {
			file: "tls:\n  certificate: certificate.pem\n",
			want: `mneme.yaml:2: tls: needs both certificate and key`,
		},
		"a certificate that is not there": {
			file: "tls:\n  certificate: nowhere.pem\n  key: key.pem\n",
			want: `mneme.yaml:2: tls: open nowhere.pem: no such file or directory`,
		},
		"a key that is none": {
			file: "tls:\n  certificate: certificate.pem\n  key: models.yaml\n",
			want: `mneme.yaml:2: tls: certificate.pem and models.yaml are not a certificate and its key: tls: failed to find any PEM data in key input`,
		},
		"a client CA alone": {
			file: "tls:\n  client_ca: certificate.pem\n",
			want: `mneme.yaml:2: tls.client_ca: needs tls.certificate and tls.key beside it`,
		},
		"a count": {
			file: "limits:\n  connections: many\n",
			want: `mneme.yaml:2: limits.connections: "many" is not a number above 0`,
		},
		"a grant without an account": {
			file: "ui:\n  oidc:\n    issuer: https://id.example.com\n    client_id: mneme\n    redirect: https://mneme.example.com/ui/oidc/callback\n    grants:\n      - {claim: sub, value: bob, scopes: read}\n",
			want: `mneme.yaml:3: ui.oidc: entry 1 of grants needs claim, value, account and scopes`,
		},
		"a callback elsewhere": {
			file: "ui:\n  oidc:\n    issuer: https://id.example.com\n    client_id: mneme\n    redirect: https://mneme.example.com/\n",
			want: `mneme.yaml:3: ui.oidc: redirect must be the URL of this server with the path /ui/oidc/callback, and is "https://mneme.example.com/"`,
		},
		"admin on the same port": {
			file: "listen: :1\nadmin:\n  listen: :1\n",
			want: `mneme.yaml:3: admin.listen: :1 is taken by listen; choose another port`,
		},
		"format": {
			file: "providers:\n  openai:\n    formats:\n    - chat\n    - chatty\n",
			want: `mneme.yaml:5: providers.openai.formats: unknown format "chatty" (known: chat, responses, messages, gemini, embeddings)`,
		},
		"base URL without scheme": {
			file: "providers:\n  openai: {base_url: api.openai.com/v1}\n",
			want: `mneme.yaml:2: providers.openai.base_url: must be a whole URL such as https://llm.example.com/v1`,
		},
		"base URL with the path that is added": {
			file: "providers:\n  anthropic:\n    base_url: https://api.anthropic.com/v1\n",
			want: `mneme.yaml:3: providers.anthropic.base_url: must not end in /v1; the path /v1/messages is added to it`,
		},
		"password in a base URL is not repeated": {
			file: "providers: {openai: {base_url: 'https://me:hunter2@host/v1'}}\n",
			want: `mneme.yaml:1: providers.openai.base_url: must not carry a user or password; use api_key`,
		},
		"line break in a key is not repeated": {
			file: "providers:\n  openai:\n    api_key: \"sk-1\\nsk-2\"\n",
			want: `mneme.yaml:3: providers.openai.api_key: holds a space, a line break or a character that no key has; copy the key again`,
		},
		"new provider without a URL": {
			file: "providers:\n  local: {api_key: x}\n",
			want: `mneme.yaml:2: providers.local.base_url is missing: give the URL that SDKs take for this host, such as http://127.0.0.1:8000/v1`,
		},
		"preset that is not known": {
			file: "providers:\n  mine: {preset: olama}\n",
			want: `mneme.yaml:2: providers.mine.preset: there is no preset "olama" (known: openrouter, ollama, lmstudio, vllm, llamacpp, groq, together, mistral, xai, azure, vertex, vertex-claude, bedrock)`,
		},
		"preset without what it needs": {
			file: "providers:\n  bedrock: {}\n",
			want: `mneme.yaml:2: providers.bedrock.region is missing: give the AWS region, such as us-east-1`,
		},
		"dialect": {
			file: "providers:\n  openai:\n    dialect: klingon\n",
			want: `mneme.yaml:3: providers.openai.dialect: there is no dialect "klingon" (known: DIALECTS)`,
		},
		"file of models": {
			file: "data: x\nmodels_file: nowhere.yaml\n",
			want: `mneme.yaml:2: models_file: open nowhere.yaml: no such file or directory`,
		},
		"name of a provider": {
			file: "providers:\n  My.Host: {base_url: http://h}\n",
			want: `mneme.yaml:2: "My.Host" is not a name for providers; use lower-case letters, digits, - and _`,
		},
		"route to nowhere": {
			file: "routes:\n- prefix: qwen\n  provider: lokal\n",
			want: `mneme.yaml:3: routes: entry 1 needs the name of a provider, and "lokal" is none; known: anthropic, openai, gemini, deepseek`,
		},
		"alias to nothing": {
			file: "aliases:\n- model: fast\n",
			want: `mneme.yaml:2: aliases: entry 1 needs both model (what clients ask for) and to (what is sent)`,
		},
		"embedder without vectors": {
			file: "search:\n  embedder:\n    model: claude-opus-4-8\n",
			want: `mneme.yaml:3: search.embedder: Model claude-opus-4-8 belongs to provider anthropic, which has no embeddings. Providers that have them: gemini, openai.`,
		},
		"embedder of a size it has not": {
			file: "search:\n  embedder: {model: text-embedding-3-small,\n    dimensions: 2000}\n",
			want: `mneme.yaml:3: search.embedder: text-embedding-3-small has no vectors of 2000 dimensions; legal: any from 1 to 1536`,
		},
		"built-in embedder of a size it has not": {
			file: "search:\n  embedder:\n    model: local-hash-v1\n    dimensions: 7\n",
			want: `mneme.yaml:4: search.embedder: local-hash-v1 has vectors of [256 512 1024 2048] dimensions, not of 7`,
		},
		"model for summaries that no provider has": {
			file: "search:\n  summaries:\n    model: unheard-of\n",
			want: `mneme.yaml:3: search.summaries: No provider is known for model "unheard-of". Known prefixes: PREFIXES. Routes for other names are set under routes in the configuration.`,
		},
		"budget below one summary": {
			file: "search:\n  summaries:\n    model: gpt-5-mini\n    tokens_per_day: 1000\n",
			want: `mneme.yaml:4: search.summaries: 1000 tokens a day allow for no summary: one may take 9216`,
		},
		"embedder of no known size": {
			file: "providers: {local: {base_url: \"http://h/v1\"}}\nroutes: [{prefix: my-, provider: local}]\nsearch:\n  embedder:\n    model: my-model\n",
			want: `mneme.yaml:5: search.embedder: how long the vectors of my-model are is not known; say it in search.embedder.dimensions`,
		},
		"no number": {
			file: "search:\n  embedder:\n    calls: many\n",
			want: `mneme.yaml:3: search.embedder.calls: "many" is not a number above 0`,
		},
		"short service key": {
			env:  []string{"MNEME_API_KEY=short"},
			want: "MNEME_API_KEY: has 5 characters and needs 32 or more; `openssl rand -hex 32` makes a good one",
		},
		"master key": {
			env:  []string{"MNEME_MASTER_KEY=abc"},
			want: "MNEME_MASTER_KEY: is not 64 hexadecimal digits; `openssl rand -hex 32` makes them",
		},
		"YAML itself": {
			file: "listen: \"127.0.0.1:1\ndata: x\n",
			want: `mneme.yaml:3: not valid YAML: found unexpected end of stream`,
		},
		"a second document": {
			file: "data: x\n---\ndata: y\n",
			want: `mneme.yaml:2: not valid YAML: a second document starts here; keep everything in one`,
		},
		"an alias to its own parent": {
			file: "limits: &a {body_bytes: *a}\n",
			want: `mneme.yaml:1: limits.body_bytes must be a single value, such as 64MiB`,
		},
		"everything at once, in the order of the file": {
			file: "listn: x\nlimits:\n  body_bytes: -1\ncapture:\n  mode: maybe\n",
			want: `mneme.yaml:1: unknown field "listn"; did you mean "listen"?
mneme.yaml:3: limits.body_bytes: "-1" is not a size; write a whole number above 0 with an optional unit, such as 64MiB or 512KB
mneme.yaml:5: capture.mode: "maybe" is not one of on, off`,
		},
		"everything at once, also what only the router knows": {
			file: `providers:
  openai: {base_url: "http://127.0.0.1:1", dialect: klingon}
  mine: {base_url: "not a URL"}
routes:
  - {prefix: mine-, provider: mine}
  - {prefix: other-, provider: nobody}
  - {prefix: both-, provider: mine, strip: true, to: x}
aliases:
  - {model: a, to: nowhere}
  - {model: b, to: mine-1}
  - {model: c, to: also-nowhere}
fallbacks:
  - {model: gpt-5, to: [llama-9]}
  - {model: a, to: [mine-1, other-1]}
  - {model: gpt-5, to: [b, nobody-knows]}
capture: {mode: maybe}
search:
  embedder: {model: claude-opus-4-8}
`,
			want: `mneme.yaml:2: providers.openai.dialect: there is no dialect "klingon" (known: DIALECTS)
mneme.yaml:3: providers.mine.base_url: must be a whole URL such as https://llm.example.com/v1
mneme.yaml:6: routes: entry 2 needs the name of a provider, and "nobody" is none; known: anthropic, openai, gemini, deepseek, mine
mneme.yaml:7: routes[2].to: strip is set as well; remove one of them
mneme.yaml:9: aliases[0].to: no route leads to model "nowhere" (known prefixes: PREFIXES)
mneme.yaml:11: aliases[2].to: no route leads to model "also-nowhere" (known prefixes: PREFIXES)
mneme.yaml:13: fallbacks[0].to[0]: No provider is known for model "llama-9". Known prefixes: PREFIXES. Routes for other names are set under routes in the configuration.
mneme.yaml:15: fallbacks[2].to[1]: No provider is known for model "nobody-knows". Known prefixes: PREFIXES. Routes for other names are set under routes in the configuration.
mneme.yaml:16: capture.mode: "maybe" is not one of on, off
mneme.yaml:18: search.embedder: Model claude-opus-4-8 belongs to provider anthropic, which has no embeddings. Providers that have them: gemini, mine, openai.`,
		},
		"a weight that is no number": {
			file: "providers:\n  openai:\n    endpoints:\n      - weight: many\n",
			want: `mneme.yaml:4: providers.openai.endpoints.0.weight: "many" is not a number above 0`,
		},
		"an endpoint without an address": {
			file: "providers:\n  openai:\n    endpoints:\n      - weight: 2\n",
			want: `mneme.yaml:4: providers.openai.endpoints.0.base_url: must be a whole URL such as https://llm.example.com/v1`,
		},
		"one endpoint twice": {
			file: "providers:\n  openai:\n    endpoints:\n      - base_url: https://a.example/v1\n      - base_url: https://a.example/v1/\n",
			want: `mneme.yaml:5: providers.openai.endpoints[1].base_url is that of another endpoint already: give it a weight there, and its keys under api_keys`,
		},
		"one key and several": {
			file: "providers:\n  openai:\n    api_key: a\n    api_keys: [{key: b}]\n",
			want: `mneme.yaml:4: providers.openai.api_keys: api_key is set as well; move it into the list, or remove one of them`,
		},
		"a fallback that leads nowhere": {
			file: "fallbacks:\n  - model: gpt-5.5\n    to:\n      - llama-9\n",
			want: `mneme.yaml:4: fallbacks[0].to[0]: No provider is known for model "llama-9". Known prefixes: PREFIXES. Routes for other names are set under routes in the configuration.`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, tt.file, tt.env...)
			if err == nil {
				t.Fatal("accepted")
			}
			got := regexp.MustCompile(`(dialect "klingon" \(known: )[^)]+`).ReplaceAllString(err.Error(), "${1}DIALECTS")
			got = regexp.MustCompile(`(Known prefixes: )[^.]+(?:-4\.1[^.]*)?`).ReplaceAllString(got, "${1}PREFIXES")
			got = regexp.MustCompile(`(known prefixes: )[^)]+`).ReplaceAllString(got, "${1}PREFIXES")
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The usual variable is often set for other programs too.
func TestSeveralKeysInTheFileStandOverTheUsualVariable(t *testing.T) {
	got, err := load(t, "providers: {openai: {api_keys: [{key: a}, {key: b}]}}", "OPENAI_API_KEY=c")
	if err != nil {
		t.Fatal(err)
	}
	if p := got.Providers["openai"]; p.APIKey != "" || len(p.APIKeys) != 2 {
		t.Errorf("%q and %d keys", p.APIKey.Reveal(), len(p.APIKeys))
	}
}

func TestEverySecretOfTheConfigurationIsListed(t *testing.T) {
	got, err := load(t, `providers:
  openai: {api_keys: [{key: first}, {key: second}]}
  anthropic: {api_key: third}
  gemini: {endpoints: [{base_url: "https://one.example.com", api_key: fourth}]}
`, "MNEME_API_KEY=a-service-key-of-the-operators-own", "MNEME_MASTER_KEY="+strings.Repeat("ab", 32))
	if err != nil {
		t.Fatal(err)
	}
	secrets := got.Secrets()
	slices.Sort(secrets)
	want := []string{"a-service-key-of-the-operators-own", strings.Repeat("ab", 32), "first", "fourth", "second", "third"}
	if diff := cmp.Diff(want, secrets); diff != "" {
		t.Error(diff)
	}
}

func TestAFileThatIsNotThereNamesWhoAskedForIt(t *testing.T) {
	_, err := Load(Sources{File: "/nowhere/mneme.yaml", LookupEnv: environment()})
	if want := "/nowhere/mneme.yaml: no such file; correct --config, or copy mneme.example.yaml there"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	_, err = Load(Sources{LookupEnv: environment("MNEME_CONFIG=/nowhere")})
	if want := "/nowhere: no such file; correct MNEME_CONFIG, or copy mneme.example.yaml there"; err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
}

func TestVariablesAreExpandedOnceAndNeverReadAsYAML(t *testing.T) {
	got, err := load(t, "data: ${A}/x${B}-$${C}-$D\n", "A={not: yaml}", "B=${A}")
	if err != nil {
		t.Fatal(err)
	}
	if want := "{not: yaml}/x${A}-${C}-$D"; got.Data != want {
		t.Errorf("want %q, got %q", want, got.Data)
	}
}

func TestSecretsNeverPrint(t *testing.T) {
	const secret = "sk-ant-do-not-show"
	cfg, err := load(t, "providers: {anthropic: {api_key: "+secret+"}}", "MNEME_API_KEY="+strings.Repeat(secret, 2))
	if err != nil {
		t.Fatal(err)
	}
	var printed strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d"} {
		fmt.Fprintf(&printed, verb+"\n", cfg)
		fmt.Fprintf(&printed, verb+"\n", cfg.ServiceKey)
		fmt.Fprintf(&printed, verb+"\n", &cfg.ServiceKey)
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&printed, nil), slog.NewJSONHandler(&printed, nil)} {
		slog.New(handler).Info("starting", "config", cfg, "key", cfg.ServiceKey)
	}
	asJSON, err := json.Marshal(cfg)
	if err != nil {
		t.Fatal(err)
	}
	printed.Write(asJSON)
	for _, form := range []string{secret, fmt.Sprintf("%x", secret), fmt.Sprintf("%X", secret)} {
		if strings.Contains(printed.String(), form) {
			t.Errorf("secret printed as %s in:\n%s", form, printed.String())
		}
	}
	if !strings.Contains(string(asJSON), `"api_key":"[secret]"`) {
		t.Errorf("JSON does not say that a key is set: %s", asJSON)
	}
}

func TestTheExampleLoadsAndNamesEveryField(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(checkout, "mneme.example.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	asShipped, err := load(t, string(text))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Default(), asShipped); diff != "" {
		t.Errorf("as shipped, the example changes something:\n%s", diff)
	}

	// A setting is a line that starts with # and a field's name, or with # and an entry's dash; the rest is prose.
	everything := regexp.MustCompile(`(?m)^#([^ \n#]| +(?:- )?[a-z_]+: ?)`).ReplaceAllString(string(text), "$1")
	withAll, err := load(t, everything, "ANTHROPIC_API_KEY=x", "MNEME_OIDC_SECRET=x")
	if err != nil {
		t.Fatalf("with every line taken in: %v\n%s", err, everything)
	}
	withAll.Providers, withAll.Routes, withAll.Aliases, withAll.ModelsFile, withAll.Admin, withAll.PublicNames, withAll.Origins = nil, nil, nil, "", Admin{}, nil, nil
	withAll.Fallbacks, withAll.PassThrough = nil, PassThrough{}
	withAll.Limits.PerKey = KeyLimits{}
	withAll.Search.Embedder.Dimensions, withAll.Search.Embedder.DocumentPrefix, withAll.Search.Embedder.QueryPrefix = 0, "", ""
	withAll.Search.Summaries.Model = ""
	withAll.Recall.Accounts = nil
	withAll.Capture.OptOut, withAll.Capture.Redact.Patterns, withAll.TLS = nil, nil, TLS{}
	withAll.Webhooks, withAll.UI, withAll.Import.Watch = nil, UI{}, nil
	withAll.Cluster, withAll.Centre = Default().Cluster, Default().Centre
	withAll.Limits.ConnectionsPerAddress, withAll.Limits.InFlightBytes, withAll.Timeouts.DrainDelay = 0, 0, 0
	if diff := cmp.Diff(Default(), withAll); diff != "" {
		t.Errorf("a value shown in the example is not the default:\n%s", diff)
	}

	doc := readDocument("mneme.example.yaml", []byte(everything), environment("ANTHROPIC_API_KEY=x", "MNEME_OIDC_SECRET=x"), &Config{})
	index := regexp.MustCompile(`\.(\d+|anthropic|local|cluster|workstation|azure|vertex|bedrock)\b`)
	shown := map[string]bool{}
	for path := range doc.origins {
		shown[index.ReplaceAllString(path, "")] = true
	}
	for _, path := range fieldPaths(reflect.TypeFor[Config](), "") {
		if !shown[path] {
			t.Errorf("mneme.example.yaml does not show %s", path)
		}
	}
}

// fieldPaths lists every field of the file, without the names and numbers of entries: "routes.prefix".
func fieldPaths(group reflect.Type, path string) []string {
	for group.Kind() == reflect.Map || group.Kind() == reflect.Slice {
		group = group.Elem()
	}
	if group.Kind() != reflect.Struct {
		return []string{path}
	}
	var paths []string
	for _, name := range fieldNames(group) {
		field, _ := fieldNamed(group, name)
		paths = append(paths, fieldPaths(field.Type, join(path, name))...)
	}
	return paths
}
