// Package agent connects the programs that talk to models to a server: for one run ([Agent.Launch]), or permanently in
// their configuration files ([Setup]).
package agent

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
)

// EnvKey is the variable in which agents find the service key.
const EnvKey = "MNEME_KEY"

// Server is the server for an agent, and the agent's identity there.
type Server struct {
	Origin   string // "http://host:port"
	Key      string
	Memory   bool   // give the agent the memory as tools
	Recall   string // the command for recall, if the agent uses it; "" if not
	OwnLogin bool   // keep the agent's own login with its provider
}

// Launch is how an agent is started.
type Launch struct {
	Drop []string // variables that point elsewhere, removed from the agent's environment
	Set  []string // NAME=value
	Args []string // before the user's
	Note string   // a note for the user; "" for none
}

// Agent is a known agent.
type Agent struct {
	Name   string
	launch func(Server) (Launch, error)
}

var agents = []Agent{
	{"claude", launchClaude},
	{"codex", launchCodex},
	{"opencode", launchOpencode},
	{"qwen", launchQwen},
	{"gemini", launchGemini},
	{"aider", launchAider},
}

// Names lists the known agents.
func Names() []string {
	names := make([]string, len(agents))
	for i := range agents {
		names[i] = agents[i].Name
	}
	return names
}

// Find returns the agent of that name. Any other program is assumed to read the usual variables; known is then false.
func Find(name string) (a Agent, known bool) {
	if i := slices.IndexFunc(agents, func(a Agent) bool { return a.Name == name }); i >= 0 {
		return agents[i], true
	}
	return Agent{name, launchAny}, false
}

// Launch returns how the agent is started on a server.
func (a Agent) Launch(s Server) (Launch, error) {
	l, err := a.launch(s)
	l.Drop = append(l.Drop, EnvKey)
	l.Set = append(l.Set, EnvKey+"="+s.Key)
	if s.Recall != "" {
		l.Set = append(l.Set, EnvURL+"="+s.Origin)
		err = cmp.Or(err, noRecall(a.Name))
	}
	return l, err
}

// Environment returns base with the variables of the launch.
func (l *Launch) Environment(base []string) []string {
	kept := slices.DeleteFunc(slices.Clone(base), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return slices.Contains(l.Drop, name) || slices.ContainsFunc(l.Set, func(set string) bool { return strings.HasPrefix(set, name+"=") })
	})
	return append(kept, l.Set...)
}

// The usual variables. A key for the provider itself is removed for agents that would prefer it to ours.
func openAI(s Server) []string {
	return []string{"OPENAI_BASE_URL=" + s.Origin + "/v1", "OPENAI_API_BASE=" + s.Origin + "/v1", "OPENAI_API_KEY=" + s.Key}
}

func anthropic(s Server) []string {
	return []string{"ANTHROPIC_BASE_URL=" + s.Origin, "ANTHROPIC_AUTH_TOKEN=" + s.Key}
}

func google(s Server) []string {
	return []string{"GOOGLE_GEMINI_BASE_URL=" + s.Origin, "GEMINI_API_KEY=" + s.Key}
}

// googles are variables of Google's clients that would go before ours, or lead to another host.
var googles = []string{"GOOGLE_API_KEY", "GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GOOGLE_GEMINI_BASE_URL"}

const anthropicKey = "ANTHROPIC_API_KEY" // sent as x-api-key, which is never read as a service key

func noOwnLogin(s Server, name, why string) error {
	if !s.OwnLogin {
		return nil
	}
	return fmt.Errorf("%s has no login that can be passed through mneme: %s", name, why)
}

func noMemory(s Server, name string) error {
	if !s.Memory {
		return nil
	}
	return fmt.Errorf("%s cannot be given the memory for one run; add the MCP server %s/mcp to its configuration, with the header Authorization: Bearer $%s", name, s.Origin, EnvKey)
}

// ownLoginNote explains what passing a login through means.
const ownLoginNote = "your own login goes through mneme to the provider, which bills you; mneme keeps no copy of it. " +
	"Check the provider's terms before you send it through a server that others operate"

