package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"strconv"
	"text/template"
	"time"

	"github.com/mnemeproxy/mneme/server/config"
	"github.com/mnemeproxy/mneme/server/history"
)

// greeting is the text shown when the server starts: the state of each provider, and lines to paste.
type greeting struct {
	centre           bool   // it asks no models
	version, program string // program: the path of this binary from where it was started
	origin, socket   string // where clients on this machine reach it; either may be ""
	data             string
	retention        string // what is kept
	firstKey         string // shown once; "" if there are keys already
	found            []foundHistory
	simulates        bool // the simulated provider answers for OpenAI
	providers        []provision
}

var greetingText = template.Must(template.New("").Parse(`
mneme {{.Version}}{{if .Centre}}, centre of a cluster{{end}}, data in {{.Data}}; {{.Retention}}
{{if not .Centre}}
Providers
{{range .Providers}}    {{.}}
{{end}}{{end}}
{{if .FirstKey -}}
Your first service key, of account default, is shown this once:
    export MNEME_KEY={{.FirstKey}}
{{- else -}}
Have a service key in MNEME_KEY; for a new one:
    export MNEME_KEY=$({{.Program}} key create --account default{{.DataFlag}})
{{- end}}

{{if .Centre -}}
Models are asked at edges, which record for this centre
    {{.Program}} serve --edge    # with a cluster.node of its own
{{else}}{{if .Origin -}}
curl
    curl {{.Origin}}/v1/chat/completions -H "Authorization: Bearer $MNEME_KEY" -H 'Content-Type: application/json' \
      -d '{"model":"gpt-5-mini","messages":[{"role":"user","content":"Hello"}]}'
{{if .Simulated}}    # the simulated provider says what the question tells it to: "content":"[[sim: text \"Good morning.\"]]"
{{end}}OpenAI SDKs
    export OPENAI_BASE_URL={{.Origin}}/v1 OPENAI_API_KEY=$MNEME_KEY
Anthropic SDKs
    export ANTHROPIC_BASE_URL={{.Origin}} ANTHROPIC_AUTH_TOKEN=$MNEME_KEY
Claude Code
    ANTHROPIC_BASE_URL={{.Origin}} ANTHROPIC_AUTH_TOKEN=$MNEME_KEY claude
    claude mcp add --transport http mneme {{.Origin}}/mcp --header "Authorization: Bearer $MNEME_KEY"  # its memory, as tools
Codex, in ~/.codex/config.toml
    model_provider = "mneme"
    [model_providers.mneme]
    name = "mneme"
    base_url = "{{.Origin}}/v1"
    wire_api = "responses"
    env_key = "MNEME_KEY"
{{end}}{{if .Socket -}}
On the socket
    curl --unix-socket {{.Socket}} http://mneme/v1/models -H "Authorization: Bearer $MNEME_KEY"
{{end}}{{end -}}
What passed
    {{.Program}} exchange list{{.DataFlag}}

Next, in another terminal
{{if not .Centre}}    {{.Program}} wrap claude{{.DataFlag}}     # an agent on this server: also codex, opencode, qwen, gemini, aider
    {{.Program}} ui{{.DataFlag}}              # its page in a browser{{if .Origin}}: {{.Origin}}/ui/{{end}}
{{range .Found}}    {{$.Program}} import --from {{.Client}}{{$.DataFlag}}    # {{.}}
{{end}}{{end}}    {{.Program}} session list{{.DataFlag}}    # conversations
    {{.Program}} search WORDS{{.DataFlag}}    # where it was said

`))

func (g *greeting) write(w io.Writer) error {
	return greetingText.Execute(w, map[string]any{
		"Centre": g.centre, "Version": g.version, "Program": g.program, "Origin": g.origin, "Socket": g.socket, "Data": g.data, "DataFlag": dataFlag(g.data),
		"FirstKey": g.firstKey, "Found": g.found, "Simulated": g.simulates, "Providers": g.providerLines(), "Retention": g.retention,
	})
}

// foundHistory is what an agent on this machine keeps of its conversations.
type foundHistory struct {
	Client   string
	sessions int
}

func (f foundHistory) String() string {
	return fmt.Sprintf("%s found", counted(f.sessions, map[string]string{"claude-code": "Claude Code session", "codex": "Codex session"}[f.Client]))
}

// findHistories returns what agents of this user keep that can be imported.
func findHistories(ctx context.Context) (found []foundHistory) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil
	}
	for _, name := range []string{"claude-code", "codex"} {
		if n := history.Count(ctx, name, &history.Search{Home: home, Lookup: os.LookupEnv}); n > 0 {
			found = append(found, foundHistory{name, n})
		}
	}
	return found
}

func (g *greeting) providerLines() []string {
	lines := make([]string, len(g.providers))
	for i, p := range g.providers {
		lines[i] = fmt.Sprintf("%-10s %v", p.provider, p)
	}
	return lines
}

// kept describes how long and how much is kept.
func kept(r config.Retention) string {
	age := r.MaxAge.String()
	if days := time.Duration(r.MaxAge) / (24 * time.Hour); days > 1 {
		age = fmt.Sprintf("%d days", days)
	}
	return fmt.Sprintf("of each account %s and at most %s are kept (retention)", age, r.MaxBytes)
}

// dataFlag returns the flag that commands need to find the data from the same directory.
func dataFlag(data string) string {
	if data == config.StandardData(os.LookupEnv) {
		return ""
	}
	return " --data " + strconv.Quote(data)
}
