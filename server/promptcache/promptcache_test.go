package promptcache_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/mnemeproxy/mneme/server/promptcache"
)

func TestHostsWhoseCachesLiveForAnUnknownTimeHaveNone(t *testing.T) {
	for _, c := range []struct {
		provider, format, model string
		life                    time.Duration
	}{
		{"anthropic", "messages", "claude-opus-4-8", 5 * time.Minute},
		{"gateway", "messages", "claude-opus-4-8", 5 * time.Minute},
		{"openai", "responses", "gpt-5.5", 10 * time.Minute},
		{"openai", "responses", "gpt-5.6-sol", 30 * time.Minute},
		{"openai", "chat", "gpt-6", 30 * time.Minute},
		{"openai", "chat", "o3", 10 * time.Minute},
		{"local", "chat", "gpt-5.6", 0},
		{"google", "gemini", "gemini-3-pro", 0},
	} {
		if life := promptcache.Life(c.provider, c.format, c.model); life != c.life {
			t.Errorf("%s, %s, %s: %v, want %v", c.provider, c.format, c.model, life, c.life)
		}
	}
}

// Gemini's clients declare all functions in one tool; caches and reports go by the function.
func TestEachFunctionIsABlockInEveryFormat(t *testing.T) {
	for name, body := range map[string]string{
		"chat":               `{"tools":[{"type":"function","function":{"name":"read"}},{"type":"function","function":{"name":"write"}}],"messages":[{"role":"user","content":"hi"}]}`,
		"messages":           `{"tools":[{"name":"read"},{"name":"write"}],"messages":[{"role":"user","content":"hi"}]}`,
		"gemini":             `{"tools":[{"functionDeclarations":[{"name":"read"},{"name":"write"}]}],"contents":[{"parts":[{"text":"hi"}]}]}`,
		"gemini, snake case": `{"tools":[{"function_declarations":[{"name":"read"}]},{"function_declarations":[{"name":"write"}]}],"contents":[{"parts":[{"text":"hi"}]}]}`,
	} {
		var tools []string
		for _, b := range promptcache.Prefix([]byte(body)) {
			if b.Kind == "tools" {
				tools = append(tools, fmt.Sprint(b.Index, promptcache.ToolName(b.Text)))
			}
		}
		if want := []string{"0read", "1write"}; !slices.Equal(tools, want) {
			t.Errorf("%s: %q, want %q", name, tools, want)
		}
	}
}