func launchClaude(s Server) (Launch, error) {
	l := Launch{Drop: []string{anthropicKey, "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_BASE_URL"}, Set: anthropic(s)}
	if s.OwnLogin {
		l.Drop = []string{"ANTHROPIC_BASE_URL"}
		headers := "X-Service-API-Key: " + s.Key
		if users := strings.TrimSpace(os.Getenv("ANTHROPIC_CUSTOM_HEADERS")); users != "" {
			headers = users + "\n" + headers
		}
		l.Set = []string{"ANTHROPIC_BASE_URL=" + s.Origin, "ANTHROPIC_CUSTOM_HEADERS=" + headers}
		l.Note = ownLoginNote
	}
	if s.Memory {
		// One word, because otherwise the flag would take the prompt after it for another file.
		l.Args = []string{"--mcp-config=" + asJSON(object{"mcpServers": object{"mneme": object{
			"type": "http", "url": s.Origin + "/mcp", "headers": object{"Authorization": "Bearer ${" + EnvKey + "}"},
		}}})}
	}
	if s.Recall != "" {
		l.Args = append(l.Args, "--settings="+asJSON(claudeSettings(s)))
	}
	return l, nil
}

func launchCodex(s Server) (Launch, error) {
	l := Launch{Args: []string{
		"-c", `model_provider="mneme"`,
		"-c", `model_providers.mneme.name="mneme"`,
		"-c", fmt.Sprintf("model_providers.mneme.base_url=%q", s.Origin+"/v1"),
		"-c", `model_providers.mneme.wire_api="responses"`,
		"-c", fmt.Sprintf("model_providers.mneme.env_key=%q", EnvKey),
	}}
	if s.Memory {
		l.Args = append(l.Args,
			"-c", fmt.Sprintf("mcp_servers.mneme.url=%q", s.Origin+"/mcp"),
			"-c", fmt.Sprintf("mcp_servers.mneme.bearer_token_env_var=%q", EnvKey))
	}
	if s.Recall != "" {
		l.Args = append(l.Args, codexHooks(s)...)
	}
	return l, noOwnLogin(s, "codex", "with a ChatGPT login it uses another host, with a protocol of its own; use an API key at the server, or codex without mneme")
}

// opencodeConfig points opencode's providers to the server; their models keep their names.
func opencodeConfig(s Server, key string) object {
	through := func(base string) object { return object{"options": object{"baseURL": base, "apiKey": key}} }
	config := object{"provider": object{
		"openai": through(s.Origin + "/v1"),
		// Its Anthropic package sends a key as x-api-key; the server reads the other header.
		"anthropic": object{"options": object{"baseURL": s.Origin + "/v1", "apiKey": key, "headers": object{"Authorization": "Bearer " + key}}},
		"mneme": object{
			"npm": "@ai-sdk/openai-compatible", "name": "mneme",
			"options": object{"baseURL": s.Origin + "/v1", "apiKey": key},
			"models":  object{"gpt-5-mini": object{}, "gpt-5.5": object{}, "claude-sonnet-4-5": object{}, "claude-opus-4-8": object{}, "gemini-3-pro": object{}, "deepseek-chat": object{}},
		},
	}}
	if s.Memory {
		config["mcp"] = object{"mneme": object{"type": "remote", "url": s.Origin + "/mcp", "enabled": true, "headers": object{"Authorization": "Bearer " + key}}}
	}
	return config
}

func launchOpencode(s Server) (Launch, error) {
	return Launch{
		Drop: []string{anthropicKey},
		Set:  append(openAI(s), "OPENCODE_CONFIG_CONTENT="+asJSON(opencodeConfig(s, "{env:"+EnvKey+"}"))),
	}, noOwnLogin(s, "opencode", "it sends one credential, and that is mneme's key")
}

func launchQwen(s Server) (Launch, error) {
	return Launch{Set: openAI(s)}, cmp.Or(
		noOwnLogin(s, "qwen", "it sends one credential, and that is mneme's key"), noMemory(s, "qwen"))
}

func launchGemini(s Server) (Launch, error) {
	return Launch{
		Drop: googles, Set: google(s),
		Note: "any model that mneme routes works: gemini -m claude-opus-4-8",
	}, cmp.Or(noOwnLogin(s, "gemini", "it sends one credential, and that is mneme's key"), noMemory(s, "gemini"))
}

func launchAider(s Server) (Launch, error) {
	return Launch{
		Drop: []string{anthropicKey}, Set: openAI(s),
		Note: "name models as openai/NAME: aider --model openai/gpt-5.5, or any other that mneme routes",
	}, cmp.Or(noOwnLogin(s, "aider", "it sends one credential, and that is mneme's key"), noMemory(s, "aider"))
}

func launchAny(s Server) (Launch, error) {
	return Launch{Drop: append([]string{anthropicKey}, googles...), Set: slices.Concat(openAI(s), anthropic(s), google(s))},
		cmp.Or(noOwnLogin(s, "this program", "mneme does not know it"), noMemory(s, "this program"))
}

type object = map[string]any

// asJSON encodes a value that cannot fail, on one line.
func asJSON(v any) string {
	text, _ := json.Marshal(v)
	return string(text)
}
